"""Tables and lists that are as wide as there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

_GAP = 2
Columns = dict[str, list[Text]]
"""Cells by column, in order; empty columns have no place in it."""


def fitted(
    columns: Columns, width: int, dispensable: Sequence[str] = (), left: Sequence[str] = ("operator",)
) -> Table:
    """A table without lines; columns that are not in `left` are aligned to the right.

    Where `width` does not do, `dispensable` columns are left out, the first ones first.
    """
    shown = dict(columns)
    for name in dispensable:
        if _width(shown) > width:
            shown.pop(name, None)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in shown:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True, overflow="ellipsis")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*cells)
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


def _width(columns: Mapping[str, Sequence[Text]]) -> int:
    return sum(max([len(name), *map(len, cells)]) + _GAP for name, cells in columns.items()) - _GAP
