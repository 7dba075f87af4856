"""The base of sinks of lake tables: rows with the table's columns, without those that it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.errors import capped
from ridgeline.connect.sink import Batch, Mark, Sink, SinkContext, UnwritableError
from ridgeline.operators._table_rows import DELETED
from ridgeline.operators.lake.columns import Convert, as_table
from ridgeline.operators.lake.target import Check, Columns, Target

NUMBER = "ridgeline_batch"
"""The column with the number of a row's batch."""
_TRIES = 12
"""So often a write is tried at once while others are quicker; after that with growing pauses."""
_DELETED_FIELD = pa.field(DELETED, pa.bool_())


class LakeSink(Sink):
    """Writes each window on the version of the table whose mark was read."""

    def __init__(self, target: Target, convert: Convert) -> None:
        self.target, self._convert = target, convert
        self.appends = not (target.key or target.overwrite)
        self.columns = Columns((), (), ())
        self._last_window = -1
        """The last window that is in the table as far as this sink knows: the mark is not before it."""

    def open(self, context: SinkContext) -> None:
        """Keep the surroundings. A subclass that overrides it calls it first."""
        self.context = context
        self.check = Check(context.operator, self.place(), self.target, self._convert)

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns of the stream as the table has them. Raises RidgelineError."""
        return self.check.stream(schema)

    def write(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Write the rows and the mark as one version. Raises RidgelineError for rows that it refuses."""
        with self.explaining():
            for left in reversed(range(_TRIES)):
                try:
                    self.attempt(batches, mark)
                except Exception as error:
                    if not left or not self.is_conflict(error):
                        raise
                else:
                    self._last_window = mark.window
                    return

    def explaining(self) -> AbstractContextManager[None]:
        """Turns errors of the library into those of sinks."""
        raise NotImplementedError

    def mark(self) -> Mark | None:
        """The mark of this run, as of the version that was read last."""
        found = self.found_mark()
        if found is not None:
            self._last_window = max(self._last_window, found.window)
        return found

    def found_mark(self) -> Mark | None:
        """Look for the mark in the version that was read last."""
        raise NotImplementedError

    def attempt(self, batches: Sequence[Batch], mark: Mark) -> None:
        """Read the newest version, compare its mark, and write the next one."""
        raise NotImplementedError

    def is_conflict(self, error: Exception) -> bool:
        """Whether another writer was quicker."""
        raise NotImplementedError

    def unwritten(self, batches: Sequence[Batch]) -> list[Batch]:
        """The batches that are not in the table, as its mark says. Raises RidgelineError if that is gone."""
        found = self.found_mark()
        if self._last_window > (-1 if found is None else found.window):
            raise self.context.unmarked(self.place())
        return self.context.unwritten(batches, found)

    def windows_of(self, batches: Sequence[Batch], rows: pa.Table) -> np.ndarray:
        """The window of each row."""
        return np.array([batch.window for batch in batches])[rows.column(NUMBER).to_numpy()]

    def united(self, batches: Sequence[Batch]) -> pa.Table:
        """The rows of batches with the table's columns, and the number of each row's batch."""
        tables = []
        for number, batch in enumerate(batches):
            self.check.table(self.fields(batch.schema), self.columns)
            fields = [*self.columns.fields, *([_DELETED_FIELD] if self.target.delete else [])]
            rows = as_table(batch.data, fields)
            tables.append(rows.append_column(NUMBER, pa.array(np.full(len(rows), number))))
        return pa.concat_tables(tables)

    def with_values(self, batches: Sequence[Batch], rows: pa.Table) -> pa.Table:
        """The rows without those that lack a value which the table needs."""
        for name in self.columns.needed:
            null = rows.column(name).is_null()
            if self.target.delete is not None:
                null = pc.and_(null, pc.invert(rows.column(DELETED)))
            if pc.any(null).as_py():
                self.refuse(batches, rows.filter(null), f"column `{name}` must have a value, and is null")
                rows = rows.filter(pc.invert(null))
        return rows

    def refuse(self, batches: Sequence[Batch], rows: pa.Table, reason: str) -> None:
        """Leave rows out with `on_error=SKIP`. Raises UnwritableError without."""
        for row in rows.to_pylist():
            batch = batches[row.pop(NUMBER)]
            text = capped(str(row), 300)
            if not self.context.skips:
                raise UnwritableError(
                    self.context.operator,
                    batch.window,
                    text,
                    reason,
                    "mend it upstream or in the table, or set `on_error` to `SKIP`",
                )
            self.context.refused(batch, text, reason)
