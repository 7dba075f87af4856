"""The cell in which a slider keeps the tuples of the last windows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ridgeline.api.cells.cell import Change, StateCell

SLIDES = "_slides"
"""The name under which a slider keeps them beside the states that it declares."""


class SlidesCell(StateCell):
    """The tuples of each streaming window, by its place, and from which one on none are missing.

    The place of a window is its id, less the numbers that rewinds have left out before it.

    A change is (`since`, the oldest window that is kept, what came in the window). So a window writes what
    came in it, and what is dropped costs nothing.

    >>> import pyarrow as pa
    >>> cell = SlidesCell()
    >>> cell.begin(0)
    >>> cell.since = 0
    >>> cell.keep(4, [(pa.record_batch({"value": [7]}), "its times")])
    >>> since, oldest, parts = cell.changes()
    >>> since, oldest, list(parts), cell.size_bytes
    (0, 0, [4], 8)
    """

    since: int | None
    """The window from which on nothing is missing, None before the first."""
    _oldest: int  # what came before this window was dropped
    size_bytes: int
    """The size in memory of the tuples that are kept."""
    _parts: OrderedDict[int, Sequence[Any]]
    _new: dict[int, Sequence[Any]]  # of these, what the window added
    _before: tuple[int | None, int]  # `since` and `_oldest` when the window began

    def __init__(self) -> None:
        self.reset()

    def keep(self, window: int, parts: Sequence[Any]) -> None:
        """Keep what came in a window, batches with their times; it is not to be changed any more."""
        self._parts[window] = self._new[window] = parts
        self.size_bytes += _size(parts)

    def drop(self, before: int) -> None:
        """Forget what came before this window."""
        if before <= self._oldest:
            return
        while self._parts and next(iter(self._parts)) < before:  # they are in the order of windows
            _, parts = self._parts.popitem(last=False)
            self.size_bytes -= _size(parts)
            self._oldest = before

    @property
    def parts(self) -> list[Any]:
        """The kept tuples, the oldest first."""
        return [part for parts in self._parts.values() for part in parts]

    def begin(self, application_window: int) -> None:
        """A streaming window begins."""
        self._new = {}
        self._before = self.since, self._oldest

    def end(self) -> None:
        """It lives as long as the application."""

    def changes(self) -> Change | None:
        """The changes of the window: tuples added and dropped."""
        if not self._new and (self.since, self._oldest) == self._before:
            return None
        return self.since, self._oldest, self._new

    def snapshot(self) -> Change:
        """All that is kept."""
        return self.since, self._oldest, dict(self._parts)

    def apply(self, change: Change) -> None:
        """Drop and add what a window did."""
        self.since, oldest, new = change
        self.drop(oldest)
        for window, parts in new.items():
            self.keep(window, parts)
        self.begin(0)

    def reset(self) -> None:
        """Back to nothing."""
        self.since, self._oldest, self._parts, self.size_bytes = None, 0, OrderedDict(), 0
        self.begin(0)


def _size(parts: Sequence[Any]) -> int:
    return sum(batch.nbytes for batch, _ in parts)
