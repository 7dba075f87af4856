"""All tuples of several streams as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, Schema, SchemaError
from ridgeline.operators._shaped import ShapedOperator, T


class Union(ShapedOperator, Generic[T]):
    """All tuples of `inputs` streams, which enter at `input_1`, `input_2` and so on.

    The streams have the same columns, in any order. A column of the output may be null if it may be null in
    one of them. Tuples keep their times, and the order of their stream. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Union
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> low = app.add_operator("low", ListInput(Number, [(1,), (2,)]))
        >>> high = app.add_operator("high", ListInput(Number, [(10,)]))
        >>> union = app.add_operator("union", Union(2))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("low", low.output, union.input_1)
        >>> app.add_stream("high", high.output, union.input_2)
        >>> app.add_stream("all", union.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=1), Number(value=2), Number(value=10)]
    """

    output = OutputPort[T](Any)

    inputs: int = Field(2, ge=1)

    shaped_by = "inputs"

    @classmethod
    def shape_of(cls, given: Mapping[str, Any]) -> int | None:
        """The number of input ports."""
        inputs = given.get("inputs", 2)
        return inputs if isinstance(inputs, int) and inputs >= 1 else None

    @classmethod
    def members_of(cls, shape: int) -> dict[str, Any]:
        """So many input ports, and what takes their tuples."""

        def take(self: Any, batch: pa.RecordBatch) -> None:
            self.output.emit_batch(batch)

        members: dict[str, Any] = {"take": take}
        for number in range(1, shape + 1):
            members[f"input_{number}"] = InputPort[Any](Any)
            members[f"input_{number}"].process_batch(take)
        return members

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """The columns of the streams. Raises SchemaError if they differ."""
        if port != "output" or not inputs:
            return None
        (first, one), *others = inputs.items()
        fields = {field.name: field for field in one.arrow}
        for name, other in others:
            difference = _difference(one, other)
            if difference is not None:
                remedy = "let `select`, `rename` or `cast` make the columns the same"
                raise SchemaError(f"the streams of `{first}` and `{name}` differ: {difference}; {remedy}")
            for field in other.arrow if not one.pickled else ():
                mine = fields[field.name]
                fields[field.name] = mine.with_nullable(mine.nullable or field.nullable)
        if one.pickled or all(other.type is one.type for _, other in others):
            return one.type
        return pa.schema(list(fields.values()))


def _difference(one: Schema, other: Schema) -> str | None:
    """The first column that two streams do not both have; None if they have the same, in any order."""
    if one.pickled or other.pickled:
        return one.difference(other) or other.difference(one)
    mine, theirs = ({field.name: field.type for field in schema.arrow} for schema in (one, other))
    for name in [*mine, *theirs]:
        if name not in mine or name not in theirs:
            return f"only one of them has column `{name}`"
        if mine[name] != theirs[name]:
            return f"column `{name}` is {mine[name]} and {theirs[name]}"
    return None
