"""The summary of a run, printed at its end; its metrics also when a log is replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.tables import drawn
from ridgeline.cli.views.lists import window_time_table
from ridgeline.cli.views.path import average_path, slack_text
from ridgeline.cli.views.running import sentence_text, sources_table
from ridgeline.cli.views.screen import ages_table, sink_ages
from ridgeline.measure.answers.application import (
    OperatorTotalsAnswer,
    OverviewAnswer,
    RunSummaryAnswer,
)
from ridgeline.measure.answers.windows import LatencyAnswer, WindowSummaryAnswer
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import STEPS
from ridgeline.measure.wording.units import count, duration, milliseconds, plural
from ridgeline.service.columns import Column, words
from ridgeline.service.tables import warned

if TYPE_CHECKING:
    from ridgeline.engine.driver.run.options import Outcome
    from ridgeline.observe.watch import Watch

AVERAGED = 10
"""Windows that the critical path of the averages is over."""
_MUCH = 3.0
"""Times the typical windows: so slow a window is named."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is known at a run's end, as plain data. `at`: STRAM's wall clock."""

    at: float
    windows: Sequence[WindowSummaryAnswer]
    latencies: Sequence[LatencyAnswer]
    overview: OverviewAnswer


def read_report(answers: Watch, at: float) -> Report:
    """Read all that a run's end shows; `at` is STRAM's wall clock."""
    return Report(at, answers.windows(), answers.latencies(AVERAGED), answers.overview())


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
    overview, rows = report.overview, [row for one in report.latencies for row in one["operators"]]
    estimated = {row["operator"] for row in rows if row.get("estimated")}
    path = average_path(overview["criticalPath"], own_averages(report.latencies), width, estimated)
    if path:
        averaged = min(AVERAGED, len(report.windows))
        yield Text()
        yield Text(
            f"critical path, average of the last {plural(averaged, 'window')} (in brackets: share of "
            "windows on the path):"
        )
        yield path
        slack = slack_text(overview["criticalPath"], width)
        if slack:
            yield slack
    later = report.windows[1:]  # the first one waits for workers to start
    if later:
        yield Text()
        by_time = sorted(later, key=lambda window: window["latencyMs"])
        typical = by_time[len(later) // 4 : len(later) - len(later) // 4]
        yield Text(f"where the time of a typical window goes (the middle half of {len(later)} by latency):")
        yield window_time_table(typical, width)
        if (slowest := by_time[-1])["latencyMs"] > _MUCH * typical[-1]["latencyMs"]:
            what, ms = max(slowest["phases"].items(), key=lambda phase: phase[1])
            took = f"window {count(slowest['windowId'])} took {milliseconds(slowest['latencyMs'])}"
            yield Text(f"the slowest: {took}, of it {STEPS.get(what, what)} {milliseconds(ms)}")
    sinks = sink_ages(overview["recordAge"])
    if any(sink["count"] for sink in sinks):
        yield Text()
        yield Text("record age at the sinks in the last minute, when committed:")
        yield ages_table(sinks, width)
    yield Text()
    yield sentence_text(sentence_of(overview))
    sources = sources_table(overview["progress"], width, report.at)
    if sources is not None:
        yield sources


WIDEST = 100
"""Columns that the figures at a run's end take at most."""


def ended_line(outcome: Outcome, stopped_by: str) -> str:
    """How the run ended: `finished`, `stopped after 20 windows`, `stopped by Ctrl-C`."""
    if outcome.ended and not outcome.windows_committed:
        return f"nothing to do: all inputs had finished with window {outcome.last_window}"
    windows = plural(outcome.windows_committed, "window")
    if outcome.ended:
        return f"finished: all inputs have given everything, {windows} committed"
    if stopped_by:
        return (
            f"stopped by {stopped_by} after {windows}"
            if outcome.windows_committed
            else f"stopped by {stopped_by} before the first window"
        )
    return f"stopped after {windows}"


def print_summary(
    console: Console,
    outcome: Outcome,
    metrics: tuple[RunSummaryAnswer, Report] | None,
    settings: RunSettings,
    stopped_by: str,
    collected: Iterable[Text] = (),
) -> None:
    """Print how it ended, what operators did, where time went, what was `collected`, and how to continue."""
    console.print()
    say(console, Text(ended_line(outcome, stopped_by), "bold green" if outcome.ended else "bold"))
    if metrics is not None:
        print_metrics(console, *metrics)
    for line in collected:
        say(console, line)
    print_continuation(console, settings, outcome.checkpoint, ended=outcome.ended)


def print_metrics(console: Console, run: RunSummaryAnswer, report: Report) -> None:
    """Print the metrics of a run; nothing if no window was committed."""
    if run["last"] is None:
        return
    width = min(console.width, WIDEST)
    for part in summary(run, width):
        say(console, part)
    for part in report_parts(report, width):
        say(console, part)
    for part in (*errors(run), *promises(run)):
        say(console, part)


def print_continuation(
    console: Console, settings: RunSettings, checkpoint: str, *, ended: bool = False
) -> None:
    """Say what the checkpoint folder is good for now; nothing if it was a temporary one that is removed."""
    if ended and settings.options.checkpoint is None:
        return
    console.print()
    if ended:
        say(console, Text(f"the run's state is in {checkpoint}; it is not needed any more", "dim"))
    else:
        say(console, Text("go on with:", "dim"))
        console.print(Text(f"  {settings.command(checkpoint)}"), soft_wrap=True)


def say(console: Console, part: RenderableType) -> None:
    """Print; only terminals wrap texts, at words; tables are at most `WIDEST` wide."""
    if isinstance(part, Text):
        console.print(part, soft_wrap=not console.is_terminal)
    else:
        console.print(part, width=min(console.width, WIDEST))


def summary(run: RunSummaryAnswer, width: int) -> Iterator[RenderableType]:
    """Windows and their times, operators; nothing if no window was committed."""
    last, started, committed = run["last"], run["startedAt"], run["committedAt"]
    if last is None or started is None or committed is None:
        return
    windows = f"window {last['windowId']}"
    first_window = last["windowId"] - run["windows"] + 1
    if first_window < 0:  # of several regions, each with numbers of its own
        windows = plural(run["windows"], "window")
    elif run["windows"] > 1:
        windows = f"windows {first_window} to {last['windowId']}"
    repeated = f", {plural(run['retries'], 'attempt')} repeated" if run["retries"] else ""
    tasks = (
        f", {plural(run['tasksRetried'], 'task')} begun again by Spark: processes were lost"
        if run["tasksRetried"]
        else ""
    )
    slots = f", {plural(run['slotsLost'], 'slot')} lost and started again" if run["slotsLost"] else ""
    yield Text(f"{windows} in {duration(committed - started)}{repeated}{tasks}{slots}")
    first, median, p90 = run["firstSeconds"] or 0.0, run["medianSeconds"], run["p90Seconds"]
    line = f"window time: {duration(first)}"
    if median is not None and p90 is not None:
        line = (
            f"window time: median {duration(median)}, 90% within {duration(p90)}; the first one "
            f"{duration(first)}"
        )
    yield Text(line)
    yield Text()
    yield totals_table(run["operators"], width)


def errors(run: RunSummaryAnswer) -> Iterator[RenderableType]:
    """Tuples that failed, windows that were dropped, and records that were late."""
    late = (
        "records that came after their time was over: they are in no result, and leave at the port "
        "`late` if a stream reads it; a larger `lateness` of the input takes them in"
    )
    failed = [f"{one['operator']}, window {one['windowId']}: {one['text']}" for one in run["errorTuples"]]
    windows, drops = partial(plural, noun="window"), run["drops"]
    counted: Sequence[tuple[str, str, Callable[[int], str], str, Sequence[str]]] = (
        ("errors", "errors", count, "", failed),
        ("dropped (AT_MOST_ONCE)", "windowsDropped", windows, "; the last ones:", drops),
        ("late", "lateRecords", count, "", [late]),
    )
    for title, name, form, end, texts in counted:
        rows: Sequence[Any] = run["operators"]
        if names := ", ".join(f"{row['operator']} {form(row[name])}" for row in rows if row[name]):
            yield from (Text(), Text(f"{title}: {names}{end}", "yellow"))
            yield from (Text(f"  {text}") for text in texts)


def promises(run: RunSummaryAnswer) -> Iterator[RenderableType]:
    """Which promises were broken, and for how long; that all were kept, or nothing without any."""
    rows = run["promises"]
    if not rows:
        return
    broken = [row for row in rows if row["timesBroken"]]
    yield Text()
    if not broken:
        unknown = sum(row["kept"] is None for row in rows)
        more = f"; nothing can be said of {unknown}" if unknown else ""
        yield Text(f"{plural(len(rows) - unknown, 'promise')} kept{more}", "" if unknown else "green")
    for row in broken:
        now = "" if row["kept"] else ", still at the end"
        yield Text(
            printable(
                f"promise {row['promise']} was broken for {duration(row['brokenSeconds'])} "
                f"({plural(row['timesBroken'], 'time')}{now})"
            ),
            "red",
        )


_TOTALS = (
    Column("partitions", "partitions", lambda number: count(number) if number else "gone", keep=1),
    Column("in", "tuplesIn", count, keep=5),
    Column("out", "tuplesOut", count),
)
_FAULTS = (
    Column("errors", "errors", count, warned, keep=4, optional=True),
    Column("dropped windows", "windowsDropped", count, warned, keep=3, optional=True),
)


def totals_table(rows: Sequence[OperatorTotalsAnswer], width: int) -> Table:
    """Operators with their tuples and compute time. Errors and drops only where there are any.

    Those that a change has removed come last.
    """
    slowest = max((row["seconds"] for row in rows), default=0.0) if len(rows) > 1 else None

    def spent(row: OperatorTotalsAnswer) -> Text:
        return Text(duration(row["seconds"]), "bold" if row["seconds"] == slowest else "")

    def per_window(row: OperatorTotalsAnswer) -> float:
        return row["seconds"] / max(1, row["windows"])

    columns = (
        words("operator", "operator"),
        *_TOTALS,
        Column("time", spent),
        Column("per window", per_window, duration, keep=2),
        *_FAULTS,
    )
    return drawn(columns, rows, width)
