"""Files whose rows have types, open at any row: Parquet, Arrow, Avro."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.columns.casting import (
    cast_exactly,
)
from ridgeline.api.columns.nulls import MisplacedNullError, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.connect.extras import library
from ridgeline.operators._json import whole
from ridgeline.operators._replay_files import ReplayFile, Sifted, checked_columns, sift
from ridgeline.operators._replay_lines import decompressed

_BATCH_ROWS = 65_536
_MOST_BATCH_ROWS = 262_144
"""Batches of as many rows as are asked for need not be joined; more than these do not fit a cache anyway."""
_AVRO_ROWS = 8_192
_MAGIC = b"ARROW1"


class TypedReader:
    """A file of rows with types, open at a row. Holds in memory what was decoded last."""

    what = ""
    lines = 0

    def __init__(self, file: ReplayFile, schema: Schema, place: int) -> None:
        """Open `file` at row `place`. Raises RidgelineError."""
        self.file = file
        self._schema = schema
        self._raw = file.open()
        self._held: list[pa.RecordBatch] = []
        self.place = 0
        try:
            self._open()
        except RidgelineError:
            raise
        except Exception as error:  # what libraries raise has many classes
            raise self._corrupt(error) from error
        while self.place < place:
            if not len(chunk := self.peek(place - self.place)):
                raise RidgelineError(
                    f"file `{file.path}` has shrunk: it was read up to row {place} before; "
                    "bring it back, or start on a fresh checkpoint"
                )
            self.skip(len(chunk))

    def _open(self) -> None:
        """Open the file. Raises RidgelineError for missing columns, other errors if it is corrupt."""
        raise NotImplementedError

    def peek(self, rows: int) -> TypedChunk:
        """Return the next rows, at most `rows`; empty at the end of the file. Raises RidgelineError."""
        raise NotImplementedError

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """Rows that `peek` returned, in the types of the file. Raises RidgelineError."""
        raise NotImplementedError

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` returned."""
        self.place += rows

    def passed(self) -> float:
        """Bytes read, which is up to a batch more than was passed."""
        return float(self._raw.tell())

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _corrupt(self, error: Exception) -> RidgelineError:
        msg = f"file `{self.file.path}` is no {self.what} file or corrupt, after row {self.place}: {error}; "
        return RidgelineError(msg + "fix or remove it, or set `format`")


class ParquetReader(TypedReader):
    """A Parquet file, open at a row. Only the columns of the schema are read."""

    what = "Parquet"

    def _open(self) -> None:
        """Read what it says of its rows."""
        # Spark, Hive and Impala once wrote times of 96 bits; by nanoseconds of 64 they would overflow
        self._parquet = pq.ParquetFile(self._raw, coerce_int96_timestamp_unit="us")
        self._names = checked_columns(self.file.path, self._schema, self._parquet.schema_arrow.names)
        self.file.check_size(self._raw.size())
        metadata = self._parquet.metadata
        self.rows: int = metadata.num_rows
        self._ends = np.cumsum([metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)])
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._next = -1
        """The next row that `_batches` gives; -1: it was not made yet."""

    def peek(self, rows: int) -> TypedChunk:
        """Return the next rows. Decodes nothing: who needs none of them need not wait for it."""
        return TypedChunk(self, self._schema, self.place, min(rows, self.rows - self.place))

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """Decode rows from a row on; what lies before it in other row groups is not decoded."""
        group = int(np.searchsorted(self._ends, place, side="right"))
        begin = int(self._ends[group - 1]) if group else 0
        if place < self._next - sum(map(len, self._held)) or self._next < begin:
            self._held, self._next = [], begin
            groups = list(range(group, len(self._ends)))
            size = min(max(rows, _BATCH_ROWS), _MOST_BATCH_ROWS)
            self._batches = self._parquet.iter_batches(
                size, row_groups=groups, columns=self._names, use_threads=False
            )
        try:
            while self._next < place + rows and (batch := next(self._batches, None)) is not None:
                self._next += batch.num_rows
                self._held.append(batch)
                self._let_go(place)
        except (OSError, pa.ArrowException) as error:
            self._next = -1  # what is asked for again is decoded again
            raise self._corrupt(error) from error
        self._let_go(place)
        first = place - (self._next - sum(map(len, self._held)))
        table = pa.Table.from_batches(self._held) if self._held else pa.table({})
        return table.slice(first, rows).to_batches()

    def _let_go(self, place: int) -> None:
        """Forget batches that end before a row."""
        while self._held and self._next - sum(map(len, self._held[1:])) <= place:
            self._held.pop(0)

    def passed(self) -> float:
        """The share of rows passed, in bytes of the file."""
        return self.file.bytes * self.place / max(1, self.rows)


class _BatchReader(TypedReader):
    """A file of batches, which are read one after the other."""

    _batches: Iterator[pa.RecordBatch]

    def peek(self, rows: int) -> TypedChunk:
        """Return the next rows, of one batch."""
        while not self._held or not self._held[0].num_rows:
            try:
                batch = next(self._batches, None)
            except RidgelineError:
                raise
            except Exception as error:
                raise self._corrupt(error) from error
            if batch is None:
                return TypedChunk(self, self._schema, self.place, 0)
            checked_columns(self.file.path, self._schema, batch.schema.names)
            self._held = [batch]
        return TypedChunk(self, self._schema, self.place, min(rows, self._held[0].num_rows))

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """The rows that `peek` returned last."""
        return [self._held[0].slice(0, rows)] if rows else []

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` returned."""
        if rows:
            self._held = [self._held[0].slice(rows)]
        super().skip(rows)


class ArrowReader(_BatchReader):
    """An Arrow IPC file, or stream."""

    what = "Arrow IPC"

    def _open(self) -> None:
        """Open the file or stream, by its first bytes."""
        is_file = self._raw.read(len(_MAGIC)) == _MAGIC
        self._raw.seek(0)
        if is_file:
            reader = pa.ipc.open_file(self._raw)
            checked_columns(self.file.path, self._schema, reader.schema.names)
            self._batches = map(reader.get_batch, range(reader.num_record_batches))
        else:
            self._batches = _streams(decompressed(self._raw, self.file.path))


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

    def _open(self) -> None:
        """Open the file. Raises RidgelineError without fastavro."""
        fastavro = library("fastavro", "Avro files need fastavro, which cannot be imported", "kafka")
        records: Any = fastavro.reader(decompressed(self._raw, self.file.path))
        has_ids = "'uuid'" in str(records.writer_schema)
        self._batches = self._converted(map(_texted, records) if has_ids else records)

    def _converted(self, records: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Records in batches."""
        while rows := list(islice(records, _AVRO_ROWS)):
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


class TypedChunk:
    """Rows of a file, in the file's types, not yet decoded."""

    def __init__(self, reader: TypedReader, schema: Schema, place: int, rows: int) -> None:
        self._reader, self._schema, self._place, self._rows = reader, schema, place, rows
        self._path = reader.file.path

    def __len__(self) -> int:
        return self._rows

    def sift(self, first: int, step: int, *, strict: bool) -> Sifted:
        """Every `step`-th row from row `first` on, without those that have a value which the schema has not.

        If it is `strict`, raises RidgelineError for the first of these. So it does for a column whose type
        cannot be that of the schema, whatever its values are.
        """
        batches = self._reader.decode(self._place, self._rows)
        if not batches:
            return Sifted([], np.empty(0, np.int64), [])
        table = pa.Table.from_batches(batches)
        numbers = np.arange(first, table.num_rows, step)
        table = table.take(pa.array(numbers)) if first or step > 1 else table

        def parse(begin: int, end: int) -> pa.RecordBatch:
            try:
                return self._converted(table.slice(begin, end - begin), first + step * begin, step)
            except RidgelineError as error:
                if isinstance(error.__cause__, pa.ArrowNotImplementedError):
                    raise
                raise _MisfitError(error) from error

        def describe(row: int, error: Exception) -> tuple[str, str]:
            one = table.slice(row, 1)
            try:
                text = str(one.to_pylist()[0])
            except (ArithmeticError, ValueError):  # a time that Python does not have
                text = str([column[0] for column in one.columns])
            return text, str(error).partition("; change `schema`")[0].removesuffix(", or fix the file")

        def refused(_text: str, _reason: str, error: Exception) -> Exception:
            return RidgelineError(str(error))

        return sift(numbers, parse, describe, (_MisfitError,), refused if strict else None)

    def _converted(self, table: pa.Table, first: int, step: int) -> pa.RecordBatch:
        """Cast rows to the schema: from number `first` on in the chunk, each `step`-th one."""
        arrays, first = [], self._place + first
        last = first + step * (table.num_rows - 1)
        where = f"row {first}" if first == last else f"rows {first} to {last}"
        for field in self._schema.arrow:
            if field.name not in table.column_names:
                arrays.append(pa.nulls(table.num_rows, field.type))
                continue
            column = table.column(field.name)
            try:
                arrays.append(cast_exactly(whole(column), field.type))
            except pa.ArrowException as error:
                raise RidgelineError(
                    f"column `{field.name}` of file `{self._path}` is {column.type}, "
                    f"`schema` says {field.type}: {error} ({where}); change `schema`"
                ) from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        try:
            refuse_nulls(self._schema, batch)
        except MisplacedNullError as error:
            raise RidgelineError(
                f"row {first + step * error.row} of file `{self._path}` is not a {self._schema.describe()}: "
                f"{error}, or fix the file"
            ) from error
        return batch


class _MisfitError(Exception):
    """Some rows have a value that the schema cannot hold."""
