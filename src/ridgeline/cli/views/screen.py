"""One overview as a screen: sentence, window, critical path, operators, ages, backlog, what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.tables import flow
from ridgeline.cli.views.ages import sink_lines
from ridgeline.cli.views.backlog import sources_table
from ridgeline.cli.views.lines import hottest_line
from ridgeline.cli.views.operators import operators_figures
from ridgeline.cli.views.own_metrics import metrics_lines
from ridgeline.cli.views.path import path_text, rest_text
from ridgeline.cli.views.running import running_lines
from ridgeline.cli.views.verdict import sentence_text
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.lines import OperatorLinesAnswer
from ridgeline.measure.answers.own_metrics import MetricsAnswer
from ridgeline.measure.changes import text_of
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.units import count, duration, milliseconds, plural, rate

_FEWEST_ROWS = 3
_NEWS_SECONDS = 60.0
_HEAD_LINES = 3  # of the operators' table, its legend and what may come below


def screen(
    overview: OverviewAnswer,
    width: int,
    height: int | None = None,
    metrics: MetricsAnswer | None = None,
    lines: OperatorLinesAnswer | None = None,
) -> list[RenderableType]:
    """The screen while an application runs. Operators get the lines that are left of `height`.

    Args:
        overview: As `/events` sends it.
        width: Columns.
        height: Lines; None: as many as it needs.
        metrics: Those that operators declare, as `/metrics`; None: they are not shown.
        lines: Where the time of the operator to blame goes; its hottest line is shown. None: none is.
    """
    progress = overview["progress"]
    sentence = sentence_text(sentence_of(overview))
    above: list[Text] = [flow(list(sentence.split(" ")), width), window_line(overview, width)]
    above += [*change_lines(overview), *promise_lines(overview)]
    above += [
        line
        for line in (path_text(overview["criticalPath"], width), rest_text(overview["criticalPath"], width))
        if line
    ]
    if lines is not None and (line := hottest_line(lines)):
        named = Text(f"hot line of {printable(lines['operator'])}", "dim")
        above.append(flow([named, *line.split(" ")], width, indent=2))
    own = metrics_lines(metrics, width) if metrics is not None else []
    below: list[RenderableType] = [*own, *sink_lines(overview["recordAge"])]
    height_below = len(below) + sum(line.plain.count("\n") for line in own)
    sources = sources_table(progress, width, overview["at"])
    if sources is not None:
        below.append(sources)
        height_below += sources.row_count + 1
    running = running_lines(progress)
    limit = None
    if height is not None:
        used = sum(1 + line.plain.count("\n") for line in above) + height_below + len(running) + _HEAD_LINES
        limit = max(_FEWEST_ROWS, height - used)
    return [*above, *operators_figures(overview["operators"], width, limit), *below, *running]


def promise_lines(overview: OverviewAnswer) -> list[Text]:
    """The promises that are broken, a line each; in a line that all are kept, or nothing without any."""
    rows = overview.get("promises", [])
    broken = [row for row in rows if row["kept"] is False]
    lines = []
    for row in broken:
        since = duration(max(0.0, overview["at"] - row["since"]))
        lines.append(Text(printable(f"promise {row['promise']} is broken for {since}"), "bold red"))
    if rows and all(row["kept"] for row in rows):
        lines.append(Text(f"{plural(len(rows), 'promise')} kept", "green"))
    return lines


def change_lines(overview: OverviewAnswer) -> list[Text]:
    """The newest change, while it waits and for a minute after that; one that was refused in colour."""
    change = overview.get("change")
    if change is None or (change["state"] != "QUEUED" and overview["at"] - change["since"] > _NEWS_SECONDS):
        return []
    return [Text(printable(text_of(change)), "yellow" if change["state"] == "REFUSED" else "cyan")]


def window_line(overview: Mapping[str, Any], width: int) -> Text:
    """The window, its latency and lateness, and tuples per second into and out of the application."""
    window, operators = overview.get("window") or {}, overview["operators"]
    pieces = [
        _named("window", count(overview["windowId"])),
        _named("latency", milliseconds(overview["criticalPath"].get("windowLatencyMs"))),
    ]
    if window.get("lateMs") is not None:
        pieces.append(_named("late", milliseconds(window["lateMs"])))
    for title, kind, name in (
        ("in/s", "input", "tuplesEmittedPSMA"),
        ("out/s", "output", "tuplesProcessedPSMA"),
    ):
        pieces.append(
            _named(
                title, rate(sum(operator[name] or 0.0 for operator in operators if operator["kind"] == kind))
            )
        )
    return flow(pieces, width)


def _named(name: str, value: str) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold"), " ")
