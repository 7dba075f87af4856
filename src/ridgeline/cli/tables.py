"""Tables and lists that are as wide as there is room for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable

_GAP = 2
_MOST_ROWS = 500
"""Rows of a table; the others are counted: rich takes 5 ms for each."""
Columns = dict[str, list[Text]]
"""Cells by column, in order; empty columns have no place in it."""


def fitted(
    columns: Columns, width: int, dispensable: Sequence[str] = (), left: Sequence[str] = ("operator",)
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


def folded(columns: Sequence[str], rows: Iterable[Iterable[object]], *, right: Collection[str] = ()) -> Table:
    """A table whose texts are as long as they are: they go on in further lines. Cells may have a style."""
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(printable(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(one if isinstance(one, Text) else Text(printable(str(one))) for one in row))
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
