"""Read Parquet files a batch at a time from any row on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.columns.casting import (
    cast_exactly,
)
from ridgeline.api.columns.nulls import MisplacedNullError, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._json import whole
from ridgeline.operators._replay_files import ReplayFile, Sifted, checked_columns, sift

_BATCH_ROWS = 65_536
_MOST_BATCH_ROWS = 262_144
"""Batches of as many rows as are asked for need not be joined; more than these do not fit a cache anyway."""


class Decoder(Protocol):
    """A file of rows with types, open at a row."""

    file: ReplayFile

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """The rows from a row on, in the types of the file. Raises RidgelineError."""


class ParquetReader:
    """A Parquet file, open at a row. Holds in memory the rows that were decoded last and one batch."""

    lines = 0

    def __init__(self, file: ReplayFile, schema: Schema, place: int) -> None:
        """Open `file` at row `place`, reading only the columns of `schema`. Raises RidgelineError."""
        self.file = file
        self._schema = schema
        self._raw = file.open()
        try:
            # Spark, Hive and Impala once wrote times of 96 bits; by nanoseconds of 64 they would overflow
            self._parquet = pq.ParquetFile(self._raw, coerce_int96_timestamp_unit="us")
        except (OSError, pa.ArrowException) as error:
            raise RidgelineError(
                f"file `{file.path}` is no Parquet file or corrupt: {error}; "
                "mend or remove it, or set `format`"
            ) from error
        self._names = checked_columns(file.path, schema, self._parquet.schema_arrow.names)
        metadata = self._parquet.metadata
        self.rows: int = metadata.num_rows
        if place > self.rows:
            raise RidgelineError(
                f"file `{file.path}` has shrunk: it was read up to row {place} before; "
                "bring it back, or start on a fresh checkpoint"
            )
        file.check_size(self._raw.size())
        self.place = place
        self._ends = np.cumsum([metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)])
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._held: list[pa.RecordBatch] = []
        self._first, self._next = 0, -1
        """The first row that is held, and the next that `_batches` gives; -1: it was not made yet."""

    def peek(self, rows: int) -> ParquetChunk:
        """Return the next rows, at most `rows`; empty at the end of the file. Decodes nothing."""
        return ParquetChunk(self, self._schema, self.place, min(rows, self.rows - self.place))

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """Decode rows from a row on; what lies before it in other row groups is not decoded.

        Raises RidgelineError.
        """
        group = int(np.searchsorted(self._ends, place, side="right"))
        begin = int(self._ends[group - 1]) if group else 0
        if place < self._first or self._next < begin:
            self._held, self._first, self._next = [], begin, begin
            groups = list(range(group, len(self._ends)))
            size = min(max(rows, _BATCH_ROWS), _MOST_BATCH_ROWS)
            self._batches = self._parquet.iter_batches(
                size, row_groups=groups, columns=self._names, use_threads=False
            )
        try:
            while self._next < place + rows and (batch := next(self._batches, None)) is not None:
                self._held.append(batch)
                self._next += batch.num_rows
                self._drop(place)
        except (OSError, pa.ArrowException) as error:
            passed, self._next = self._next, -1  # what is asked for again is decoded again
            raise RidgelineError(
                f"file `{self.file.path}` is corrupt or cannot be read, after row {passed}: {error}; "
                "mend or remove it"
            ) from error
        self._drop(place)
        taken: list[pa.RecordBatch] = []
        for batch in self._held:
            part = batch.slice(0, rows)
            taken.append(part)
            rows -= part.num_rows
            if not rows:
                break
        return taken

    def _drop(self, place: int) -> None:
        """Forget rows before a row that are held."""
        while self._held and self._first < place:
            batch = self._held.pop(0)
            passed = min(batch.num_rows, place - self._first)
            self._first += passed
            if passed < batch.num_rows:
                self._held.insert(0, batch.slice(passed))

    def skip(self, rows: int) -> None:
        """Pass rows that `peek` returned."""
        self.place += rows

    def passed(self) -> float:
        """The share of rows passed, in bytes of the file."""
        return self.file.bytes * self.place / max(1, self.rows)

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()
        self._raw.close()


class ParquetChunk:
    """Rows of a file, in the file's types, not yet decoded."""

    def __init__(self, reader: Decoder, schema: Schema, place: int, rows: int) -> None:
        self._reader, self._schema, self._place, self._rows = reader, schema, place, rows
        self._path = reader.file.path

    def __len__(self) -> int:
        return self._rows

    def read(self, first: int, step: int) -> pa.RecordBatch:
        """Return every `step`-th row from row `first` on, cast to the schema.

        Raises RidgelineError that names file, rows, column and types.
        """
        batches = self._reader.decode(self._place, self._rows)
        if not batches:
            return self._schema.encode([])
        table = pa.Table.from_batches(batches)
        if first or step > 1:
            table = table.take(pa.array(np.arange(first, table.num_rows, step)))
        return self._converted(table, first, step)

    def sift(self, first: int, step: int) -> Sifted:
        """As `read`, without rows that have a value which the schema cannot hold.

        Raises RidgelineError for a column whose type cannot be that of the schema, whatever its values are.
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
            reason = str(error).partition("; change `schema`")[0].removesuffix(", or mend the file")
            return text, re.sub(r"\(rows \d+ to \d+\)$", f"(row {self._place + numbers[row]})", reason)

        return sift(numbers, parse, describe, (_MisfitError,))

    def _converted(self, table: pa.Table, first: int, step: int) -> pa.RecordBatch:
        """Cast rows to the schema. `first`: the number of their first one in the chunk."""
        arrays = []
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
                    f"`schema` says {field.type}: {error} "
                    f"(rows {self._place} to {self._place + len(self) - 1}); change `schema`"
                ) from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        try:
            refuse_nulls(self._schema, batch)
        except MisplacedNullError as error:
            row = self._place + first + step * error.row
            raise RidgelineError(
                f"row {row} of file `{self._path}` is not a {self._schema.describe()}: "
                f"{error}, or mend the file"
            ) from error
        return batch


class _MisfitError(Exception):
    """Some rows have a value that the schema cannot hold."""
