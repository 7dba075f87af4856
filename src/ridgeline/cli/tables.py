"""Tables and lists that are as wide as there is room for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.measure.wording.units import about
from ridgeline.service.columns import Column

_GAP = 2
_MOST_ROWS = 500
"""Rows of a table; the others are counted: rich takes 5 ms for each."""
Columns = dict[str, list[Text]]
"""Cells by column, in order; empty columns have no place in it."""


LEVELS: Mapping[str, str] = {
    "bad": "bold red",
    "behind": "bold yellow",
    "muted": "dim",
    "ok": "bold green",
}
"""The styles of values by how good they are."""


def _cell(column: Column, row: Any, at: float | None) -> Text:
    """The value of a row as it is shown; one that is a text with styles stays it."""
    value = column.value(row)
    if isinstance(value, Text):
        return value
    text = column.written(row, at)
    style = column.style if isinstance(column.style, str) else column.style(value)
    style = LEVELS.get(column.levels.get(text, ""), style)
    return Text(printable(about(text, column.estimates and row.get("estimated"))), style)


def drawn(columns: Sequence[Column], rows: Sequence[Any], width: int, at: float | None = None) -> Table:
    """A table of rows, a column for each; those that have no room are left out. `at`: now, if it is known."""
    shown = [one for one in columns if not one.optional or any(map(one.value, rows))]
    dispensable = sorted((one for one in shown if one.keep is not None), key=lambda one: one.keep or 0)
    return fitted(
        {one.title: [_cell(one, row, at) for row in rows] for one in shown},
        width,
        [one.title for one in dispensable],
        [one.title for one in shown if one.left],
    )


def fitted(
    columns: Mapping[str, list[Text]], width: int, dispensable: Sequence[str], left: Sequence[str]
) -> Table:
    """A table without lines; columns that are not in `left` are aligned to the right.

    Where `width` does not do, `dispensable` columns are left out, the first ones first.
    """
    shown = dict(columns)
    widths = {name: max([len(name), *map(len, cells)]) + _GAP for name, cells in columns.items()}
    for name in dispensable:
        if sum(widths.values()) - _GAP > width and name in shown:
            del shown[name], widths[name]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in shown:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True, overflow="ellipsis")
    rows = list(zip(*shown.values(), strict=True))
    for cells in rows[:_MOST_ROWS]:
        table.add_row(*cells)
    if len(rows) > _MOST_ROWS:
        table.add_row(f"… {len(rows) - _MOST_ROWS:,} more")
    return table


def folded(columns: Sequence[Column], rows: Iterable[Any]) -> Table:
    """A table whose texts are as long as they are: they go on in further lines."""
    table = Table(box=None, pad_edge=False)
    for one in columns:
        table.add_column(printable(one.title), justify="left" if one.left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(one, row, None) for one in columns))
    return table


def flow(pieces: Sequence[Text], width: int, *, indent: int = 0) -> Text:
    """Pieces one after the other, with spaces; one that does not fit begins a new line, which is indented."""
    whole, used = Text(), 0
    for piece in pieces:
        if used and used + 1 + len(piece) > width:
            whole.append("\n" + " " * indent)
            used = indent
        elif used:
            whole.append(" ")
            used += 1
        whole.append_text(piece)
        used += len(piece)
    return whole
