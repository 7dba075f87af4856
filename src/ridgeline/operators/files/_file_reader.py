"""The half of `FileInput` in a container: it reads files of all formats up to a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal
from uuid import UUID

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_refused, resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.operators._replay_files import Reader, ReplayFile, checked_columns
from ridgeline.operators._replay_lines import LineParser, LineReader, compression, decompressed
from ridgeline.operators._replay_parquet import ParquetChunk, ParquetReader
from ridgeline.operators._replay_parsers import CsvParser, JsonParser, TextParser

_BATCH_ROWS = 8_192
_MAGIC = b"ARROW1"


class _BatchReader:
    """A file of batches, open at a row. Holds in memory the batch that was decoded last."""

    what = ""
    lines = 0

    def __init__(self, file: ReplayFile, schema: Schema, place: int) -> None:
        """Open `file` at row `place`. Raises RidgelineError."""
        self.file = file
        self._schema = schema
        self._raw = file.open()
        self._batches = self._opened()
        self._held: list[pa.RecordBatch] = []
        self.place = 0
        while self.place < place:
            if not (chunk := self.peek(place - self.place)):
                raise RidgelineError(
                    f"file `{file.path}` has shrunk: it was read up to row {place} before; bring it back"
                )
            self.skip(len(chunk))

    def peek(self, rows: int) -> ParquetChunk:
        """Return the next rows, at most `rows`, of one batch; empty at the end of the file.

        Raises RidgelineError for a file that is corrupt.
        """
        while not self._held or not self._held[0].num_rows:
            batch = self._next()
            if batch is None:
                return ParquetChunk(self, self._schema, self.place, 0)
            self._held = [batch]
        return ParquetChunk(self, self._schema, self.place, min(rows, self._held[0].num_rows))

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """The rows that `peek` returned last."""
        return [self._held[0].slice(0, rows)] if rows else []

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` returned."""
        if rows:
            self._held = [self._held[0].slice(rows)]
        self.place += rows

    def passed(self) -> float:
        """Bytes read, which is up to a batch more than was passed."""
        return float(self._raw.tell())

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file, and return its batches."""
        raise NotImplementedError

    def _next(self) -> pa.RecordBatch | None:
        try:
            batch = next(self._batches, None)
        except RidgelineError:
            raise
        except Exception as error:
            raise self._corrupt(error) from error
        if batch is not None:
            checked_columns(self.file.path, self._schema, batch.schema.names)
        return batch

    def _corrupt(self, error: Exception) -> RidgelineError:
        msg = f"file `{self.file.path}` is no {self.what} file or corrupt, after row {self.place}: {error}; "
        msg += "mend or remove it, or set `format`"
        return RidgelineError(msg)


class ArrowReader(_BatchReader):
    """An Arrow IPC file, or stream."""

    what = "Arrow IPC"

    def _opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file or stream, by its first bytes, and return its batches. Raises RidgelineError."""
        try:
            is_file = self._raw.read(len(_MAGIC)) == _MAGIC
            self._raw.seek(0)
            if is_file:
                reader = pa.ipc.open_file(self._raw)
                checked_columns(self.file.path, self._schema, reader.schema.names)
                return map(reader.get_batch, range(reader.num_record_batches))
            return _streams(decompressed(self._raw, self.file.path))
        except (OSError, pa.ArrowException) as error:
            self.place = 0
            raise self._corrupt(error) from error


def _streams(source: Any) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow stream, and of those that follow it. Raises Arrow exceptions, OSError."""
    yield from pa.ipc.open_stream(source)
    while True:
        try:
            following = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            if "null or length 0" in str(error) and not source.read(1):
                return
            raise
        yield from following


class AvroReader(_BatchReader):
    """An Avro container file. Needs fastavro."""

    what = "Avro"

    def _opened(self) -> Iterator[pa.RecordBatch]:
        """Open the file, and return its records in batches. Raises RidgelineError, also without fastavro."""
        try:
            import fastavro
        except ImportError as error:
            raise RidgelineError(
                "Avro files need fastavro, which is not installed; `pip install fastavro`"
            ) from error
        try:
            records: Any = fastavro.reader(decompressed(self._raw, self.file.path))
        except Exception as error:
            self.place = 0
            raise self._corrupt(error) from error
        return self._converted(map(_texted, records) if "'uuid'" in str(records.writer_schema) else records)

    def _converted(self, records: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Records in batches."""
        while rows := list(islice(records, _BATCH_ROWS)):
            names = checked_columns(self.file.path, self._schema, list(rows[0]))
            columns = {name: [row[name] for row in rows] for name in names}
            yield pa.RecordBatch.from_pydict(
                {name: self._column(name, values) for name, values in columns.items()}
            )

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        """Values as a column of their own type; Arrow takes dicts for structs if it does not know better."""
        kind = self._schema.arrow.field(name).type
        return pa.array(values, kind if _has_maps(kind) else None)


def _texted(value: Any) -> Any:
    """A record with UUIDs as the texts that they are written as."""
    if isinstance(value, dict):
        return {name: _texted(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_texted, value))
    return str(value) if isinstance(value, UUID) else value


def _has_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_maps(kind.field(i).type) for i in range(kind.num_fields))


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
UNKNOWN = "the name of a file does not say its format; give `format`"


def format_of(path: str) -> Format | None:
    """The format that the ending of a name stands for, before that of a compression; None for another."""
    stem = path.rpartition(".")[0] if compression(path) else path
    name = stem.rpartition("/")[2]
    return _ENDINGS.get(name.rpartition(".")[2].lower()) if "." in name else None


def open_reader(
    file: Any,
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
    if form == "parquet":
        return ParquetReader(file, schema, place)
    if form == "arrow":
        return ArrowReader(file, schema, place)
    if form == "avro":
        return AvroReader(file, schema, place)
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
        self._open: dict[str, tuple[Reader, int]] = {}
        """The readers that are open, and the size for which they were opened."""

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
                if self._context.skips:
                    sifted = chunk.sift(0, 1)
                    yield from sifted.batches
                    for one in sifted.unread:
                        self._context.operator.leave_out(one.text, one.error)
                else:
                    yield chunk.read(0, 1)
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
        known, opened = self._open.get(name, (None, -1))
        if known is not None and opened == size and known.place == place:
            return known
        self._close(name)
        if len(self._open) >= _MOST_OPEN:
            self._close(next(iter(self._open)))
        file = _Sized(self._entries[entry], name, size)
        reader = open_reader(file, place, lines, self._format, self._context.schema, *self._options)
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
