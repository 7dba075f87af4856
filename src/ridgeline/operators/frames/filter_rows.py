"""Let those rows through for which an expression is true."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from typing_extensions import TypeVar

from ridgeline.api import InputPort, OutputPort
from ridgeline.api.columns.combined import PendingTuples, takes_pending
from ridgeline.operators.frames._predicate import PredicateStep
from ridgeline.operators.frames._step import time_column
from ridgeline.operators.frames._types import filtered

T = TypeVar("T", default=Any)


class FilterRows(PredicateStep[T]):
    """Let the rows through for which an expression is true, in their order; null counts as false.

    `predicate`: SQL text or a polars expression of booleans. It is checked against the columns when the
    application is validated. A column that cannot be null in such rows is not null in the output, unless
    the tuples have a class of their own. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FilterRows
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("even-numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,), (4,)]))
        >>> even = app.add_operator("even", FilterRows("value % 2 = 0"))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("all", numbers.output, even.input)
        >>> app.add_stream("filtered", even.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=2), Number(value=4)]
    """

    input = InputPort[T](Any)
    output = OutputPort[T](Any)

    passes = "output"

    @input.process_batch
    @takes_pending
    def sift(self, batch: pa.RecordBatch | PendingTuples) -> None:
        """Emit the rows of a batch for which the predicate is true."""
        if isinstance(batch, PendingTuples):
            batch, mask = self._computed(batch)
        else:
            mask = self.mask(batch, self.input.schema)
        kept = mask.true_count
        if kept == len(batch):
            self.output.emit_batch(batch)
        elif kept:
            found, times = filtered(batch, mask), time_column(self.context, self.output, batch.schema)
            if times is None:
                self.output.emit_batch(found, rows=mask)
            else:
                self.output.emit_timed(found, times)

    def _computed(self, tuples: PendingTuples) -> tuple[pa.RecordBatch, pa.Array]:
        """The batch of tuples that are to be computed, and the predicate, in one query where that can be."""
        predicate = self.checked(tuples.schema.arrow, self.input.schema)
        query = tuples.query.filtered(self, predicate)
        if query is not None:
            found: tuple[pa.RecordBatch, pa.Array] = query.run(tuples.source)
            return found
        batch, _ = tuples.query.run(tuples.source, self)
        return batch, predicate.mask(batch)
