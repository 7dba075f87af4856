"""The metrics at a run's end: read once, drawn by `summary`, also when a log is replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ridgeline.cli.views.ages import ages_table, sink_ages
from ridgeline.cli.views.backlog import sources_table
from ridgeline.cli.views.path import average_path, slack_text
from ridgeline.cli.views.verdict import sentence_text
from ridgeline.cli.views.window_time import window_time_table
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.operators import RecordAgesAnswer
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.sentence import SentenceAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer, LatencyAnswer, WindowSummaryAnswer
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.units import plural

AVERAGED = 10
"""Windows that the critical path of the averages is over."""


class RunAnswers(Protocol):
    """Answers what a run's end shows: `ridgeline.observe.watch.Watch`, or a measurement as of some time."""

    def latencies(self, limit: int) -> Sequence[LatencyAnswer]:
        """Those of the last windows."""

    def windows(self, limit: int | None = None) -> Sequence[WindowSummaryAnswer]:
        """As `/windows`."""

    def overview(self) -> OverviewAnswer:
        """All of one moment."""


@dataclass(frozen=True, slots=True)
class Report:
    """Plain data: window summaries, mean own latencies in milliseconds by operator, and answers."""

    at: float
    windows: Sequence[WindowSummaryAnswer]
    own_ms: Mapping[str, float]
    path: CriticalPathAnswer
    ages: RecordAgesAnswer
    progress: ProgressAnswer
    sentence: SentenceAnswer
    estimated: frozenset[str] = frozenset()
    """The operators whose `own_ms` are estimates."""


def read_report(answers: RunAnswers, at: float) -> Report:
    """Read all that a run's end shows; `at` is STRAM's wall clock."""
    windows = answers.windows()
    latencies = answers.latencies(AVERAGED)
    own = own_averages(latencies)
    estimated = frozenset(
        row["operator"] for latency in latencies for row in latency["operators"] if row.get("estimated")
    )
    overview = answers.overview()
    path, ages, progress = overview["criticalPath"], overview["recordAge"], overview["progress"]
    return Report(at, windows, own, path, ages, progress, sentence_of(overview), estimated)


def own_averages(latencies: Sequence[LatencyAnswer]) -> dict[str, float]:
    """Mean own latency (compute and transfer) in milliseconds by operator, where it reported."""
    found: dict[str, list[float]] = {}
    for latency in latencies:
        for operator in latency["operators"]:
            if operator["latencyMs"] is not None:
                own = (operator["computeMs"] or 0.0) + (operator["transferMs"] or 0.0)
                found.setdefault(operator["operator"], []).append(own)
    return {title: sum(values) / len(values) for title, values in found.items()}


def report_parts(report: Report, width: int) -> Iterator[RenderableType]:
    """Critical path of the averages, slack, what windows spent their time on, record ages, sources.

    What is not known is left out.
    """
    path = average_path(report.path, report.own_ms, width, report.estimated)
    if path:
        averaged = min(AVERAGED, len(report.windows))
        yield Text()
        yield Text(
            f"critical path, average of the last {plural(averaged, 'window')} (in brackets: share of "
            "windows on the path):"
        )
        yield path
        slack = slack_text(report.path, width)
        if slack:
            yield slack
    later = report.windows[1:]  # the first one waits for workers to start
    if later:
        yield Text()
        yield Text(f"where a window's time goes, average of {plural(len(later), 'window')}:")
        yield window_time_table(later, width)
    sinks = sink_ages(report.ages)
    if any(sink["count"] for sink in sinks):
        yield Text()
        yield Text("record age at the sinks in the last minute, when committed:")
        yield ages_table(sinks, width)
    yield Text()
    yield sentence_text(report.sentence)
    sources = sources_table(report.progress, width, report.at)
    if sources is not None:
        yield sources
