"""Choose, add and compute columns, and let rows through, by expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, Schema
from ridgeline.api.columns.combined import PendingTuples, takes_pending
from ridgeline.operators._shaped import T
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import Given
from ridgeline.operators.frames._predicate import PredicateStep
from ridgeline.operators.frames._step import FrameStep, time_column


class ComputingStep(FrameStep):
    """The base of steps that compute columns."""

    expressions: list[Given] = Field(default_factory=list)
    named: dict[str, Given] = Field(default_factory=dict)

    given = ("expressions", "named")

    def computed(self, tuples: Schema) -> Plan:
        """A plan with the columns of the expressions, which notes faults."""
        plan = Plan(tuples)
        for name, given in [*((None, one) for one in self.expressions), *self.named.items()]:
            plan.add_given(given, name)
        return plan


class Select(ComputingStep):
    """Make a row of the chosen and computed columns of each row.

    `expressions`: names of columns, SQL text such as `"cents / 100 as euros"`, or polars expressions.
    `named`: further ones, by the name of their column. They are checked against the stream's columns when
    the application is validated. Columns that are passed on keep their type, and may be null as before. A
    computed one may be null, unless it is known that it cannot. Rows keep their times. Partitions: round
    robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Select
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> app = Application("euros")
        >>> orders = app.add_operator("orders", ListInput(Order, [("a", 150), ("b", 5)]))
        >>> euros = app.add_operator("euros", Select(["id"], {"euros": "cents / 100"}))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, euros.input)
        >>> app.add_stream("euros", euros.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'id': 'a', 'euros': 1.5}, {'id': 'b', 'euros': 0.05}]
    """

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a result without columns."""
        empty = not self.expressions and not self.named
        return [("expressions", [], "must have at least one, or `named` must")] if empty else []

    def plan(self, tuples: Schema) -> Plan:
        """The chosen columns."""
        return self.computed(tuples)


class WithColumns(ComputingStep):
    """Make a row of all columns of each row and of computed ones; those of an equal name are replaced.

    `expressions` and `named` are as of `Select`. All of them read the columns that come in. Rows keep their
    times. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import WithColumns
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     id: str
        ...     cents: int
        >>> app = Application("euros")
        >>> orders = app.add_operator("orders", ListInput(Order, [("a", 150)]))
        >>> euros = app.add_operator("euros", WithColumns(named={"euros": "cents / 100"}))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("orders", orders.output, euros.input)
        >>> app.add_stream("euros", euros.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'id': 'a', 'cents': 150, 'euros': 1.5}]
    """

    def plan(self, tuples: Schema) -> Plan:
        """The columns of the stream, then those that are new."""
        plan = self.computed(tuples)
        plan.keep_others()
        return plan


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

    @input.process_batch
    @takes_pending
    def sift(self, batch: pa.RecordBatch | PendingTuples) -> None:
        """Emit the rows of a batch for which the predicate is true."""
        mask = self.mask(batch, self.input.schema)
        batch = batch.batch if isinstance(batch, PendingTuples) else batch
        kept = mask.true_count
        if kept == len(batch):
            self.output.emit_batch(batch)
        elif kept:
            found, times = batch.filter(mask), time_column(self.context, self.output, batch.schema)
            if times is None:
                self.output.emit_batch(found, rows=mask)
            else:
                self.output.emit_timed(found, times)
