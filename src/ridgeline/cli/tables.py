"""Tables and lists that are as wide as there is room for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ridgeline.api.support.masking import printable

_GAP = 2
_MANY_ROWS = 500
"""With more rows a table lays itself out: rich takes 5 ms for each."""
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
    if max(map(len, shown.values()), default=0) > _MANY_ROWS:
        return LongTable(shown, left)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in shown:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True, overflow="ellipsis")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*cells)
    return table


def folded(columns: Sequence[str], rows: Iterable[Iterable[object]], *, right: Collection[str] = ()) -> Table:
    """A table whose texts are as long as they are: they go on in further lines. Cells may have a style."""
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(printable(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(one if isinstance(one, Text) else Text(printable(str(one))) for one in row))
    return table


class LongTable(Table):
    """A table of many rows as `fitted` makes it, but for lines that are too long: they have no end."""

    def __init__(self, shown: Columns, left: Sequence[str]) -> None:
        super().__init__(box=None)
        self._shown, self._left = shown, left

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """The lines, each cell in its style."""
        texts = {name: [name, *(cell.plain for cell in cells)] for name, cells in self._shown.items()}
        lengths = [list(map(_cells_of, own)) for own in texts.values()]
        widths = list(map(max, lengths))
        end = "" if sum(widths) + _GAP * (len(widths) - 1) <= options.max_width else "…"
        styles: dict[str | Style, Style | None] = {"": None}
        columns = []
        room = options.max_width - len(end)
        for (name, own), width, of_column in zip(texts.items(), widths, lengths, strict=True):
            fitting, gap = min(width, room), " " * min(_GAP, max(0, room - width))
            left = name in self._left
            padded = (
                text + " " * (width - length) if left else " " * (width - length) + text
                for text, length in zip(own, of_column, strict=True)
            )
            columns.append(
                [(text if fitting == width else set_cell_size(text, fitting)) + gap for text in padded]
            )
            room = max(0, room - width - _GAP)
        header = [Text(name, "dim") for name in self._shown]
        cells = (header, *zip(*self._shown.values(), strict=True))
        for row, line in zip(cells, zip(*columns, strict=True), strict=True):
            for cell, text in zip(row, line, strict=True):
                style = cell.style
                if style not in styles:
                    styles[style] = console.get_style(style)
                yield Segment(text, styles[style])
            yield Segment(end)
            yield Segment.line()


def _cells_of(text: str) -> int:
    """The cells of a terminal that a text takes."""
    return len(text) if text.isascii() else cell_len(text)


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
