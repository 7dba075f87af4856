"""The metrics that operators declare."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ridgeline.cli.tables import drawn, flow
from ridgeline.measure.answers.operators import MetricAnswer, MetricsAnswer
from ridgeline.measure.wording.units import UNKNOWN
from ridgeline.service.columns import Column, words

_SHORT_LINES, _SHORT_MOST = 2, 30
_NONE = "no operator declares metrics: `errors = Metric(0)`, or `@metric()` on a method"


def matching(answer: MetricsAnswer, pattern: str | None) -> MetricsAnswer:
    """Those whose operator, or operator and name with a dot between, are like the pattern."""
    rows = [
        row
        for row in answer["metrics"]
        if pattern is None
        or fnmatch.fnmatchcase(row["operator"], pattern)
        or fnmatch.fnmatchcase(f"{row['operator']}.{row['metric']}", pattern)
    ]
    return {"metrics": rows}


def number(value: float | None) -> str:
    """A number as people read it: whole ones in full, others to six digits.

    >>> number(1234567), number(0.1 + 0.2), number(5.0)
    ('1,234,567', '0.3', '5')
    """
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:,.6g}"  # noqa: PLR2004  a float is exact up to there


def _partitions(row: MetricAnswer) -> str:
    values: Sequence[float | None] = row["partitions"]
    return " ".join(map(number, values)) if len(values) > 1 else ""


_METRICS = (
    words("metric", lambda row: f"{row['operator']}.{row['metric']}", style="bold"),
    Column("value", "value", number),
    Column("total", lambda row: number(row["total"]) if row["kind"] == "counter" else ""),
    words("unit", "unit", keep=5),
    Column("window", "windowId", keep=4),
    Column("partitions", _partitions, keep=3),
    words("by", "aggregate", style="dim", keep=2),
    words("help", lambda row: " ".join(row["help"].split()), style="dim", keep=1),
)


def metrics_parts(answer: MetricsAnswer, width: int) -> list[RenderableType]:
    """A row for each metric."""
    rows = answer["metrics"]
    if not rows:
        return [Text(_NONE)]
    parts: list[RenderableType] = [drawn(_METRICS, rows, width)]
    parts += [
        Text(f"{row['operator']}.{row['metric']}: {row['problem']}", "yellow")
        for row in rows
        if row["problem"]
    ]
    return parts


def metrics_lines(answer: MetricsAnswer, width: int) -> list[Text]:
    """The metrics in short, in two lines at most: of counters the total, of gauges the last value."""
    rows = [row for row in answer["metrics"] if row["windowId"] is not None]
    pieces = [
        Text.assemble(
            (f"{row['operator']}.{row['metric']} ", "dim"),
            (number(row["total"] if row["kind"] == "counter" else row["value"]), "bold"),
            f" {row['unit']}" if row["unit"] else "",
            " ",
        )
        for row in rows
    ]
    for shown in range(min(_SHORT_MOST, len(pieces)), 0, -1):
        left = len(pieces) - shown
        more = [Text(f"{left} more: `ridgeline metrics`", "dim")] if left else []
        lines = flow([*pieces[:shown], *more], width)
        if lines.plain.count("\n") < _SHORT_LINES:
            return [lines]
    return []
