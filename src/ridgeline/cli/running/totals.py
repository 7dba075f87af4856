"""What operators did in a whole run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.cli.units import count, duration
from ridgeline.measure.answers.application import OperatorTotalsAnswer

_DISPENSABLE = ("partitions", "per window", "dropped windows", "errors", "in")


def totals_table(rows: Sequence[OperatorTotalsAnswer], width: int) -> Table:
    """Operators with their tuples and compute time. Errors and drops only where there are any.

    Those that a change has removed come last.
    """
    columns: Columns = {
        "operator": [Text(row["operator"]) for row in rows],
        "partitions": [Text(count(row["partitions"]) if row["partitions"] else "gone") for row in rows],
        "in": [Text(count(row["tuplesIn"])) for row in rows],
        "out": [Text(count(row["tuplesOut"])) for row in rows],
        "time": [Text(duration(row["seconds"])) for row in rows],
        "per window": [Text(duration(row["seconds"] / max(1, row["windows"]))) for row in rows],
    }
    if len(rows) > 1:
        slow = max(range(len(rows)), key=lambda row: rows[row]["seconds"])
        columns["time"][slow].stylize("bold")
    for name, values in (
        ("errors", [row["errors"] for row in rows]),
        ("dropped windows", [row["windowsDropped"] for row in rows]),
    ):
        if any(values):
            columns[name] = [Text(count(value), "yellow" if value else "dim") for value in values]
    return fitted(columns, width, _DISPENSABLE)
