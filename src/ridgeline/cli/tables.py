"""Tables and lists that are as wide as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.measure.wording.units import UNKNOWN, about

_GAP = 2
_MOST_ROWS = 500
"""Rows of a table; the others are counted: rich takes 5 ms for each."""
Columns = dict[str, list[Text]]
"""Cells by column, in order; empty columns have no place in it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of answers. `read`: a field of a row, or a function of the row.

    `form`: writes a value; that of a field that is null is `unknown`. `style`: of all cells, or by value.
    `left`: the side to which it is aligned. `keep`: in a narrow terminal columns with the least are left out
    first; None: never. `optional`: it is shown only if a row has a value. `estimates`: its values are
    estimates where the row says so.
    """

    title: str
    read: str | Callable[[Any], Any]
    form: Callable[[Any], str] = str
    style: str | Callable[[Any], str] = ""
    left: bool = False
    keep: int | None = None
    optional: bool = False
    estimates: bool = False
    unknown: str = UNKNOWN

    def value(self, row: Any) -> Any:
        """The value of a row."""
        return row.get(self.read) if isinstance(self.read, str) else self.read(row)

    def cell(self, row: Any) -> Text:
        """The value of a row as it is shown; one that is a text with styles stays it."""
        value = self.value(row)
        if isinstance(value, Text):
            return value
        text = self.unknown if value is None else self.form(value)
        style = self.style if isinstance(self.style, str) else self.style(value)
        return Text(printable(about(text, self.estimates and row.get("estimated"))), style)


words = partial(Column, left=True)
"""A column of texts."""
noted = partial(words, unknown="")
"""A column of texts that may be missing."""


def warned(value: Any) -> str:
    """The style of a number that should be 0."""
    return "yellow" if value else "dim"


def drawn(columns: Sequence[Column], rows: Sequence[Any], width: int) -> Table:
    """A table of rows, a column for each; those that have no room are left out."""
    shown = [one for one in columns if not one.optional or any(map(one.value, rows))]
    dispensable = sorted((one for one in shown if one.keep is not None), key=lambda one: one.keep or 0)
    return fitted(
        {one.title: list(map(one.cell, rows)) for one in shown},
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
        table.add_row(*(one.cell(row) for one in columns))
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
