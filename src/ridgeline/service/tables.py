"""The columns of tables, which the terminal and the page draw from: a row says a column once for both.

The terminal draws them by `cli/tables.py`, the page by `page/assets/parts/columns.js`, which knows forms by
the names of their functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ridgeline.measure.answers.operators import OPERATOR_METRICS
from ridgeline.measure.registry.operator_metric import TerminalColumn
from ridgeline.measure.wording.units import (
    UNKNOWN,
    count,
    duration,
    known_as,
    milliseconds,
    percent,
    percentile,
    rate,
    size,
    soon,
    time_of_day,
)
from ridgeline.service.columns import Column, words

VERDICTS: Mapping[str, str] = {
    "unreachable": "bad",
    "stuck": "bad",
    "falling behind": "bad",
    "not catching up": "behind",
    "late": "behind",
    "settling": "muted",
    "catching up": "",
    "unknown": "muted",
    "paced": "ok",
    "keeping up": "ok",
}
"""How good the verdicts are, the worst first."""


STATES: Mapping[str, str] = {
    "FAILED": "bad",
    "SILENT": "bad",
    "PENDING": "muted",
    "INACTIVE": "muted",
    "PAUSED": "behind",
    "ACTIVE": "ok",
    "RUNNING": "ok",
    "IDLE": "",
}
"""How good the states of operators and containers are, the worst first."""


def warned(value: Any) -> str:
    """The style of a number that should be 0."""
    return "yellow" if value else "dim"


def ago(seconds: float) -> str:
    """How long ago something was."""
    return f"{duration(seconds)} ago"


def due(row: Mapping[str, Any], at: float | None) -> str:
    """When a backlog will be processed: `in 40 s (14:03:12)`."""
    caught_up_at = row["caughtUpAt"]
    if caught_up_at is None:
        return UNKNOWN
    if at is None:
        return f"at {time_of_day(caught_up_at)}"
    return f"in {soon(caught_up_at - at)} ({time_of_day(caught_up_at, at)})"


def backlog(source: Mapping[str, Any], _at: float | None) -> str:
    """What waits in a source, in its own unit."""
    found, unit = source["backlog"], source["unit"]
    if found.get("infinite"):
        return "unbounded"
    if found["value"] is None:
        return UNKNOWN
    value = size(found["value"]) if unit == "bytes" else f"{rate(found['value'])} {unit or 'units'}"
    return f"{known_as(found['basis'])}{value}"


def work(source: Mapping[str, Any], _at: float | None) -> str:
    """How long a backlog takes."""
    if source.get("infinite"):
        return "unbounded"
    seconds = source["backlogSeconds"]
    return UNKNOWN if seconds is None else duration(seconds)


def oldest(row: Mapping[str, Any], _at: float | None) -> str:
    """The age of the oldest record that waits."""
    found = row["oldest"]
    least = "> " if found["basis"] == "lower bound" else ""
    return UNKNOWN if found["value"] is None else f"{least}{duration(found['value'])}"


def room(queue: Mapping[str, Any], _at: float | None) -> str:
    """How long there will be room in a queue at the present rate."""
    if queue["full"]:
        return "full"
    return UNKNOWN if queue["fullInSeconds"] is None else soon(queue["fullInSeconds"])


_VERDICT = words("verdict", "verdict", levels=VERDICTS)

HOST = words("host", lambda row: row["host"] or None, keep=1)
_TIMES = (milliseconds, percent)
"""The columns that are made of an operator's times show that they are estimated."""


def _of_metric(name: str, shown: TerminalColumn) -> Column:
    """The column of a row of the table of metrics."""
    return Column(
        shown.title,
        name,
        shown.show,
        warned if shown.warns else "",
        keep=shown.keep,
        optional=shown.unless_zero,
        estimates=shown.show in _TIMES,
    )


TABLES: Mapping[str, Sequence[Column]] = {
    "sources": (
        words("source", "operator"),
        Column("waits", ("backlog", "value"), backlog, whole=True),
        Column("to drain", "backlogSeconds", work, keep=3, whole=True),
        Column("oldest", ("oldest", "value"), oldest, whole=True),
        Column("done/s", "drainPerSecond", rate, keep=2),
        Column("arrive/s", "arrivalPerSecond", rate, keep=1),
        Column("caught up", "caughtUpAt", due, keep=4, whole=True),
        _VERDICT,
    ),
    "queues": (
        words("queue", "stream", style="bold"),
        words("from", "writerRegion", keep=4),
        words("to", "readerRegion"),
        Column("tuples", "backlogRecords", count),
        Column("bytes", "backlogBytes", size, keep=3),
        Column("oldest", "backlogSeconds", duration),
        Column("written/s", "writtenPerSecond", rate, keep=1),
        Column("read/s", "readPerSecond", rate, keep=2),
        Column("caught up", "caughtUpAt", due, keep=5, optional=True, whole=True),
        Column("room for", "fullInSeconds", room, whole=True, levels={"full": "bad"}),
        _VERDICT,
    ),
    "operators": (
        Column("id", "id"),
        words("operator", "operator", style="bold"),
        words("status", "status", levels=STATES),
        Column("container", "container", keep=8),
        HOST,
        *(_of_metric(row.name, row.column) for row in OPERATOR_METRICS if row.column is not None),
    ),
    "containers": (
        Column("id", "id"),
        words("state", "state", levels=STATES),
        replace(HOST, keep=5),
        Column("pid", "pid", keep=4),
        Column("stage", "stage", keep=3),
        Column("last heartbeat", "heartbeatAgeSeconds", ago),
        Column("sent", "bytesOut", size, keep=2),
        words("operators", lambda row: ", ".join(row["operators"].values())),
        Column("memory", "memoryBytes", size, keep=1, optional=True),
    ),
    "latency": (
        words("operator", "operator", style="bold"),
        Column("latency", "latencyMs", milliseconds, estimates=True),
        Column("compute", "computeMs", milliseconds, keep=6, estimates=True),
        Column("cpu", "cpuMs", milliseconds, keep=5, estimates=True),
        Column("wait", "waitMs", milliseconds, keep=4),
        Column("transfer", "transferMs", milliseconds, keep=3),
        Column("average", "averageMs", milliseconds, keep=1, estimates=True),
        Column("p50", "p50Ms", percentile, keep=2),
        Column("p99", "p99Ms", percentile),
        Column("behind", "windowsBehind", count, optional=True),
    ),
    "ages": (
        words("operator", "operator"),
        words("at", "at"),
        Column("min", "minMs", milliseconds, keep=1),
        Column("avg", "avgMs", milliseconds),
        Column("p50", "p50Ms", milliseconds, keep=7),
        Column("p90", "p90Ms", milliseconds, keep=3),
        Column("p99", "p99Ms", milliseconds),
        Column("p99.9", "p999Ms", milliseconds, keep=2),
        Column("max", "maxMs", milliseconds, keep=8),
        Column("oldest", "oldestMs", milliseconds, keep=5),
        Column("records", "count", count, keep=6),
        Column("negative", "negative", count, style=warned, keep=4, optional=True),
    ),
}
"""The columns of tables by their names."""


def told() -> dict[str, list[dict[str, Any]]]:
    """The columns of all tables as the page gets them; without those that only the terminal can read."""
    return {
        name: [column.told() for column in columns if not callable(column.read)]
        for name, columns in TABLES.items()
    }
