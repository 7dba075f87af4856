"""Read Parquet files a batch at a time from any row on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.columns.casting import (
    cast_exactly,
    is_list,
    list_entries,
    lists_of,
    map_entries,
    maps_of,
    nulls_of,
)
from ridgeline.api.columns.nulls import MisplacedNullError, refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import RidgelineError
from ridgeline.operators._json import whole
from ridgeline.operators._replay_files import ReplayFile, Sifted, checked_columns, sift

_BATCH_ROWS = 65_536
_MOST_BATCH_ROWS = 262_144
"""Batches of as many rows as are asked for need not be joined; more than these do not fit a cache anyway."""
_MOST_SECONDS = 2**63 // 10**6 - 1
_MOST_NANOSECONDS = 2**63 // 10**9 - 1


class Decoder(Protocol):
    """A file of rows with types, open at a row."""

    file: ReplayFile

    def decode(self, place: int, rows: int) -> list[pa.RecordBatch]:
        """The rows from a row on, in the types of the file. Raises RidgelineError."""


class ParquetReader:
    """A Parquet file, open at a row. Holds in memory the rows that were decoded last and one batch."""

    def __init__(self, file: ReplayFile, schema: Schema, place: int) -> None:
        """Open `file` at row `place`, reading only the columns of `schema`. Raises RidgelineError."""
        self.file = file
        self._schema = schema
        self._raw = file.open()
        try:
            self._parquet = pq.ParquetFile(self._raw)
        except (OSError, pa.ArrowException) as error:
            raise RidgelineError(
                f"file `{file.path}` is no Parquet file or corrupt: {error}; "
                "mend or remove it, or set `format`"
            ) from error
        self._names = checked_columns(file.path, schema, self._parquet.schema_arrow.names)
        self._int96 = self._int96_columns()
        if self._int96:
            self._seconds = pq.ParquetFile(self._raw, coerce_int96_timestamp_unit="s")
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
            self._batches = _batches(self._parquet, groups, self._names, size)
            if self._int96:
                seconds = _batches(self._seconds, groups, self._int96, size)
                self._batches = map(self._with_times, self._batches, seconds)
        try:
            while self._next < place + rows and (batch := next(self._batches, None)) is not None:
                self._held.append(batch)
                self._next += batch.num_rows
                self._drop(place)
        except RidgelineError:
            self._next = -1  # what is asked for again is decoded again
            raise
        except (OSError, pa.ArrowException) as error:
            passed, self._next = self._next, -1
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

    def _int96_columns(self) -> list[str]:
        """The columns of the schema with times of 96 bits, which older Spark, Hive and Impala wrote."""
        stored = self._parquet.schema
        paths = [
            stored.column(place).path
            for place in range(len(stored.names))
            if stored.column(place).physical_type == "INT96"
        ]
        return [
            name for name in self._names if any(path == name or path.startswith(f"{name}.") for path in paths)
        ]

    def _with_times(self, batch: pa.RecordBatch, seconds: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the true times of 96 bits, in the schema's types. Raises RidgelineError."""
        for name in self._int96:
            place, kind = batch.schema.get_field_index(name), self._schema.arrow.field(name).type
            try:
                column = cast_exactly(exact_times(batch.column(place), seconds.column(name)), kind)
            except pa.ArrowException as error:
                raise RidgelineError(
                    f"column `{name}` of file `{self.file.path}` has times of 96 bits, "
                    f"`schema` says {kind}: {error} "
                    f"(rows {self._next} to {self._next + batch.num_rows - 1}); change `schema`"
                ) from error
            batch = batch.set_column(place, name, column)
        return batch

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


def _batches(
    file: pq.ParquetFile, groups: list[int], names: list[str], size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups, with these columns, at most `size` at a time."""
    return file.iter_batches(size, row_groups=groups, columns=names, use_threads=False)


def exact_times(nanoseconds: Any, seconds: Any) -> pa.Array:
    """Times of 96 bits, from what pyarrow makes of them: nanoseconds in 64 bits, and whole seconds.

    Nanoseconds overflow before 1677 and after 2262, seconds do not. Times come as microseconds, or as
    nanoseconds if microseconds do not hold them. Raises ArrowInvalid for times that neither holds.
    """
    kind: Any = nanoseconds.type
    if pa.types.is_timestamp(kind):
        if seconds.type.unit != "s":
            return nanoseconds  # not of 96 bits, beside those that are
        return _exact_times(nanoseconds, seconds)
    if pa.types.is_struct(kind):
        parts = list(map(exact_times, nanoseconds.flatten(), seconds.flatten()))
        names = [field.name for field in kind]
        return pa.StructArray.from_arrays(parts, names=names, mask=nulls_of(nanoseconds))
    if pa.types.is_map(kind):
        (keys, items, bounds), (other_keys, other_items, _) = map(map_entries, (nanoseconds, seconds))
        keys, items = exact_times(keys, other_keys), exact_times(items, other_items)
        return maps_of(keys, items, bounds, nulls_of(nanoseconds), pa.map_(keys.type, items.type))
    if is_list(kind):
        (items, bounds), (other, _) = list_entries(nanoseconds), list_entries(seconds)
        items = exact_times(items, other)
        return lists_of(items, bounds, nulls_of(nanoseconds), pa.list_(items.type))
    return nanoseconds


def _exact_times(nanoseconds: pa.Array, seconds: pa.Array) -> pa.Array:
    """`exact_times` of columns that are not nested."""
    nulls = nulls_of(nanoseconds)
    passed = _numbers(seconds)
    within = _numbers(nanoseconds) - passed * 10**9  # both modulo 2**64; numpy does not look at overflows
    if (np.abs(passed) > _MOST_SECONDS).any():
        raise pa.ArrowInvalid(f"{int(np.abs(passed).max())} seconds from 1970")
    if not (within % 1_000).any():
        made = pa.array(passed * 10**6 + within // 1_000, mask=_mask(nulls))
        return made.cast(pa.timestamp("us"))
    if (np.abs(passed) > _MOST_NANOSECONDS).any():
        raise pa.ArrowInvalid("times of nanoseconds beside others before 1677 or after 2262")
    return nanoseconds


def _numbers(times: pa.Array) -> Any:
    numbers = times.cast(pa.int64())
    return (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()


def _mask(nulls: pa.Array | None) -> Any:
    return None if nulls is None else nulls.to_numpy(zero_copy_only=False)


class _MisfitError(Exception):
    """Some rows have a value that the schema cannot hold."""
