"""Choose, add, compute, cast, rename and drop columns; let rows through, or divide them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, Schema
from ridgeline.api.columns.combined import PendingTuples, takes_pending
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import SchemaError
from ridgeline.operators._shaped import ShapedOperator, T, unshaped
from ridgeline.operators.frames._columns import Made, Plan, columns_of
from ridgeline.operators.frames._expressions import Expression, Given, data_where_possible, imported
from ridgeline.operators.frames._step import (
    ExpressionStep,
    FrameStep,
    Predicate,
    PredicateStep,
    need_columns,
    time_column,
)


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
        mask = self.mask(batch)
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


class Rename(FrameStep):
    """Give columns other names: `Rename({"old": "new"})`. All else stays, and polars is not needed.

    Partitions: round robin.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Rename
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> app = Application("names")
        >>> source = app.add_operator("source", ListInput(pa.schema([("a", pa.int64())]), [{"a": 1}]))
        >>> renamed = app.add_operator("renamed", Rename({"a": "number"}))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("in", source.output, renamed.input)
        >>> app.add_stream("out", renamed.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'number': 1}]
    """

    columns: dict[str, str] = Field(min_length=1)

    def plan(self, tuples: Schema) -> Plan:
        """All columns, some with other names."""
        columns = columns_of(tuples)
        need_columns(self.columns, columns)
        plan = Plan(tuples)
        for field in columns:
            plan.made.append(Made(field.with_name(self.columns.get(field.name, field.name)), field.name))
        return plan


class Drop(FrameStep):
    """Leave columns out: `Drop(["card"])`. Polars is not needed. Partitions: round robin.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Drop
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> columns = pa.schema([("a", pa.int64()), ("b", pa.int64())])
        >>> app = Application("fewer")
        >>> source = app.add_operator("source", ListInput(columns, [{"a": 1, "b": 2}]))
        >>> fewer = app.add_operator("fewer", Drop(["b"]))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("in", source.output, fewer.input)
        >>> app.add_stream("out", fewer.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'a': 1}]
    """

    columns: list[str] = Field(min_length=1)

    def plan(self, tuples: Schema) -> Plan:
        """The columns that are left."""
        columns = columns_of(tuples)
        need_columns(self.columns, columns)
        left = [name for name in columns.names if name not in self.columns]
        if not left:
            raise SchemaError("no column would be left; keep one")
        plan = Plan(tuples)
        plan.keep(left)
        return plan


class Cast(FrameStep):
    """Cast columns to other types: `Cast({"cents": "double", "day": "date"})`.

    `types`: SQL types as text, or what polars casts to. A value that cannot be cast is an error, and never
    becomes null. Partitions: round robin.

    Example:
        >>> import pyarrow as pa
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Cast
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> app = Application("numbers")
        >>> source = app.add_operator("source", ListInput(pa.schema([("a", pa.string())]), [{"a": "12"}]))
        >>> cast = app.add_operator("cast", Cast({"a": "bigint"}))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("in", source.output, cast.input)
        >>> app.add_stream("out", cast.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'a': 12}]
    """

    types: dict[str, Given] = Field(min_length=1)

    def __post_init__(self) -> None:
        """Keep types as data: SQL text, or the expression that casts."""
        if isinstance(vars(self).get("types"), dict):
            self.types = {name: _cast(str(name), kind) for name, kind in self.types.items()}

    def plan(self, tuples: Schema) -> Plan:
        """All columns, some of other types."""
        need_columns(self.types, columns_of(tuples))
        plan = Plan(tuples)
        for name, kind in self.types.items():
            plan.add_given(kind if isinstance(kind, Expression) else f'cast("{name}" as {kind})', name)
        plan.keep_others()
        return plan


def _cast(name: str, kind: Any) -> Any:
    """SQL text as it is; the expression that casts to a type of polars, Arrow or Python."""
    if isinstance(kind, (str, Expression, dict)):
        return kind
    polars = imported()
    if isinstance(kind, pa.DataType):
        kind = polars.from_arrow(pa.table({name: pa.array([], kind)})).schema[name]
    try:
        return data_where_possible(polars.col(name).cast(kind))
    except TypeError:
        return kind


class Branch(ShapedOperator, ExpressionStep, Generic[T]):
    """Divide rows by several predicates: each goes to the port of the first that is true, else to `rest`.

    `predicates`: by the name of the port, SQL text, a polars expression, or a function that takes a tuple. A
    null is not true. Rows keep their order and times. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Branch
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Order(NamedTuple):
        ...     cents: int
        >>> app = Application("orders")
        >>> orders = app.add_operator("orders", ListInput(Order, [(5,), (50_000,), (0,)]))
        >>> branch = app.add_operator("branch", Branch({"large": "cents > 1000", "small": "cents > 0"}))
        >>> app.add_stream("orders", orders.output, branch.input)
        >>> for name in ("large", "small", "rest"):
        ...     sink = app.add_operator(f"{name}_orders", CollectorSink(Order))
        ...     app.add_stream(name, getattr(branch, name), sink.input)
        >>> run = run_local(app)
        >>> [run.collected(f"{name}_orders") for name in ("large", "small", "rest")]
        [[Order(cents=50000)], [Order(cents=5)], [Order(cents=0)]]
    """

    input = InputPort[T](Any)
    rest = OutputPort[T](Any)

    predicates: dict[str, Given] = Field(min_length=1)

    shaped_by = "predicates"
    given = ("predicates",)
    fixed = "cannot get other names from outside; give them in the application"

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The names that a port can have."""
        names = given.get("predicates")
        return tuple(name for name in names if cls._is_port(name)) if isinstance(names, Mapping) else None

    @classmethod
    def members_of(cls, shape: tuple[str, ...]) -> dict[str, Any]:
        """A port for each predicate."""
        return {name: OutputPort[Any](Any) for name in shape}

    @classmethod
    def _is_port(cls, name: object) -> bool:
        named = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        return named and not hasattr(unshaped(cls), str(name))

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse names that no port can have, and other ports than those of the application."""
        odd = [name for name in self.predicates if not self._is_port(name)]
        if not odd:
            return super().property_faults()
        rule = "must be a name such as `large`, and not one that the operator has itself"
        return [("predicates", odd[0], rule)]

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the stream. Raises SchemaError if a predicate does not fit them."""
        if port not in self.predicates or "input" not in inputs:
            return None
        return Predicate(self.predicates[port], inputs["input"]).narrowed()

    def setup(self, context: OperatorContext) -> None:
        """Make the predicates for the columns of the port."""
        schema = self.input.schema
        self._predicates = {name: Predicate(one, schema) for name, one in self.predicates.items()}

    @input.process_batch
    def divide(self, batch: pa.RecordBatch) -> None:
        """Divide a batch."""
        left = pa.repeat(pa.scalar(True), len(batch))  # noqa: FBT003
        for name, predicate in self._predicates.items():
            mask = pc.and_(left, pc.fill_null(predicate.mask(batch), False))  # noqa: FBT003
            port: Any = getattr(self, name)
            port.emit_batch(batch.filter(mask), rows=mask)
            left = pc.and_not(left, mask)
        self.rest.emit_batch(batch.filter(left), rows=left)
