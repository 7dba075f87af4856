"""How far event time has come at each operator, and who holds it back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from ridgeline.cli.tables import Columns, fitted
from ridgeline.measure.answers.watermarks import WatermarkAnswer
from ridgeline.measure.wording.units import count, duration

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
    columns["late"] = [_number(row["lateRecords"]) for row in rows]
    if any(row["recordsAhead"] for row in rows):
        columns["ahead"] = [_number(row["recordsAhead"]) for row in rows]
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


def _number(records: int) -> Text:
    return Text(count(records), "yellow" if records else "dim")
