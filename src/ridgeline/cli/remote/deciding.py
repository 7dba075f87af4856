"""`ridgeline decisions`: what policies and listeners have decided, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.remote.options import Named
from ridgeline.cli.units import time_of_day


def decisions(remote: Named) -> None:
    """List what policies and listeners have decided in this run, why, and what came of it.

    Example: `ridgeline decisions payments`
    """
    answer = remote.connect().get("/decisions")
    rows = answer["decisions"]
    none = [Text("no policy and no listener has decided on a change in this run")]
    remote.show(answer, lambda _width: decision_parts(rows) if rows else none)


def decision_parts(rows: Iterable[Any]) -> Iterator[Table | Text]:
    """A table with a line for each decision; then why, and what came of it."""
    table = Table(box=None, pad_edge=False)
    for name in ("id", "state", "at", "by", "what"):
        table.add_column(name, overflow="fold")
    notes: list[Text] = []
    for row in rows:
        cells = (row["id"], row["state"], time_of_day(row["at"]), row["by"], row["what"])
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
        undone = f"takes decision {row['undoes']} back; " if row["undoes"] is not None else ""
        lines = [f"{row['id']}: {undone}{row['note']}", row["found"] or row["expected"]]
        notes.append(Text(printable("; ".join(line for line in lines if line))))
    yield table
    yield from notes
