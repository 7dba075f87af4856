"""The half of `FileInput` in a container: it reads files of all formats up to a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_refused, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.operators._replay_files import ReplayFile
from ridgeline.operators._replay_lines import LineChunk, LineParser, LineReader, compression
from ridgeline.operators._replay_parsers import CsvParser, JsonParser, TextParser
from ridgeline.operators.files._typed_files import (
    ArrowReader,
    AvroReader,
    ParquetReader,
    TypedChunk,
    TypedReader,
)

Reader: TypeAlias = LineReader | TypedReader
"""A file that is open at a place: a byte of lines, or the number of a row."""
Chunk: TypeAlias = LineChunk | TypedChunk
"""The next rows of a file, not yet parsed."""
Format = Literal["text", "csv", "jsonl", "parquet", "arrow", "avro"]
LINES = ("text", "csv", "jsonl")
_ENDINGS: dict[str, Format] = {
    "txt": "text",
    "text": "text",
    "log": "text",
    "csv": "csv",
    "json": "jsonl",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "avro": "avro",
}
_TYPED = {"parquet": ParquetReader, "arrow": ArrowReader, "avro": AvroReader}
UNKNOWN = "the name of a file does not say its format; give `format`"


def format_of(path: str) -> Format | None:
    """The format that the ending of a name stands for, before that of a compression; None for another."""
    stem = path.rpartition(".")[0] if compression(path) else path
    name = stem.rpartition("/")[2]
    return _ENDINGS.get(name.rpartition(".")[2].lower()) if "." in name else None


def open_reader(
    file: ReplayFile,
    place: int,
    lines: int,
    format: Format | None,
    schema: Schema,
    delimiter: str,
    null_values: Sequence[str],
) -> Reader:
    """Open a file at a place, in the schema of the rows. `lines`: how many are before it.

    Raises RidgelineError for a file that cannot be read, or whose format is not known.
    """
    form = format or format_of(file.path)
    if form is None:
        raise RidgelineError(f"`{file.path}`: {UNKNOWN}")
    if form in _TYPED:
        return _TYPED[form](file, schema, place)
    parser: LineParser
    if form == "csv":
        parser = CsvParser(schema, delimiter, null_values)
    else:
        parser = TextParser(schema) if form == "text" else JsonParser(schema)
    return LineReader(file, parser, place, lines)


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
        self._open: dict[str, Reader] = {}

    def open(self, context: ReaderContext) -> None:
        """Files are opened when they are read."""
        self._context = context

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
                sifted = chunk.sift(0, 1, strict=not self._context.skips)
                yield from sifted.batches
                for one in sifted.unread:
                    self._context.operator.leave_out(one.text, one.error)
                reader.skip(len(chunk))
            part.note = [reader.place, reader.lines]
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
        known = self._open.get(name)
        if known is not None and (known.file.bytes, known.place) == (size, place):
            return known
        self._close(name)
        if len(self._open) >= _MOST_OPEN:
            self._close(next(iter(self._open)))
        file = _Sized(self._entries[entry], name, size)
        reader = open_reader(file, place, lines, self._format, self._context.schema, *self._options)
        self._open[name] = reader
        return reader

    def _close(self, name: str) -> None:
        if name in self._open:
            self._open.pop(name).close()


class _Sized(ReplayFile):
    """A file of which only the bytes count that it had when it was listed."""

    def open(self) -> pa.NativeFile:
        """Open it. Raises RidgelineError if it is gone."""
        try:
            return resolve(self.entry)[0].open_input_file(self.path)
        except OSError as error:
            if not (isinstance(error, (FileNotFoundError, PermissionError)) or is_refused(error)):
                raise
            msg = f"file `{self.path}` cannot be opened: {mask_text(str(error))}; it was there before: "
            msg += "bring it back, or leave such files out with `on_error=SKIP`"
            raise RidgelineError(msg) from error

    def check_size(self, found: int | None = None) -> None:
        """Raise RidgelineError if it has shrunk: then other bytes would be read."""
        if found is None:
            found = resolve(self.entry)[0].get_file_info(self.path).size
        if (found or 0) < self.bytes:
            msg = f"file `{self.path}` has {found or 'no'} bytes, it had {self.bytes} when it was found; "
            msg += "write files under a temporary name, and rename them once they are whole"
            raise RidgelineError(msg)
