"""The half of `FileInput` in a container: it reads files from a place up to a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_refused, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.operators._replay_files import Reader
from ridgeline.operators._replay_lines import LineReader
from ridgeline.operators.files._formats import Format, Opener

_LEFT_OUT = "left out"
"""The note of a file of which the rest cannot be read."""
_CHUNK_ROWS = 65_536
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
    ) -> None:
        self._entries = entries
        self._format = form
        self._options = delimiter, null_values
        self._open: dict[str, tuple[Reader, int]] = {}
        """The readers that are open, and the size for which they were opened."""

    def open(self, context: ReaderContext) -> None:
        """Files are opened when they are read."""
        self._context = context
        self._opener = Opener(self._format, context.schema, *self._options)

    def close(self) -> None:
        """Close all files."""
        for name in list(self._open):
            self._close(name)

    def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """Read a file up to a number of bytes, or up to its end. Raises RidgelineError that names it."""
        if part.note == _LEFT_OUT:
            return
        passed, size, entry = part.end
        whole = passed == size
        place, lines = part.note or (0, 0)
        try:
            reader = self._reader(part, place, lines, entry)
            while whole or reader.passed() < passed:
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
        if whole:
            self._close(part.partition)  # it is opened again if it grows before it is closed

    def _reader(self, part: SourceRange, place: int, lines: int, entry: int) -> Reader:
        """The reader of a file at a place."""
        name, size = part.partition, part.end[1]
        known, opened = self._open.get(name, (None, -1))
        if known is not None and opened == size and known.place == place:
            return known
        self._close(name)
        if len(self._open) >= _MOST_OPEN:
            self._close(next(iter(self._open)))
        reader = self._opener.open(_Sized(self._entries[entry], name, size), place, lines)
        self._open[name] = reader, size
        return reader

    def _close(self, name: str) -> None:
        if name in self._open:
            self._open.pop(name)[0].close()


class _Sized:
    """A file of which only the bytes count that it had when it was listed."""

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
