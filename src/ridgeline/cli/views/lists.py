"""Tables: plans, operators, containers, regions, watermarks, windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted, flow
from ridgeline.cli.views.running import queues_table, sentence_line
from ridgeline.measure.answers.application import InfoAnswer
from ridgeline.measure.answers.operators import PortRefAnswer
from ridgeline.measure.answers.regions import RegionAnswer, RegionsAnswer
from ridgeline.measure.answers.watermarks import WatermarkAnswer
from ridgeline.measure.answers.windows import BlameStepAnswer, WindowSummaryAnswer
from ridgeline.measure.registry.operator_metric import TerminalColumn
from ridgeline.measure.registry.operators import OPERATOR_METRICS
from ridgeline.measure.wording.times import STEPS
from ridgeline.measure.wording.units import (
    UNKNOWN,
    about,
    count,
    duration,
    milliseconds,
    percent,
    percentile,
    rate,
    size,
    time_of_day,
)
from ridgeline.service.http.answers import (
    LogicalPlanAnswer,
    LogicalPlanOperatorAnswer,
    LogicalPortRefAnswer,
    PhysicalPlanAnswer,
)

STATES: Mapping[str, str] = {
    "ACTIVE": "green",
    "RUNNING": "green",
    "PAUSED": "cyan",
    "SILENT": "bold red",
    "FAILED": "bold red",
    "PENDING": "dim",
    "INACTIVE": "dim",
}

Rows = Sequence[Mapping[str, Any]]
_OPERATOR_COLUMNS = [(row.name, row.column) for row in OPERATOR_METRICS if row.column is not None]
_LATENCY_COLUMNS = [("windowsBehind", TerminalColumn("behind", count, unless_zero=True))]


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


def operators_list(operators: Rows, width: int) -> Table:
    """Physical operators: where they run and what they do."""
    columns: Columns = {
        "id": [Text(str(operator["id"])) for operator in operators],
        "operator": [Text(operator["operator"], "bold") for operator in operators],
        "status": [Text(operator["status"], STATES.get(operator["status"], "")) for operator in operators],
        "container": [Text(str(operator["container"])) for operator in operators],
        "host": [Text(operator["host"] or UNKNOWN) for operator in operators],
        **_metric_columns(operators, _OPERATOR_COLUMNS),
    }
    keep = {"host": 1, "container": 8, **{column.title: column.keep for _, column in _OPERATOR_COLUMNS}}
    return fitted(columns, width, sorted(keep, key=keep.__getitem__), left=("operator", "status", "host"))


def _metric_columns(operators: Rows, shown: Sequence[tuple[str, TerminalColumn]]) -> Columns:
    """Columns of the table of metrics. `shown`: field of the answer, column."""
    return {
        column.title: [
            Text(
                about(column.show(value), column.show in _TIMES and row.get("estimated"))
                if value is not None
                else UNKNOWN,
                ("yellow" if value else "dim") if column.warns else "",
            )
            for row, value in zip(operators, values, strict=True)
        ]
        for name, column in shown
        for values in ([operator.get(name) for operator in operators],)
        if any(values) or not column.unless_zero
    }


def containers_table(containers: Rows, width: int) -> Table:
    """Containers: where they run, and which operators."""
    columns: Columns = {
        "id": [Text(str(container["id"])) for container in containers],
        "state": [Text(container["state"], STATES.get(container["state"], "")) for container in containers],
        "host": [Text(container["host"] or UNKNOWN) for container in containers],
        "pid": [Text(_number(container["pid"])) for container in containers],
        "stage": [Text(_number(container["stage"])) for container in containers],
        "last heartbeat": [Text(_ago(container["heartbeatAgeSeconds"])) for container in containers],
        "sent": [Text(size(container["bytesOut"])) for container in containers],
        "operators": [Text(", ".join(container["operators"].values())) for container in containers],
    }
    if any(container.get("memoryBytes") is not None for container in containers):
        columns["memory"] = [Text(size(container.get("memoryBytes"))) for container in containers]
    dispensable = ("memory", "sent", "stage", "pid", "host")
    return fitted(columns, width, dispensable, left=("state", "host", "operators"))


def windows_table(windows: Rows, width: int) -> Table:
    """Committed windows, the newest last."""
    columns: Columns = {
        "window": [Text(count(window["windowId"]), "bold") for window in windows],
        "committed": [Text(time_of_day(window["committedAt"])) for window in windows],
        "latency": [Text(milliseconds(window["latencyMs"])) for window in windows],
        "late": [Text(milliseconds(window["lateMs"])) for window in windows],
        "path": [Text(milliseconds(window["criticalPathMs"])) for window in windows],
        "in": [Text(count(window["tuplesIn"])) for window in windows],
        "out": [Text(count(window["tuplesOut"])) for window in windows],
        "attempts": [
            Text(count(window["attempts"]), "yellow" if window["attempts"] > 1 else "dim")
            for window in windows
        ],
        "critical path": [Text(" > ".join(window["path"])) for window in windows],
    }
    plans = [window.get("planVersion") for window in windows]
    if len(set(plans)) > 1:
        columns["plan"] = [Text(_number(plan)) for plan in plans]
    return fitted(columns, width, ("attempts", "late", "committed"), left=("critical path",))


def latency_table(operators: Rows, width: int) -> Table:
    """Latencies of all physical operators in a window, and over all windows."""
    columns: Columns = {"operator": [Text(operator["operator"], "bold") for operator in operators]}
    for title, name in (
        ("latency", "latencyMs"),
        ("compute", "computeMs"),
        ("cpu", "cpuMs"),
        ("wait", "waitMs"),
        ("transfer", "transferMs"),
        ("average", "averageMs"),
    ):
        columns[title] = [
            Text(about(milliseconds(operator.get(name)), name not in _MEASURED and operator.get("estimated")))
            for operator in operators
        ]
    for title, name in (("p50", "p50Ms"), ("p99", "p99Ms")):
        columns[title] = [Text(percentile(operator.get(name))) for operator in operators]
    columns |= _metric_columns(operators, _LATENCY_COLUMNS)
    return fitted(columns, width, ("average", "p50", "transfer", "wait", "cpu", "compute"))


def _number(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _ago(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{duration(seconds)} ago"


_MEASURED = ("waitMs", "transferMs")
"""The times of an operator that are no shares of the time of a query."""
_TIMES = (milliseconds, percent)
"""The columns that are made of an operator's times show them so."""


def logical_plan(plan: LogicalPlanAnswer, width: int) -> list[RenderableType]:
    """Operators with class and connected ports, then streams."""
    operators, streams = plan["operators"], plan["streams"]
    columns: Columns = {
        "operator": [Text(operator["name"], "bold") for operator in operators],
        "class": [Text(operator["class"].rpartition(".")[2]) for operator in operators],
        "inputs": [Text(_ports(operator, "input")) for operator in operators],
        "outputs": [Text(_ports(operator, "output")) for operator in operators],
        "partitions": [Text(str(operator["attributes"].get("partitions") or 1)) for operator in operators],
    }
    flows: Columns = {
        "stream": [Text(stream["name"], "bold") for stream in streams],
        "from": [Text(_end(stream["source"])) for stream in streams],
        "to": [Text(", ".join(map(_end, stream["sinks"]))) for stream in streams],
        "locality": [Text(stream.get("locality") or "") for stream in streams],
    }
    if not any(stream.get("locality") for stream in streams):
        del flows["locality"]
    left = ("operator", "class", "inputs", "outputs", "stream", "from", "to", "locality")
    return [
        fitted(columns, width, ("class", "partitions"), left=left),
        Text(),
        fitted(flows, width, ("locality",), left=left),
    ]


def physical_plan(plan: PhysicalPlanAnswer, width: int) -> list[RenderableType]:
    """Physical operators with container and stage, then who reads from whom."""
    operators = plan["operators"]
    titles = {operator["id"]: operator["operator"] for operator in operators}
    columns: Columns = {
        "id": [Text(str(operator["id"])) for operator in operators],
        "operator": [Text(operator["operator"], "bold") for operator in operators],
        "class": [Text(operator["className"].rpartition(".")[2]) for operator in operators],
        "kind": [Text("unifier" if operator["unifierClass"] else operator["kind"]) for operator in operators],
        "stage": [Text(str(operator["stage"])) for operator in operators],
        "container": [Text(str(operator["container"])) for operator in operators],
    }
    streams = plan["streams"]
    flows: Columns = {
        "stream": [Text(stream["logicalName"], "bold") for stream in streams],
        "from": [Text(_physical_end(stream["source"], titles)) for stream in streams],
        "to": [
            Text(", ".join(_physical_end(sink, titles) for sink in stream["sinks"])) for stream in streams
        ],
    }
    left = ("operator", "class", "kind", "stream", "from", "to")
    return [fitted(columns, width, ("class", "kind"), left=left), Text(), fitted(flows, width, left=left)]


def _ports(operator: LogicalPlanOperatorAnswer, kind: str) -> str:
    return ", ".join(
        port["name"] for port in operator["ports"] if port["type"] == kind and port.get("connected", True)
    )


def _end(end: LogicalPortRefAnswer) -> str:
    return f"{end['operatorName']}.{end['portName']}"


def _physical_end(end: PortRefAnswer, titles: Mapping[int, str]) -> str:
    return f"{titles.get(end['operatorId'], end['operatorId'])}.{end['portName']}"


_NAMED = 2


def watermarks_table(rows: Sequence[WatermarkAnswer], width: int) -> Table:
    """The rows of `/watermarks`."""
    columns: Columns = {
        "operator": [Text(row["operator"], "bold") for row in rows],
        "watermark": [_watermark(row) for row in rows],
        "behind": [_behind(row["lagSeconds"]) for row in rows],
        "held back by": [_titles(row["heldBackBy"]) for row in rows],
    }
    if any(row["idleInputs"] for row in rows):
        columns["idle"] = [_titles(row["idleInputs"]) for row in rows]
    columns["late"] = [_records(row["lateRecords"]) for row in rows]
    if any(row["recordsAhead"] for row in rows):
        columns["ahead"] = [_records(row["recordsAhead"]) for row in rows]
    return fitted(
        columns, width, ("idle", "held back by"), left=("operator", "watermark", "held back by", "idle")
    )


def _watermark(row: WatermarkAnswer) -> Text:
    """`2026-01-01 12:00:05`, in UTC; else its state."""
    if row["watermark"] is None:
        return Text(row["state"], "dim")
    time = datetime.fromtimestamp(row["watermark"], UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    return Text(time.removesuffix(".000"), "dim" if row["state"] == "idle" else "")


def _behind(seconds: float | None) -> Text:
    if seconds is None:
        return Text("")
    return Text(duration(seconds) if seconds >= 0 else f"-{duration(-seconds)}")


def _titles(titles: Sequence[str]) -> Text:
    """`source[0], source[1] and 3 more`."""
    more = len(titles) - _NAMED
    return Text(", ".join(titles[:_NAMED]) + (f" and {more} more" if more > 0 else ""))


def _records(records: int) -> Text:
    return Text(count(records), "yellow" if records else "dim")


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
    columns: Columns = {
        "what": [*(Text(what) for what, _, _ in rows), Text("window", "bold")],
        "operator": [*(Text(operator) for _, operator, _ in rows), Text("")],
        "time": [*(Text(milliseconds(ms)) for _, _, ms in rows), Text(milliseconds(whole), "bold")],
        "share": [*(Text(f"{ms / (whole or 1.0):.0%}", "dim") for _, _, ms in rows), Text("")],
    }
    if not any(operator for _, operator, _ in rows):
        del columns["operator"]
    return fitted(columns, width, ("share",), left=("what", "operator"))


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
    return [*parts, regions_table(answer["regions"], width), *errors, queues_table(queues, width)]


def regions_table(regions: Sequence[RegionAnswer], width: int) -> Table:
    """A row for each region."""
    columns: Columns = {
        "region": [Text(one["name"], "bold") for one in regions],
        "state": [Text(one["state"], STATES.get(one["state"], "")) for one in regions],
        "width": [Text(duration(one["windowSeconds"])) for one in regions],
        "committed": [Text(count(one["committedWindow"])) for one in regions],
        "latency": [Text(milliseconds(one["latencyMs"])) for one in regions],
        "operators": [Text(", ".join(one["operators"])) for one in regions],
    }
    return fitted(columns, width, ("width", "latency"), left=("region", "state", "operators"))
