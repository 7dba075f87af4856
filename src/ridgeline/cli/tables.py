"""Tables of operators and phases, as wide as the terminal allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from ridgeline.cli.statistics import OperatorTotals, Phases
from ridgeline.cli.units import count, duration

_GAP = 2
_DISPENSABLE = ("partitions", "total in", "total out", "per window")


def operators_table(rows: Sequence[OperatorTotals], width: int, *, totals: bool) -> Table:
    """Operators with tuples and time: of the last window, or of the whole run. Errors and drops only where there are any.

    Where `width` does not do, columns that one can do without are left out.
    """
    columns = _totals(rows) if totals else _last_window(rows)
    slow = max(range(len(rows)), key=lambda row: rows[row].seconds if totals else rows[row].last_seconds, default=0)
    if len(rows) > 1:
        columns["time"][slow].stylize("bold")
    for name, values in (("errors", [row.errors for row in rows]), ("dropped windows", [row.windows_dropped for row in rows])):
        if any(values):
            columns[name] = [Text(count(value), "yellow" if value else "dim") for value in values]
    for name in _DISPENSABLE:
        if _width(columns) > width:
            columns.pop(name, None)
    return _table(columns)


def phases_table(phases: Phases) -> Table:
    """Where the time of a window goes, on average."""
    whole = sum(phases.seconds.values()) or 1.0
    return _table(
        {
            name: [Text(duration(seconds / max(1, phases.windows))), Text(f"{seconds / whole:.0%}", "dim")]
            for name, seconds in phases.seconds.items()
        }
    )


Columns = dict[str, list[Text]]


def _last_window(rows: Sequence[OperatorTotals]) -> Columns:
    return {
        "operator": [Text(row.title) for row in rows],
        "partitions": [Text(count(row.partitions)) for row in rows],
        "in": [Text(count(row.last_in)) for row in rows],
        "out": [Text(count(row.last_out)) for row in rows],
        "time": [Text(duration(row.last_seconds)) for row in rows],
        "total in": [Text(count(row.tuples_in)) for row in rows],
        "total out": [Text(count(row.tuples_out)) for row in rows],
    }


def _totals(rows: Sequence[OperatorTotals]) -> Columns:
    return {
        "operator": [Text(row.title) for row in rows],
        "partitions": [Text(count(row.partitions)) for row in rows],
        "in": [Text(count(row.tuples_in)) for row in rows],
        "out": [Text(count(row.tuples_out)) for row in rows],
        "time": [Text(duration(row.seconds)) for row in rows],
        "per window": [Text(duration(row.seconds / max(1, row.windows))) for row in rows],
    }


def _width(columns: Mapping[str, Sequence[Text]]) -> int:
    return sum(max(len(name), *map(len, cells)) + _GAP for name, cells in columns.items()) - _GAP


def _table(columns: Mapping[str, Sequence[Text]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="left" if name == "operator" else "right", no_wrap=True, overflow="ellipsis")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table
