"""A run of tuples of one stream, as Python objects, as an Arrow batch, or as both: made from one another only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.schema import Schema


class Tuples:
    """Tuples of one schema, in order. Not to be changed once made: several consumers may hold it by reference."""

    __slots__ = ("_batch", "_rows", "schema")

    def __init__(self, schema: Schema, rows: list[Any] | None, batch: pa.RecordBatch | None) -> None:
        self.schema = schema
        self._rows = rows
        self._batch = batch

    @classmethod
    def of_rows(cls, schema: Schema, rows: list[Any]) -> Tuples:
        """From Python tuples that an operator emitted. Raises SchemaError for the first that does not fit.

        Values that Arrow would change (an int in a float column, a naive datetime) are changed here, so that
        a consumer sees the same whether or not a container border lies between.
        """
        return cls(schema, rows, None) if schema.canonical(rows) else cls(schema, None, schema.encode(rows))

    @classmethod
    def of_batch(cls, schema: Schema, batch: pa.RecordBatch) -> Tuples:
        """From an Arrow batch of exactly this schema."""
        return cls(schema, None, batch)

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else len(self.batch)

    @property
    def rows(self) -> list[Any]:
        """As Python tuples of the declared type."""
        if self._rows is None:
            self._rows = self.schema.decode(self._batch)
        return self._rows

    @property
    def batch(self) -> pa.RecordBatch:
        """As one Arrow batch."""
        if self._batch is None:
            self._batch = self.schema.encode(self.rows)
        return self._batch

    def take(self, indices: npt.NDArray[np.int64]) -> Tuples:
        """The tuples at these positions, in that order."""
        if self._batch is None:
            rows = self.rows
            return Tuples(self.schema, [rows[i] for i in indices.tolist()], None)
        return Tuples(self.schema, None, self._batch.take(pa.array(indices)))

    def read_as(self, schema: Schema) -> Tuples:
        """The same tuples for a consumer whose port declares `schema` (same columns, perhaps another class; or `object`)."""
        if schema.type is self.schema.type:
            return self
        if schema.pickled:
            return Tuples(schema, self.rows, None)
        return Tuples(schema, None, self.batch)


def concatenate(schema: Schema, parts: Sequence[Tuples]) -> Tuples:
    """All parts as one, in order."""
    if len(parts) == 1:
        return parts[0]
    if all(part._batch is None for part in parts):  # noqa: SLF001  its own module
        return Tuples(schema, [row for part in parts for row in part.rows], None)
    table = pa.Table.from_batches([part.batch for part in parts], schema=schema.arrow).combine_chunks()
    batches = table.to_batches()
    return Tuples(schema, None, batches[0] if batches else schema.encode([]))
