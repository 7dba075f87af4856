"""Tables: plans, operators, containers, regions, watermarks, windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import drawn, flow
from ridgeline.cli.views.running import queues_table, sentence_line
from ridgeline.measure.answers.application import InfoAnswer
from ridgeline.measure.answers.operators import PortRefAnswer
from ridgeline.measure.answers.regions import RegionsAnswer
from ridgeline.measure.answers.watermarks import WatermarkAnswer
from ridgeline.measure.answers.windows import BlameStepAnswer, WindowSummaryAnswer
from ridgeline.measure.wording.times import STEPS
from ridgeline.measure.wording.units import (
    count,
    duration,
    milliseconds,
    rate,
    time_of_day,
)
from ridgeline.service.columns import Column, noted, words
from ridgeline.service.http.answers import (
    LogicalPlanAnswer,
    LogicalPlanOperatorAnswer,
    LogicalPortRefAnswer,
    PhysicalPlanAnswer,
)
from ridgeline.service.tables import STATES, warned

Rows = Sequence[Mapping[str, Any]]

_INFO: Mapping[str, Callable[[Any], str]] = {
    "startTime": time_of_day,
    **dict.fromkeys(("elapsedTime", "windowSeconds"), duration),
    **dict.fromkeys(("latency", "windowLatency"), milliseconds),
    **dict.fromkeys(("tuplesProcessedPSMA", "tuplesEmittedPSMA"), rate),
}


def info_lines(info: InfoAnswer, width: int) -> list[RenderableType]:
    """The application as a whole: a name and a value a line, with the names of REST."""
    stats = info["stats"]
    lines: list[RenderableType] = [Text(info.get("name") or "", "bold")]
    for name, value in {**info, **info.get("propertiesKept", {}), **stats}.items():
        if name != "name" and isinstance(value, (str, int, float)) and value != "":
            text = _INFO.get(name, str if isinstance(value, str) else count)(value)
            lines.append(Text.assemble((f"  {name:<24} ", "dim"), text))
    if stats.get("criticalPath"):
        titles = [
            Text(f"{'> ' if number else ''}{title}") for number, title in enumerate(stats["criticalPath"])
        ]
        lines.append(flow([Text("  criticalPath", "dim"), *titles], width, indent=14))
    return lines


_WINDOWS = (
    Column("window", "windowId", count, "bold"),
    Column("committed", "committedAt", time_of_day, keep=3),
    Column("latency", "latencyMs", milliseconds),
    Column("late", "lateMs", milliseconds, keep=2),
    Column("path", "criticalPathMs", milliseconds),
    Column("in", "tuplesIn", count),
    Column("out", "tuplesOut", count),
    Column("attempts", "attempts", count, lambda attempts: warned(attempts > 1), keep=1),
    words("critical path", "path", " > ".join),
)


def windows_table(windows: Rows, width: int) -> Table:
    """Committed windows, the newest last."""
    several = len({window.get("planVersion") for window in windows}) > 1
    return drawn((*_WINDOWS, Column("plan", "planVersion")) if several else _WINDOWS, windows, width)


def _ports(operator: LogicalPlanOperatorAnswer, kind: str) -> str:
    return ", ".join(
        port["name"] for port in operator["ports"] if port["type"] == kind and port.get("connected", True)
    )


def _end(end: LogicalPortRefAnswer) -> str:
    return f"{end['operatorName']}.{end['portName']}"


_LOGICAL = (
    words("operator", "name", style="bold"),
    words("class", lambda row: row["class"].rpartition(".")[2], keep=1),
    words("inputs", partial(_ports, kind="input")),
    words("outputs", partial(_ports, kind="output")),
    Column("partitions", lambda row: row["attributes"].get("partitions") or 1, keep=2),
)
_STREAMS = (
    words("stream", "name", style="bold"),
    words("from", "source", _end),
    words("to", "sinks", lambda ends: ", ".join(map(_end, ends))),
    noted("locality", "locality", keep=1, optional=True),
)
_PHYSICAL = (
    Column("id", "id"),
    words("operator", "operator", style="bold"),
    words("class", lambda row: row["className"].rpartition(".")[2], keep=1),
    words("kind", lambda row: "unifier" if row["unifierClass"] else row["kind"], keep=2),
    Column("stage", "stage"),
    Column("container", "container"),
)


def logical_plan(plan: LogicalPlanAnswer, width: int) -> list[RenderableType]:
    """Operators with class and connected ports, then streams."""
    return [drawn(_LOGICAL, plan["operators"], width), Text(), drawn(_STREAMS, plan["streams"], width)]


def physical_plan(plan: PhysicalPlanAnswer, width: int) -> list[RenderableType]:
    """Physical operators with container and stage, then who reads from whom."""
    titles = {operator["id"]: operator["operator"] for operator in plan["operators"]}

    def end(one: PortRefAnswer) -> str:
        return f"{titles.get(one['operatorId'], one['operatorId'])}.{one['portName']}"

    streams = (
        words("stream", "logicalName", style="bold"),
        words("from", "source", end),
        words("to", "sinks", lambda ends: ", ".join(map(end, ends))),
    )
    return [drawn(_PHYSICAL, plan["operators"], width), Text(), drawn(streams, plan["streams"], width)]


_NAMED = 2


def _watermark(row: WatermarkAnswer) -> Text:
    """`2026-01-01 12:00:05`, in UTC; else its state."""
    if row["watermark"] is None:
        return Text(row["state"], "dim")
    time = datetime.fromtimestamp(row["watermark"], UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    return Text(time.removesuffix(".000"), "dim" if row["state"] == "idle" else "")


def _titles(titles: Sequence[str]) -> str:
    """`source[0], source[1] and 3 more`."""
    more = len(titles) - _NAMED
    return ", ".join(titles[:_NAMED]) + (f" and {more} more" if more > 0 else "")


_WATERMARKS = (
    words("operator", "operator", style="bold"),
    words("watermark", _watermark),
    Column("behind", "lagSeconds", duration, unknown=""),
    words("held back by", "heldBackBy", _titles, keep=2),
    words("idle", "idleInputs", _titles, keep=1, optional=True),
    Column("late", "lateRecords", count, warned),
    Column("ahead", "recordsAhead", count, warned, optional=True),
)


def watermarks_table(rows: Sequence[WatermarkAnswer], width: int) -> Table:
    """The rows of `/watermarks`."""
    return drawn(_WATERMARKS, rows, width)


SMALL = 0.01
"""Steps of less than this part of a window are put together with others of their kind."""


def average_phases(windows: Sequence[WindowSummaryAnswer]) -> dict[str, float]:
    """Milliseconds a window by what they went to, by the blame chains; their sum is the mean latency."""
    sums: dict[str, float] = {}
    for window in windows:
        for what, ms in window["phases"].items():
            sums[what] = sums.get(what, 0.0) + ms
    return {what: ms / len(windows) for what, ms in sums.items()}


def window_time_table(windows: Sequence[WindowSummaryAnswer], width: int) -> Table:
    """The parts of a window's time on average, the largest first; the last row is the sum."""
    found = sorted(average_phases(windows).items(), key=lambda part: -part[1])
    return _shares([(STEPS.get(what, what), "", ms) for what, ms in found], width)


def blame_table(blame: Sequence[BlameStepAnswer], width: int) -> Table:
    """A window's blame chain from trigger to commit, small steps put together, and the sum."""
    whole = sum(step["ms"] for step in blame)
    rows = [
        (STEPS.get(step["what"], step["what"]), step["operator"], step["ms"])
        for step in blame
        if step["ms"] >= SMALL * whole
    ]
    if len(rows) < len(blame):
        rows.append((f"{len(blame) - len(rows)} small steps", "", whole - sum(ms for _, _, ms in rows)))
    return _shares(rows, width)


def _shares(rows: Sequence[tuple[str, str, float]], width: int) -> Table:
    """What, whose and how many milliseconds, as a table with the sum of all below."""
    whole = sum(ms for _, _, ms in rows)
    columns = (
        words("what", lambda row: Text(row[0], "" if row[3] else "bold")),
        words("operator", lambda row: row[1], optional=True),
        Column("time", lambda row: Text(milliseconds(row[2]), "" if row[3] else "bold")),
        Column("share", lambda row: row[3], style="dim", keep=1),
    )
    parts = [(*row, f"{row[2] / (whole or 1.0):.0%}") for row in rows]
    return drawn(columns, [*parts, ("window", "", whole, "")], width)


def regions_parts(answer: RegionsAnswer, width: int) -> list[RenderableType]:
    """All of `/regions`: the verdict, the regions, and their queues."""
    if not answer["regions"]:
        return [Text("the application is one region: no stream is decoupled")]
    queues = [queue for region in answer["regions"] for queue in region["reads"]]
    errors = [
        Text(f"{region['name']}: {region['error']}", "bold red")
        for region in answer["regions"]
        if region["error"]
    ]
    parts: list[RenderableType] = [sentence_line(answer["sentence"])] if answer["sentence"] else []
    return [*parts, drawn(_REGIONS, answer["regions"], width), *errors, queues_table(queues, width)]


_REGIONS = (
    words("region", "name", style="bold"),
    words("state", "state", levels=STATES),
    Column("width", "windowSeconds", duration, keep=1),
    Column("committed", "committedWindow", count),
    Column("latency", "latencyMs", milliseconds, keep=2),
    words("operators", "operators", ", ".join),
)
