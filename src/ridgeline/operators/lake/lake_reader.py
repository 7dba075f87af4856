"""The half of inputs of lake tables in a container: it reads Parquet files between two rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.columns.casting import cast_exactly
from ridgeline.api.columns.nulls import MisplacedNullError, optional_columns, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.connect.reader import ReaderContext, SourceRange, SourceReader
from ridgeline.connect.source import SourceUnavailableError
from ridgeline.operators._replay_parquet import ParquetReader
from ridgeline.operators.lake.storage import first_line, of_store

_CHUNK_ROWS = 65_536
_MOST_OPEN = 16


class Files(Protocol):
    """Opens files for random access, as a file system of pyarrow does."""

    def open_input_file(self, path: str) -> Any:
        """Open a file. Raises FileNotFoundError if it is gone, OSError if the store is."""


class _File(NamedTuple):
    """A file of a table, as `ParquetReader` opens it."""

    system: Files
    path: str
    bytes: int

    def open(self) -> pa.NativeFile:
        """Open the file. Raises RidgelineError if it is gone, OSError if the store is."""
        try:
            return self.system.open_input_file(self.path)
        except FileNotFoundError as error:
            msg = f"file `{self.path}` is gone: it was vacuumed before it was read; keep files longer "
            msg += "(Delta: `delta.deletedFileRetentionDuration`), and start anew with another `--checkpoint`"
            raise RidgelineError(msg) from error

    def check_size(self, found: int | None = None) -> None:
        """Files of a table do not change."""


class _Open(NamedTuple):
    """A file that is open: its reader, if it has columns of the schema, and the texts of other columns."""

    reader: ParquetReader | None
    constants: dict[str, str | None]


class LakeReader(SourceReader):
    """Reads files, which stay open from window to window."""

    def __init__(self, files: Callable[[], Files]) -> None:
        self._files = files
        self._open: dict[str, _Open] = {}

    def open(self, context: ReaderContext) -> None:
        """Files are opened when they are read."""
        self._context = context
        self._system = self._files()
        self._optional = optional_columns(context.schema)

    def close(self) -> None:
        """Close all files."""
        for name in list(self._open):
            self._drop(name)

    def _drop(self, name: str) -> None:
        opened = self._open.pop(name, None)
        if opened is not None and opened.reader is not None:
            opened.reader.close()

    def read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """Read rows of a file. Raises RidgelineError that names file and row, or that the store is gone."""
        try:
            yield from self._read(part)
        except RidgelineError as error:
            if error.__cause__ is not None and of_store(error.__cause__):
                raise SourceUnavailableError(first_line(error.__cause__)) from error
            raise

    def _read(self, part: SourceRange) -> Iterator[pa.RecordBatch]:
        """As `read`; the errors of a store that is gone are those of Parquet files."""
        passed, rows, size, values = part.end
        opened = self._opened(part.partition, part.start[0], size, values)
        reader = opened.reader
        if reader is None:
            yield self._whole(None, opened.constants, part, passed - part.start[0])
            return
        while reader.place < passed:
            chunk = reader.peek(min(_CHUNK_ROWS, passed - reader.place))
            if not len(chunk):
                raise RidgelineError(
                    f"file `{part.partition}` has {reader.place} rows, its table says {rows}; mend it"
                )
            if self._context.skips:
                sifted = chunk.sift(0, 1)
                for batch in sifted.batches:
                    yield self._whole(batch, opened.constants, part, batch.num_rows)
                for one in sifted.unread:
                    self._context.leave_out(part.partition, reader.place + one.row, one.text, one.error)
            else:
                yield self._whole(chunk.read(0, 1), opened.constants, part, len(chunk))
            reader.skip(len(chunk))
        if passed == rows:
            self._drop(part.partition)

    def _opened(self, name: str, row: int, size: int, values: Mapping[str, str | None]) -> _Open:
        """The file of a source partition, open at a row."""
        opened = self._open.get(name)
        if opened is not None and opened.reader is not None and opened.reader.place == row:
            return opened
        self._drop(name)
        while len(self._open) >= _MOST_OPEN:
            self._drop(next(iter(self._open)))
        file = _File(self._system, name.partition(":")[2], size)
        fields, constants = self._columns(file, values)
        # it opens files as a ReplayFile does
        made = ParquetReader(file, Schema(pa.schema(fields)), row) if fields else None  # type: ignore[arg-type]
        self._open[name] = _Open(made, constants)
        return self._open[name]

    def _columns(
        self, file: _File, values: Mapping[str, str | None]
    ) -> tuple[list[Any], dict[str, str | None]]:
        """The columns that a file has, and the constant texts of others. Raises RidgelineError."""
        with file.open() as raw:
            found = pq.read_schema(raw).names
        fields, constants = [], {}
        for field in self._context.schema.arrow:
            if field.name in values:
                constants[field.name] = values[field.name]
            elif field.name in found:
                fields.append(pa.field(field.name, field.type, field.name in self._optional))
            elif field.name in self._optional:
                constants[field.name] = None
            else:
                msg = f"file `{file.path}` has no column `{field.name}`: it is older than the column, or "
                msg += f"`schema` is of another table; {did_you_mean(field.name, [*found, *values])} "
                msg += "Or let the column be null"
                raise RidgelineError(msg)
        return fields, constants

    def _whole(
        self, batch: pa.RecordBatch | None, constants: Mapping[str, str | None], part: SourceRange, rows: int
    ) -> pa.RecordBatch:
        """Rows with all columns of the schema. Raises RidgelineError."""
        schema = self._context.schema
        columns = []
        for field in schema.arrow:
            if batch is not None and field.name not in constants:
                columns.append(batch.column(field.name))
                continue
            try:
                columns.append(constant(constants[field.name], field.type, rows))
            except pa.ArrowException as error:
                msg = f"partition column `{field.name}` of file `{part.partition}` is "
                msg += f"{constants[field.name]!r}, `schema` says {field.type}: {error}; change `schema`"
                raise RidgelineError(msg) from error
        whole = pa.RecordBatch.from_arrays(columns, schema=schema.arrow)
        if constants:
            try:
                refuse_nulls(schema, whole)
            except MisplacedNullError as error:
                msg = f"rows of file `{part.partition}` are no {schema.describe()}: {error}"
                raise RidgelineError(msg) from error
        return whole


def constant(text: str | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A column with the same value in all rows, given as the log of a Delta table has it.

    Raises ArrowInvalid.
    """
    if text is None or (text == "" and not pa.types.is_string(kind)):
        return pa.nulls(rows, kind)
    value = pa.array([text])
    if pa.types.is_timestamp(kind):
        value = value.cast(pa.string())
        plain = text.removesuffix("Z").replace("T", " ")
        value = pa.array([plain]).cast(pa.timestamp("us"))
        value = value.cast(pa.timestamp("us", "UTC")) if kind.tz else value
        value = value.cast(kind)
    elif not pa.types.is_string(kind):
        value = value.cast(kind) if not pa.types.is_dictionary(kind) else cast_exactly(value, kind)
    return pa.repeat(value[0], rows) if not pa.types.is_dictionary(kind) else pa.concat_arrays([value] * rows)
