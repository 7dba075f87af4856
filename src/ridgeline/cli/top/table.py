"""The table of operators: it draws only the rows that are seen, so 5,000 of them cost what 50 do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ridgeline.cli.top.board import ACCENT, COLUMNS, Column, OperatorRow

_GAP = 2
_LEAST_NAME = 12
_MARK = 2
_DISPENSABLE = ("status", "n", "behind", "out/s", "trend", "where it goes", "p99", "in/s")


class OperatorTable(ScrollView, can_focus=True):
    """Rows of operators under a header that stays; the cursor follows its operator when rows move."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
    ]

    class Moved(Message):
        """The cursor is on another operator."""

    class HeaderClicked(Message):
        """The header of a column was clicked; `column` is its index."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self) -> None:
        super().__init__(id="operators")
        self.rows: Sequence[OperatorRow] = ()
        self.sorted_by = 0
        self.reverse = False
        self._cursor = 0
        self._title: str | None = None
        self._longest = 0.0
        self._empty = ""

    @property
    def current(self) -> OperatorRow | None:
        """The row under the cursor; None in an empty table."""
        return self.rows[self._cursor] if self.rows else None

    def show(self, rows: Sequence[OperatorRow], *, sorted_by: int, reverse: bool, empty: str = "") -> None:
        """Draw other rows. `empty`: the text where there are none."""
        self.rows, self.sorted_by, self.reverse, self._empty = rows, sorted_by, reverse, empty
        self._longest = max((row.latency_ms or 0.0 for row in rows), default=0.0)
        titles = [row.title for row in rows]
        if self._title in titles:
            self._cursor = titles.index(self._title)
        self._cursor = max(0, min(self._cursor, len(rows) - 1))
        self._title = titles[self._cursor] if titles else None
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor by some rows, at most to the first or last."""
        if not self.rows:
            return
        self._cursor = max(0, min(self._cursor + by, len(self.rows) - 1))
        self._title = self.rows[self._cursor].title
        seen, first = max(1, self.size.height - 1), int(self.scroll_offset.y)
        if self._cursor < first:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= first + seen:
            self.scroll_to(y=self._cursor - seen + 1, animate=False)
        self.refresh()
        self.post_message(self.Moved())

    def action_page(self, by: int) -> None:
        """Move the cursor by as many rows as are seen."""
        self.action_move(by * max(1, self.size.height - 1))

    def on_click(self, event: Click) -> None:
        """A click on a row puts the cursor there, one on the header sorts by its column."""
        if event.y == 0:
            at = _MARK
            for column, width in self._layout():
                if at <= event.x < at + width + _GAP:
                    self.post_message(self.HeaderClicked(COLUMNS.index(column)))
                at += width + _GAP
        else:
            self.action_move(event.y - 1 + int(self.scroll_offset.y) - self._cursor)

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the header, a row, or nothing."""
        width, layout = self.size.width, self._layout()
        base = self.rich_style
        index = y - 1 + int(self.scroll_offset.y)
        if y == 0:
            line, style = self._header(layout), base + Style(bold=True, dim=False)
        elif 0 <= index < len(self.rows):
            row = self.rows[index]
            line, style = self._line(row, layout), base
            if index == self._cursor:
                style = base + Style(bgcolor="#2d4f67" if self.has_focus else "#34343f", bold=True)
        else:
            line, style = Text(self._empty if y == 1 and not self.rows else "", "dim"), base
        segments = list(line.render(self.app.console))
        return Strip(Segment.apply_style(segments, style)).adjust_cell_length(width, style)

    def _layout(self) -> list[tuple[Column, int]]:
        """The columns that have room, with their widths; the name of the operator takes the rest."""
        columns, left = list(COLUMNS), 0
        for name in ("", *_DISPENSABLE):
            columns = [column for column in columns if column.name != name]
            left = self.size.width - _MARK - sum(column.width + _GAP for column in columns[1:])
            if left >= max(_LEAST_NAME, self._longest_title()):
                break
        return [(column, column.width or max(_LEAST_NAME, left)) for column in columns]

    def _longest_title(self) -> int:
        return min(40, max((len(row.title) for row in self.rows), default=0))

    def _header(self, layout: Sequence[tuple[Column, int]]) -> Text:
        line = Text("  ")
        for column, width in layout:
            sorts = COLUMNS[self.sorted_by] is column
            name = f"{column.name}{('▲' if self.reverse else '▼') if sorts else ''}"
            line.append(_fitted(Text(name, "underline" if sorts else ""), width, left=column.left))
            line.append(" " * _GAP)
        return line

    def _line(self, row: OperatorRow, layout: Sequence[tuple[Column, int]]) -> Text:
        line = Text.assemble(("▸ " if row.on_path else "  ", ACCENT))
        for column, width in layout:
            cell = column.draw(row, self._longest)
            if row.on_path and column.name in {"operator", "latency"}:
                cell.stylize(ACCENT)
            line.append_text(_fitted(cell, width, left=column.left))
            line.append(" " * _GAP)
        return line


def _fitted(cell: Text, width: int, *, left: bool) -> Text:
    """A cell of exactly this width; a longer one is cut."""
    cell.truncate(width, overflow="ellipsis")
    missing = width - cell.cell_len
    return Text.assemble(cell, " " * missing) if left else Text.assemble(" " * missing, cell)
