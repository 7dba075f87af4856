"""Give columns other names, leave some out, or cast them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pydantic import Field

from ridgeline.api import Schema
from ridgeline.api.errors import SchemaError
from ridgeline.operators.frames._columns import Made, Plan, columns_of
from ridgeline.operators.frames._expressions import Expression, Given, data_where_possible, imported
from ridgeline.operators.frames._step import FrameStep, need_columns


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
