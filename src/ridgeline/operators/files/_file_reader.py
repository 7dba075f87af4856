"""The half of `FileInput` in a container: it reads files from a place up to a number of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_refused, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.operators._replay_files import Reader
from ridgeline.operators._replay_lines import LineReader
from ridgeline.operators.files._formats import Format, Opener
from ridgeline.operators.files._tailing import Tails, find_inode, fits, head_of, inode_of

_LEFT_OUT = "left out"
"""The note of a file of which the rest cannot be read."""
_CHUNK_ROWS = 65_536
_BLOCK_BYTES = 65_536
_MOST_OPEN = 16


class FileReader(SourceReader):
    """Reads files, which stay open from window to window.

    The note of a file is the exact place of its next row, and the number of lines before it. Windows count
    the bytes of a file as they are on the disk.
    """

    def __init__(
        self,
        entries: Sequence[str],
        form: Format | None,
        delimiter: str,
        null_values: Sequence[str],
        sheet: str | None,
        record: str | None,
        *,
        tail: bool,
    ) -> None:
        self._entries = entries
        self._format = form
        self._options = delimiter, null_values, sheet, record
        self._tail = tail
        self._open: dict[str, tuple[Reader, int]] = {}
        """The readers that are open, and the size for which they were opened."""
        self._held: dict[str, IO[bytes]] = {}
        """Files that grow, which may be renamed or removed meanwhile."""

    def open(self, context: ReaderContext) -> None:
        """Files are opened when they are read."""
        self._context = context
        self._opener = Opener(self._format, context.schema, *self._options, mends=context.skips)

    def close(self) -> None:
        """Close all files."""
        for name in [*self._open, *self._held]:
            self._close(name)

    def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """Read a file up to a number of bytes, or up to its end. Raises RidgelineError that names it."""
        if part.note == _LEFT_OUT:
            return
        passed, size, entry, *_ = part.end
        whole = passed == size
        place, lines = part.note or (0, 0)
        try:
            reader = self._reader(part, place, lines, entry)
            if reader is None:
                return
            while whole or self._tail or reader.passed() < passed:
                chunk = reader.peek(_CHUNK_ROWS)
                if not len(chunk):
                    break
                if self._context.skips:
                    sifted = chunk.sift(0, 1)
                    yield from sifted.batches
                    for one in sifted.unread:
                        self._context.operator.leave_out(one.text, one.error)
                else:
                    yield chunk.read(0, 1)
                reader.skip(len(chunk))
            part.note = [reader.place, reader.lines if isinstance(reader, LineReader) else 0]
        except RidgelineError as error:
            if not self._context.skips:
                raise
            self._context.operator.leave_out(part.partition, f"the rest of the file is left out: {error}")
            self._close(part.partition)
            part.note = _LEFT_OUT
        if whole or self._tail:
            self._close(part.partition, held=whole)  # it is opened again if it grows before it is closed

    def _reader(self, part: SourceRange, place: int, lines: int, entry: int) -> Reader | None:
        """The reader of a file at a place; None if it holds nothing yet that can be read."""
        passed, size, _, *known = part.end
        name = part.partition
        if self._tail:
            if passed == size and passed <= place:
                return None  # it may be gone
            file = self._tailed(name, *known)
            limit = passed if passed == size else _last_line(file, place, passed)
            if limit <= place:
                return None
            return self._opener.open(
                _Tailed(file, Tails.path_of(name), limit, grows=passed != size), place, lines
            )
        known, opened = self._open.get(name, (None, -1))
        if known is not None and opened == size and known.place == place:
            return known
        self._close(name)
        if len(self._open) >= _MOST_OPEN:
            self._close(next(iter(self._open)))
        reader = self._opener.open(_Sized(self._entries[entry], name, size), place, lines)
        self._open[name] = reader, size
        return reader

    def _tailed(self, name: str, known: int) -> IO[bytes]:
        """A file that grows, open. Raises RidgelineError if it is gone."""
        if name not in self._held:
            path, inode = Tails.path_of(name), inode_of(name)
            found = find_inode(path, inode)
            file = None if found is None else open(found, "rb")  # noqa: SIM115, PTH123  it stays open
            if file is not None and os.fstat(file.fileno()).st_ino != inode:
                file.close()
                return self._tailed(name, known)
            if file is None or not fits(head_of(file), known):
                raise RidgelineError(
                    f"file `{path}` was removed before it was read; rotate by renaming files"
                )
            self._held[name] = file
        return self._held[name]

    def _close(self, name: str, *, held: bool = True) -> None:
        if name in self._open:
            self._open.pop(name)[0].close()
        if held and name in self._held:
            self._held.pop(name).close()


class _Sized:
    """A file of which only the bytes count that it had when it was listed."""

    grows = False

    def __init__(self, entry: str, path: str, size: int) -> None:
        self.path, self.bytes = path, size
        self._entry = entry

    def open(self) -> pa.NativeFile:
        """Open it. Raises RidgelineError if it is gone."""
        try:
            return resolve(self._entry)[0].open_input_file(self.path)
        except OSError as error:
            if not (isinstance(error, (FileNotFoundError, PermissionError)) or is_refused(error)):
                raise
            msg = f"file `{self.path}` cannot be opened: {mask_text(str(error))}; it was there before: "
            msg += "bring it back, or leave such files out with `on_error=SKIP`"
            raise RidgelineError(msg) from error

    def check_size(self, found: int | None = None) -> None:
        """Raise RidgelineError if it has shrunk: then other bytes would be read."""
        if found is None:
            found = resolve(self._entry)[0].get_file_info(self.path).size
        if (found or 0) < self.bytes:
            msg = f"file `{self.path}` has {found or 'no'} bytes, it had {self.bytes} when it was found; "
            msg += "write files under a temporary name, and rename them once they are whole"
            raise RidgelineError(msg)


class _Tailed:
    """A file that grows, up to the end of a line."""

    def __init__(self, file: IO[bytes], path: str, limit: int, *, grows: bool) -> None:
        self.path, self.bytes, self.grows = path, limit, grows
        self._file = file

    def open(self) -> Any:
        """The file from its beginning, up to the limit."""
        self._file.seek(0)
        return _Limited(self._file, self.bytes)

    def check_size(self, found: int | None = None) -> None:
        """It may grow."""


class _Limited:
    """The first bytes of a file, which is not closed with it."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file, self._limit = file, limit

    def __getattr__(self, name: str) -> Any:
        """All else is that of the file."""
        return getattr(self._file, name)

    def size(self) -> int:
        """How many bytes it has."""
        return self._limit

    def read(self, size: int) -> bytes:
        """Read, and no further than to the limit."""
        return self._file.read(min(size, max(0, self._limit - self._file.tell())))

    def close(self) -> None:
        """It stays open."""


def _last_line(file: IO[bytes], place: int, end: int) -> int:
    """The end of the last whole line between two places; `place` if there is none."""
    while end > place:
        start = max(place, end - _BLOCK_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return place
