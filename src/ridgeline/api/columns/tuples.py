"""A sequence of tuples of one stream: Python objects, an Arrow batch, or both.

Each form is made from the other on first access.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.columns.schema import Schema
from ridgeline.api.times import (
    Microseconds,
    Positions,
    Times,
    column_times,
    joined_times,
    no_times,
    row_times,
)


class Tuples:
    """Tuples of one schema, in order. Immutable: several consumers may hold it by reference.

    `times`: when the tuples' events happened, as `Times` or the name of a timestamp column.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Schema, Tuples
        >>> class Payment(NamedTuple):
        ...     account: int
        ...     cents: int
        >>> tuples = Tuples.of_rows(Schema(Payment), [Payment(1, 100), Payment(2, 5)])
        >>> len(tuples), tuples.batch.column("cents").to_pylist()
        (2, [100, 5])
    """

    __slots__ = ("_batch", "_rows", "_settled", "_times", "schema", "time_column")

    def __init__(
        self,
        schema: Schema,
        rows: list[Any] | None,
        batch: pa.RecordBatch | None,
        times: Times | str | None = None,
    ) -> None:
        self.schema = schema
        self._rows = rows
        self._batch = batch
        self._settled: Sequence[object] | None = None
        """The columns of `rows`, if `settle` made them and `batch` has not used them."""
        self.time_column = times if isinstance(times, str) else None
        self._times = None if isinstance(times, str) else times

    @classmethod
    def of_rows(cls, schema: Schema, rows: list[Any], times: Times | str | None = None) -> Tuples:
        """Take Python tuples that an operator emitted. Raises SchemaError for the first that does not fit.

        Values that Arrow would change (an int in a float column, a naive datetime) are converted here. So a
        consumer gets the same values within a container and across a container border.
        """
        canonical, settled = schema.settle(rows)
        if not canonical:
            return cls(schema, None, schema.assemble(rows, settled), times)
        made = cls(schema, rows, None, times)
        made._settled = settled
        return made

    @classmethod
    def of_batch(cls, schema: Schema, batch: pa.RecordBatch, times: Times | str | None = None) -> Tuples:
        """Take an Arrow batch of exactly this schema."""
        return cls(schema, None, batch, times)

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else len(self.batch)

    @property
    def rows(self) -> list[Any]:
        """The tuples as Python objects of the declared type."""
        if self._rows is None:
            self._rows = self.schema.decode(self._batch)
        return self._rows

    @property
    def batch(self) -> pa.RecordBatch:
        """The tuples as one Arrow batch."""
        if self._batch is None:
            settled, self._settled = self._settled, None
            self._batch = (
                self.schema.encode(self.rows) if settled is None else self.schema.assemble(self.rows, settled)
            )
        return self._batch

    @property
    def delivered(self) -> Any:
        """The argument of a `process_batch` method: the batch, unless tuples of this kind are handed over."""
        return self.batch

    def last(self, count: int) -> Tuples:
        """The last `count` tuples, without their times; converts nothing."""
        if self._rows is not None:
            return Tuples(self.schema, self._rows[-count:], None)
        return Tuples(self.schema, None, self.batch.slice(max(0, len(self) - count)))

    @property
    def timed(self) -> bool:
        """True if the tuples may have times."""
        return self._times is not None or self.time_column is not None

    @property
    def times(self) -> Times | None:
        """The times of the tuples, read from their column on first access; None if they have none."""
        if self._times is None and self.time_column is not None:
            self._times = Times(self._column(self.time_column))
        return self._times

    def _column(self, name: str) -> Microseconds:
        if self._batch is None or self.schema.pickled:
            return row_times(self.schema, self.rows, name)
        index = self._batch.schema.get_field_index(name)
        return column_times(self._batch.column(index)) if index >= 0 else no_times(len(self))

    def restamped(self, positions: Positions, newest: Microseconds) -> Tuples:
        """The same tuples; those at `positions` have the times `newest`."""
        times = self.times
        changed = (Times(no_times(len(self))) if times is None else times).overwritten(positions, newest)
        return Tuples(self.schema, self._rows, self._batch, changed)

    def take(self, indices: Positions) -> Tuples:
        """The tuples at these positions, in that order."""
        times = self.time_column or (None if self._times is None else self._times.take(indices))
        if self._batch is None:
            rows = self.rows
            return Tuples(self.schema, [rows[i] for i in indices.tolist()], None, times)
        return Tuples(self.schema, None, self._batch.take(pa.array(indices)), times)

    def slice(self, start: int, stop: int) -> Tuples:
        """The tuples from `start` to before `stop`; a batch stays in its memory."""
        own = slice(start, stop)
        times = self.time_column or (None if self._times is None else self._times.take(own))
        if self._batch is None:
            return Tuples(self.schema, self.rows[own], None, times)
        return Tuples(self.schema, None, self._batch.slice(start, stop - start), times)

    def read_as(self, schema: Schema) -> Tuples:
        """The same tuples for a consumer whose port declares `schema`.

        It has the same columns, perhaps in another class, or it is `object`, or of a base class.
        """
        if schema.type is self.schema.type:
            return self
        if schema.pickled:
            return Tuples(schema, self.rows, None, self.times)
        batch, names = self.batch, schema.arrow.names
        if batch.num_columns > len(names):
            batch = batch.select(names)
        times = self.time_column if self.time_column in names else self.times
        return Tuples(schema, None, as_declared(batch, schema), times)


def as_declared(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The same columns in the Arrow schema of a port; that may differ in metadata and in what may be null."""
    if schema.has_dictionary or batch.schema.equals(schema.arrow) or batch.schema.types != schema.arrow.types:
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema.arrow)


def concatenate(schema: Schema, parts: Sequence[Tuples]) -> Tuples:
    """Concatenate the parts, in order."""
    if len(parts) == 1:
        return parts[0]
    columns = {part.time_column for part in parts}
    column = columns.pop() if len(columns) == 1 else None
    times = column or joined_times([(len(part), part.times) for part in parts])
    if all(part._batch is None for part in parts):  # noqa: SLF001  its own module
        return Tuples(schema, [row for part in parts for row in part.rows], None, times)
    table = pa.Table.from_batches(
        [as_declared(part.batch, schema) for part in parts], schema=schema.arrow
    ).combine_chunks()
    batches = table.to_batches()
    return Tuples(schema, None, batches[0] if batches else schema.encode([]), times)
