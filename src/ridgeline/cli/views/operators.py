"""Operators with their latencies, and where that time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.wording.times import logical_name
from ridgeline.measure.wording.units import count, milliseconds, percentile, rate

BAR_WIDTH = 20
_PARTS = (("compute", "█", "green"), ("wait", "░", "yellow"), ("transfer", "▒", "blue"))
_DISPENSABLE = ("partitions", "p50", "out/s", "bar", "in/s", "p99")


@dataclass(frozen=True, slots=True)
class Row:
    """The partitions of an operator, or its unifiers, as one row: the slowest's times, the sum of tuples."""

    title: str
    partitions: int
    latency_ms: float | None
    p50_ms: float | None
    p99_ms: float | None
    parts_ms: tuple[float, float, float]
    """Compute, wait and transfer."""
    tuples_in: float
    tuples_out: float
    errors: int


def rows_of(operators: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row for each logical operator and each of its unified ports, in the operators' order."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for operator in operators:
        groups.setdefault(logical_name(operator["operator"]), []).append(operator)
    return [_row(title, partitions) for title, partitions in groups.items()]


def operators_figures(
    operators: Sequence[Mapping[str, object]], width: int, limit: int | None = None
) -> list[Any]:
    """Table and legend of the last window.

    Beyond `limit` rows those with the least latency are left out and counted.
    """
    rows = rows_of(operators)
    hidden = len(rows) - limit if limit is not None else 0
    if hidden > 0:
        slowest = sorted(range(len(rows)), key=lambda row: -(rows[row].latency_ms or 0.0))[:limit]
        rows = [rows[row] for row in sorted(slowest)]
    longest = max((row.latency_ms or 0.0 for row in rows), default=0.0)
    columns: Columns = {
        "operator": [
            Text(row.title, "bold" if longest and row.latency_ms == longest else "") for row in rows
        ],
        "partitions": [Text(count(row.partitions)) for row in rows],
        "latency": [Text(milliseconds(row.latency_ms)) for row in rows],
        "p50": [Text(percentile(row.p50_ms)) for row in rows],
        "p99": [Text(percentile(row.p99_ms)) for row in rows],
        "bar": [bar(row.parts_ms, longest) for row in rows],
        "in/s": [Text(rate(row.tuples_in)) for row in rows],
        "out/s": [Text(rate(row.tuples_out)) for row in rows],
    }
    if any(row.errors for row in rows):
        columns["errors"] = [Text(count(row.errors), "yellow" if row.errors else "dim") for row in rows]
    if all(row.partitions == 1 for row in rows):
        del columns["partitions"]
    table = fitted(columns, width, _DISPENSABLE, left=("operator", "bar"))
    names = [str(column.header) for column in table.columns]
    parts: list[Any] = [table]
    below = Text()
    if "bar" in names:
        table.columns[names.index("bar")].header = Text("where it goes")
        below = legend()
    if hidden > 0:
        below = Text.assemble(
            below,
            "  " if below else "",
            (f"{hidden} more with less latency: `ridgeline list-operators`", "dim"),
        )
    return [*parts, below] if below else parts


def bar(parts_ms: tuple[float, float, float], longest_ms: float) -> Text:
    """Compute, wait and transfer as parts of a bar.

    The longest operator's bar is `BAR_WIDTH` wide; all are padded to that.
    """
    text = Text()
    cells, whole = 0, 0.0
    for part, (_, character, style) in zip(parts_ms, _PARTS, strict=True):
        whole += part
        upto = min(BAR_WIDTH, round(BAR_WIDTH * whole / longest_ms)) if longest_ms > 0 else 0
        text.append(character * (upto - cells), style)
        cells = max(cells, upto)
    return text.append(" " * (BAR_WIDTH - cells))


def legend() -> Text:
    """The meaning of the characters of the bars."""
    return Text("  ").join(
        Text.assemble((character, style), (f" {name}", "dim")) for name, character, style in _PARTS
    )


def _row(title: str, partitions: Sequence[Mapping[str, Any]]) -> Row:
    """One row of the table: an operator's partitions together."""
    slowest = max(partitions, key=lambda partition: partition["latencyMs"] or 0.0)
    compute, wait, transfer = (slowest[f"{name}Ms"] or 0.0 for name, _, _ in _PARTS)
    return Row(
        title=title,
        partitions=sum(partition.get("partitions", 1) for partition in partitions),
        latency_ms=slowest["latencyMs"],
        p50_ms=_greatest(partitions, "p50Ms"),
        p99_ms=_greatest(partitions, "p99Ms"),
        parts_ms=(compute, wait, transfer),
        tuples_in=sum(partition["tuplesProcessedPSMA"] or 0.0 for partition in partitions),
        tuples_out=sum(partition["tuplesEmittedPSMA"] or 0.0 for partition in partitions),
        errors=sum(partition["errors"] or 0 for partition in partitions),
    )


def _greatest(partitions: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return max((partition[name] for partition in partitions if partition[name] is not None), default=None)
