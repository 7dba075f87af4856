"""`ridgeline promises`, and the table of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.policy import side
from ridgeline.api.support.masking import printable
from ridgeline.cli.remote.options import Nearest
from ridgeline.cli.tables import folded
from ridgeline.measure.wording.units import duration, time_of_day
from ridgeline.service.columns import words


def promises(remote: Nearest) -> None:
    """Show promises: kept or broken.

    Since when, and how long each was broken.

    Example: `ridgeline promises payments`

    Args:
        remote: The application.
    """
    remote.ask("/promises", promise_parts, rows="promises", none="the application promises nothing")


_KEPT = {True: Text("kept", "green"), False: Text("BROKEN", "bold red"), None: Text("unknown", "dim")}
_PROMISES = (
    words("promise", "promise"),
    words("", lambda row: _KEPT[row["kept"]]),
    words("since", "since", time_of_day),
    words("figure", lambda row: "" if row["figure"] is None else f"{row['figure']:.3g} {row['unit']}"),
    words("promised", lambda row: f"{side(row['kind'])} {row['limit']:g} {row['unit']}"),
    words("broken", "brokenSeconds", duration),
    words("times", "timesBroken"),
)
_DECISIONS = (
    words("id", "id"),
    words("state", "state"),
    words("at", "at", time_of_day),
    words("by", "by"),
    words("what", "what"),
)


def promise_parts(rows: Sequence[Any], _width: int) -> list[Table | Text]:
    """A line for each promise; then why, where a reason is known."""
    why = [Text(printable(f"{row['promise']}: {row['reason']}")) for row in rows if row["reason"]]
    return [folded(_PROMISES, rows), *why]


def decision_parts(rows: Sequence[Any], _width: int) -> list[Table | Text]:
    """A table with a line for each decision; then why, and what came of it."""
    notes: list[Text] = []
    for row in rows:
        undone = f"takes decision {row['undoes']} back; " if row["undoes"] is not None else ""
        lines = [f"{row['id']}: {undone}{row['note']}", row["found"] or row["expected"]]
        notes.append(Text(printable("; ".join(line for line in lines if line))))
    return [folded(_DECISIONS, rows), *notes]
