"""The bases of steps that are expressions, and predicates over batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic

import pyarrow as pa

from ridgeline.api import InputPort, OutputPort, Schema, SchemaError
from ridgeline.api.columns.combined import PendingTuples, takes_pending
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.results import deferred
from ridgeline.operators._shaped import DerivingOperator, T
from ridgeline.operators.frames._columns import Plan
from ridgeline.operators.frames._expressions import (
    Given,
    data_where_possible,
    imported,
    resolved,
    sure_after,
    tree,
)
from ridgeline.operators.frames._held import Held, keeps_values, readable


class ExpressionStep(DerivingOperator):
    """The base of steps with expressions. What is made of them for the port's columns is made in `setup`."""

    given: ClassVar[tuple[str, ...]] = ()
    """The properties with expressions: one, a list of them, or a dictionary."""

    def __post_init__(self) -> None:
        """Keep expressions as data."""
        for name, value in vars(self).items():
            if name in self.given:
                vars(self)[name] = _as_data(value)


def _as_data(value: Any) -> Any:
    """Expressions as data, what is none as it is."""
    if isinstance(value, dict):
        return {name: data_where_possible(one) for name, one in value.items()}
    return list(map(data_where_possible, value)) if isinstance(value, list) else data_where_possible(value)


class FrameStep(ExpressionStep):
    """A step that makes one row of each, by polars; `plan` says of which columns."""

    input = InputPort[Any](Any)
    output = OutputPort[Any](Any)

    def plan(self, tuples: Schema) -> Plan:
        """The columns of the result. Raises SchemaError."""
        raise NotImplementedError

    def derived(self, given: Schema) -> object:
        """The columns of the result. Raises SchemaError for what the stream does not have."""
        return self.plan(given).schema

    def setup(self, context: OperatorContext) -> None:
        """Plan the columns. A subclass that overrides it calls it first."""
        self._plan = self.plan(self.input.schema)
        self._defers = self._is_same_in_polars(self._plan)

    @input.process_batch
    @takes_pending
    def apply(self, batch: pa.RecordBatch | PendingTuples) -> None:
        """Emit the result of a batch; without one of its own, where the next step takes that."""
        pending = isinstance(batch, PendingTuples)
        columns = batch.schema.arrow if pending else batch.schema
        times = time_column(self.context, self.output, columns)
        times = times if times is not None and self._plan.keeps(times) else None
        made = self._plan.run(Held.of(batch, whole=self._plan.whole))
        engine, output = self.context.engine, self.output
        if self._defers and engine.defers and made.frame is not None and len(made.batch):
            source: Any = batch.source if pending else engine.batch
            output.pass_on(
                PendingTuples(output.schema, source, made, timed=output.inherits, time_column=times)
            )
        elif times is not None:
            output.emit_timed(made.arrow, times)
        else:
            output.emit_batch(made.arrow)

    def _is_same_in_polars(self, plan: Plan) -> bool:
        """Whether what a plan computes is the same in polars as in a batch of the port."""
        columns = self.output.schema
        own_times = self.timestamp_of("output") is not None
        if plan.functions or own_times or not isinstance(columns.type, pa.Schema):
            return False
        fields, read = [made.field for made in plan.made], readable(columns.arrow).schema
        return (
            columns.arrow.names == [field.name for field in fields]
            and all(
                port.type == field.type and (port.nullable or not field.nullable)
                for port, field in zip(columns.arrow, fields, strict=True)
            )
            and all(keeps_values(kind) and read.get(name) == kind for name, kind in plan.dtypes.items())
        )


def time_column(context: OperatorContext, output: OutputPoint[Any], columns: pa.Schema) -> str | None:
    """The column with the times of the batch in process; None if no column has them, or nothing needs them.

    `output`: where rows are emitted that inherit them.
    """
    tuples = context.engine.batch
    if tuples is None or not output.inherits or tuples.time_column not in columns.names:
        return None
    return tuples.time_column


def need_columns(names: Mapping[str, object] | list[str] | tuple[str, ...], columns: pa.Schema) -> None:
    """Raise SchemaError for the columns that are named and not there."""
    faults = [
        f"there is no column `{name}`; {did_you_mean(name, columns.names)}"
        for name in names
        if name not in columns.names
    ]
    if faults:
        raise SchemaError("; ".join(faults))


class Predicate:
    """A predicate over batches of some tuples. Raises SchemaError if it does not fit them.

    `given`: SQL text, an `Expression`, or a function that takes a tuple.
    """

    def __init__(self, given: Any, tuples: Schema) -> None:
        self.tuples = tuples
        self.function = given if callable(given) else None
        self.whole = True
        if self.function is not None:
            rule = deferred(self.function)
            if rule:
                raise SchemaError(f"the predicate {rule}; got {shorten(self.function)}")
            return
        plan = Plan(tuples)
        self.expression = resolved(given, plan.columns.names)
        found = plan.types_of(self.expression)
        if list(found.values()) != [imported().Boolean]:
            kinds = ", ".join(map(str, found.values()))
            remedy = "compare it with something: `cents > 0`"
            raise SchemaError(
                f"the predicate `{self.expression}` gives {kinds or 'nothing'}, not true or false; {remedy}"
            )
        self.needed = plan.roots_of(self.expression)
        self.whole = self.expression.meta.has_multiple_outputs()

    def mask(self, given: pa.RecordBatch | PendingTuples) -> pa.Array:
        """For each row whether the predicate is true; null where it is not known."""
        held = Held.of(given, whole=self.whole)
        if self.function is not None:
            return pa.array([bool(self.function(row)) for row in self.tuples.decode(held.batch)], pa.bool_())
        return held.computed(self.needed, self.expression)

    def narrowed(self) -> pa.Schema | None:
        """The columns of rows for which the predicate is true; None: those of a class of their own."""
        if not isinstance(self.tuples.type, pa.Schema):
            return None
        sure = sure_after(tree(self.expression)) if self.function is None else ()
        return pa.schema(
            [field.with_nullable(field.nullable and field.name not in sure) for field in self.tuples.arrow]
        )


class PredicateStep(ExpressionStep, Generic[T]):
    """The base of steps with one predicate over the batches of the port `input`.

    The port `output` has rows for which it is true.
    """

    predicate: Given

    given = ("predicate",)

    def derived(self, given: Schema) -> object:
        """The columns of the stream. Raises SchemaError if the predicate does not fit them."""
        return Predicate(self.predicate, given).narrowed()

    def setup(self, context: OperatorContext) -> None:
        """Make the predicate for the columns of the port. A subclass that overrides it calls it first."""
        port: Any = getattr(self, "input")  # noqa: B009  subclasses declare it
        self._predicate = Predicate(self.predicate, port.schema)

    def mask(self, given: pa.RecordBatch | PendingTuples) -> pa.Array:
        """For each row whether the predicate is true; null where it is not known."""
        return self._predicate.mask(given)
