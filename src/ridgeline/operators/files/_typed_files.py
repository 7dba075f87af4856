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
from ridgeline.operators._halving import Sifted, sift
from ridgeline.operators._json import whole
from ridgeline.operators.files._lines import decompressed
from ridgeline.operators.files._listing import InputFile, checked_columns

_BATCH_ROWS = 65_536
_MOST_BATCH_ROWS = 262_144
"""Batches of as many rows as are asked for need not be joined; more than these do not fit a cache anyway."""
_AVRO_ROWS = 8_192
_MAGIC = b"ARROW1"


class TypedReader:
    """A file of rows with types, open at a row. Holds in memory what was decoded last."""

    what = ""
    lines = 0

    def __init__(self, file: InputFile, schema: Schema, place: int) -> None:
        """Open `file` at row `place`. Raises RidgelineError."""
        self.file = file
        self._schema = schema
        self._raw = file.open()
        self.place = 0
        try:
            self._open()
        except RidgelineError:
            raise
        except Exception as error:  # what libraries raise has many classes
            raise self._corrupt(error) from error
        while self.place < place:
            if not (rows := self.peek(place - self.place)):
                raise RidgelineError(
                    f"file `{file.path}` has shrunk: it was read up to row {place} before; "
                    "bring it back, or start on a fresh checkpoint"
                )
            self.skip(rows)

    def _open(self) -> None:
        """Open the file. Raises RidgelineError for missing columns, other errors if it is corrupt."""
        raise NotImplementedError

    def peek(self, rows: int) -> int:
        """How many rows follow, at most `rows`; 0 at the end of the file. Raises RidgelineError."""
        raise NotImplementedError

    def decode(self, rows: int) -> pa.Table:
        """The next rows, which `peek` has found, in the types of the file. Raises RidgelineError."""
        raise NotImplementedError

    def sift(self, rows: int, first: int = 0, step: int = 1, *, strict: bool) -> Sifted:
        """Every `step`-th row from row `first` on of the next ones, but for those that do not fit the schema.

        `rows`: what `peek` has returned. If it is `strict`, raises RidgelineError for the first row
        that does not fit. So it does for a column whose type cannot be that of the schema,
        whatever its values are.
        """
        table = self.decode(rows)
        numbers = np.arange(first, rows, step)
        table = table.take(pa.array(numbers)) if first or step > 1 else table

        def parse(begin: int, end: int) -> pa.RecordBatch:
            return self._converted(table.slice(begin, end - begin), self.place + first + step * begin, step)

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
        """Cast rows to the schema: from number `first` on in the file, each `step`-th one.

        Raises _MisfitError for a value that does not fit, RidgelineError for a type.
        """
        arrays, last = [], first + step * (table.num_rows - 1)
        where = f"row {first}" if first == last else f"rows {first} to {last}"
        for field in self._schema.arrow:
            if field.name not in table.column_names:
                arrays.append(pa.nulls(table.num_rows, field.type))
                continue
            column = table.column(field.name)
            try:
                arrays.append(cast_exactly(whole(column), field.type))
            except pa.ArrowException as error:
                kind = RidgelineError if isinstance(error, pa.ArrowNotImplementedError) else _MisfitError
                raise kind(
                    f"column `{field.name}` of file `{self.file.path}` is {column.type}, "
                    f"`schema` says {field.type}: {error} ({where}); change `schema`"
                ) from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        try:
            refuse_nulls(self._schema, batch)
        except MisplacedNullError as error:
            raise _MisfitError(
                f"row {first + step * error.row} of file `{self.file.path}` is not a "
                f"{self._schema.describe()}: {error}, or fix the file"
            ) from error
        return batch

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` has found."""
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
        self._held: list[tuple[int, pa.RecordBatch]] = []
        """Batches that were decoded and are not passed, each with its first row."""

    def peek(self, rows: int) -> int:
        """How many rows follow. Decodes nothing: who needs none of them need not wait for it."""
        return min(rows, self.rows - self.place)

    def decode(self, rows: int) -> pa.Table:
        """The next rows; what lies before them in other row groups is not decoded."""
        place = self.place
        group = int(np.searchsorted(self._ends, place, side="right"))
        begin = int(self._ends[group - 1]) if group else 0
        if self._next < begin:
            groups = list(range(group, len(self._ends)))
            size = min(max(rows, _BATCH_ROWS), _MOST_BATCH_ROWS)
            self._batches = self._parquet.iter_batches(
                size, row_groups=groups, columns=self._names, use_threads=False
            )
            self._next = begin
        self._held = [(start, batch) for start, batch in self._held if start + len(batch) > place]
        try:
            while self._next < place + rows:
                batch = next(self._batches)
                if self._next + len(batch) > place:
                    self._held.append((self._next, batch))
                self._next += len(batch)
        except (OSError, StopIteration, pa.ArrowException) as error:
            self._next = -1  # what is asked for again is decoded again
            self._held = []
            raise self._corrupt(error) from error
        table = pa.Table.from_batches([batch for _, batch in self._held])
        return table.slice(place - self._held[0][0], rows)

    def passed(self) -> float:
        """The share of rows passed, in bytes of the file."""
        return self.file.bytes * self.place / max(1, self.rows)


class _BatchReader(TypedReader):
    """A file of batches, which are read one after the other."""

    _batches: Iterator[pa.RecordBatch]
    _held: Any = None
    """The rows that were decoded and are not passed."""

    def peek(self, rows: int) -> int:
        """How many rows of one batch follow."""
        while not self._held:
            try:
                self._held = next(self._batches, None)
            except RidgelineError:
                raise
            except Exception as error:
                raise self._corrupt(error) from error
            if self._held is None:
                return 0
            checked_columns(self.file.path, self._schema, self._held.schema.names)
        return min(rows, len(self._held))

    def decode(self, rows: int) -> pa.Table:
        """The next rows of the batch."""
        return pa.Table.from_batches([self._held.slice(0, rows)])

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` has found."""
        self._held = self._held.slice(rows)
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
        self._batches = self._decoded(map(_texted, records) if has_ids else records)

    def _decoded(self, records: Iterator[Any]) -> Iterator[pa.RecordBatch]:
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


class _MisfitError(Exception):
    """Some rows have a value that the schema cannot hold."""
