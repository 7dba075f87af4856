"""Read Parquet files a batch at a time from any row on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ridgeline.api.casting import cast_exactly
from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.api.nulls import MisplacedNullError, refuse_nulls
from ridgeline.api.schema import Schema
from ridgeline.operators._replay_files import ReplayFile

_BATCH_ROWS = 65_536


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
            message = (
                f"file `{file.path}` is no Parquet file or corrupt: {error}; "
                "mend or remove it, or set `format`"
            )
            raise RidgelineError(message) from error
        self._check_columns()
        metadata = self._parquet.metadata
        self.rows: int = metadata.num_rows
        if place > self.rows:
            message = (
                f"file `{file.path}` has shrunk: it was read up to row {place} before; "
                "bring it back, or start on a fresh checkpoint"
            )
            raise RidgelineError(message)
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
            self._batches = self._parquet.iter_batches(
                _BATCH_ROWS,
                row_groups=list(range(group, len(self._ends))),
                columns=self._schema.arrow.names,
                use_threads=False,
            )
        try:
            while self._next < place + rows and (batch := next(self._batches, None)) is not None:
                self._held.append(batch)
                self._next += batch.num_rows
                self._drop(place)
        except (OSError, pa.ArrowException) as error:
            message = (
                f"file `{self.file.path}` is corrupt or cannot be read, after row {self._next}: {error}; "
                "mend or remove it"
            )
            raise RidgelineError(message) from error
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

    def _check_columns(self) -> None:
        """Refuse a file that has a column of the schema not at all, or twice. Raises RidgelineError."""
        found = self._parquet.schema_arrow.names
        for name in self._schema.arrow.names:
            if name not in found:
                message = (
                    f"file `{self.file.path}` has no column `{name}`; "
                    f"{did_you_mean(name, found)} Name the columns of `schema` so"
                )
                raise RidgelineError(message)
            if found.count(name) > 1:
                message = f"file `{self.file.path}` has the column `{name}` twice; write it once"
                raise RidgelineError(message)


class ParquetChunk:
    """Rows of a file, in the file's types, not yet decoded."""

    def __init__(self, reader: ParquetReader, schema: Schema, place: int, rows: int) -> None:
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
        arrays = []
        for field in self._schema.arrow:
            column = table.column(field.name)
            try:
                arrays.append(cast_exactly(_whole(column), field.type))
            except pa.ArrowException as error:
                message = (
                    f"column `{field.name}` of file `{self._path}` is {column.type}, "
                    f"`schema` says {field.type}: {error} "
                    f"(rows {self._place} to {self._place + len(self) - 1}); change `schema`"
                )
                raise RidgelineError(message) from error
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)
        try:
            refuse_nulls(self._schema, batch)
        except MisplacedNullError as error:
            row = self._place + first + step * error.row
            message = (
                f"row {row} of file `{self._path}` is not a {self._schema.describe()}: "
                f"{error}, or mend the file"
            )
            raise RidgelineError(message) from error
        return batch


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
