"""The cell in which an input keeps what it has emitted beyond the budgets of its windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from ridgeline.api.cells.cell import Change, StateCell
from ridgeline.api.times import NO_TIME, Span, Times


class Chunk(NamedTuple):
    """Tuples that wait: the port, their batch and its times; `span`: the newest and the oldest time."""

    port: str
    batch: pa.RecordBatch
    times: Times | str | None
    span: Span | None = None

    def without(self, first: int) -> Chunk:
        """The same without so many first tuples."""
        times = self.times.take(slice(first, None)) if isinstance(self.times, Times) else self.times
        return self._replace(batch=self.batch.slice(first), times=times)


class HeldCell(StateCell):
    """What waits, in chunks, the first to be emitted first.

    A change has what came in the window and how much went, so a long wait does not write all that waits
    again and again.
    """

    finished: bool
    """The input has finished: it is not asked any more."""
    newest: int
    """The newest time of all that has waited."""
    _chunks: deque[Chunk]
    _gone: int  # tuples of the first chunk
    _rows: int
    _dropped: int  # chunks that went in this window
    _new: list[Chunk]

    def __init__(self) -> None:
        self.reset()

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)

    @property
    def rows(self) -> int:
        """How many tuples wait."""
        return self._rows

    @property
    def first(self) -> Chunk:
        """What is left of the first chunk."""
        return self._chunks[0].without(self._gone)

    def keep(self, chunk: Chunk) -> None:
        """Let it wait behind all others."""
        self._chunks.append(chunk)
        self._new.append(chunk)
        self._rows += len(chunk.batch)

    def go(self, rows: int) -> None:
        """So many more tuples of the first chunk have gone."""
        self._gone += rows
        self._rows -= rows
        if self._gone == len(self._chunks[0].batch):
            self._chunks.popleft()
            self._gone, self._dropped = 0, self._dropped + 1

    def begin(self, application_window: int) -> None:
        """A streaming window begins."""
        self._new = []
        self._dropped, self._before = 0, (self._gone, self.finished)

    def end(self) -> None:
        """It lives as long as the application."""

    def changes(self) -> Change | None:
        """(Chunks that went, tuples of the first one that have gone, `finished`, `newest`, new chunks).

        Where nothing waits any more it is the snapshot: a version may begin with it.
        """
        if not self._new and not self._dropped and (self._gone, self.finished) == self._before:
            return None
        return (self._dropped, self._gone, self.finished, self.newest, self._new) if self._chunks else (None,)

    def snapshot(self) -> Change:
        """All that waits; (None,) if nothing does."""
        return (0, self._gone, self.finished, self.newest, list(self._chunks)) if self._chunks else (None,)

    def apply(self, change: Change) -> None:
        """Drop and add what a window did."""
        if change == (None,):
            self.reset()
            return
        dropped, self._gone, self.finished, self.newest, new = change
        for _ in range(dropped):
            self._chunks.popleft()
        self._chunks.extend(new)
        self._rows = sum(len(chunk.batch) for chunk in self._chunks) - self._gone
        self.begin(0)

    def reset(self) -> None:
        """Nothing waits."""
        self._chunks = deque()
        self._gone = self._rows = 0
        self.finished, self.newest = False, NO_TIME
        self.begin(0)
