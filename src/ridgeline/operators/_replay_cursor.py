"""The position of a replay in its files, which stay open from window to window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.operators._replay_files import Chunk, Position, Reader, ReplayFile, Unread


class Parsed(NamedTuple):
    """The next `size` rows of a file: those that were read, with their numbers, and those that cannot be.

    `batch` is None if none was read.
    """

    batch: pa.RecordBatch | None
    rows: npt.NDArray[np.int64]
    unread: list[Unread]
    size: int

    def after(self, passed: int) -> Parsed | None:
        """The rows after the first `passed`; None if there are none."""
        if passed >= self.size:
            return None
        first = int(np.searchsorted(self.rows, passed))
        batch = None if self.batch is None else self.batch.slice(first)
        unread = [one._replace(row=one.row - passed) for one in self.unread if one.row >= passed]
        return Parsed(batch, self.rows[first:] - passed, unread, self.size - passed)


class ReplayCursor:
    """Reads files in order.

    Files are opened again only where a window begins at another position than the last one ended at.
    """

    def __init__(self, open_reader: Callable[[ReplayFile, int], Reader]) -> None:
        self._open_reader = open_reader
        self._files: Sequence[ReplayFile] = ()
        self._reader: Reader | None = None
        self._parsed: Parsed | None = None
        self._done: list[int] = [0]
        self.position = Position()

    def move(self, files: Sequence[ReplayFile], position: Position) -> None:
        """Move to a position of these files; free if the cursor is there already."""
        if files is not self._files or position != self.position:
            self.close()
            self._files, self.position = files, position
            self._done = [0]
            for file in files:
                self._done.append(self._done[-1] + file.bytes)

    def peek(self, rows: int) -> Chunk | None:
        """Return the next rows, at most `rows` and of one file; None when there are no more.

        Raises RidgelineError.
        """
        while self.position.file < len(self._files):
            if self._reader is None:
                self._reader = self._open_reader(self._files[self.position.file], self.position.place)
            chunk = self._reader.peek(rows)
            if len(chunk):
                return chunk
            self.close()
            self.position = Position(self.position.file + 1, 0, self.position.row)
        return None

    def peek_parsed(self, rows: int, *, sifts: bool) -> Parsed | None:
        """As `peek`, but parsed. Rows that are not passed by `advance` are kept for the next call.

        `sifts`: rows that cannot be read are no error.
        """
        if self._parsed is None and (chunk := self.peek(rows)) is not None:
            if sifts:
                batches, numbers, unread = chunk.sift(0, 1)
                table = pa.Table.from_batches(batches) if batches else None
                parts = [] if table is None else table.unify_dictionaries().combine_chunks().to_batches()
                batch = parts[0] if parts else None
                self._parsed = Parsed(batch, numbers, unread, len(chunk))
            else:
                self._parsed = Parsed(chunk.read(0, 1), np.arange(len(chunk)), [], len(chunk))
        return self._parsed

    def advance(self, rows: int) -> None:
        """Pass rows that `peek` returned."""
        if self._reader is not None:
            self._reader.skip(rows)
            self.position = Position(self.position.file, self._reader.place, self.position.row + rows)
        if self._parsed is not None:
            self._parsed = self._parsed.after(rows)

    @property
    def at_end(self) -> bool:
        """True if no row follows."""
        return self.peek(1) is None

    def progress(self) -> tuple[float, float]:
        """Bytes passed and bytes left, over all files."""
        passed = self._done[self.position.file] + (self._reader.passed() if self._reader is not None else 0)
        return passed, max(0.0, self._done[-1] - passed)

    def close(self) -> None:
        """Close the file that is open."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._parsed = None
