"""Group consecutive values into tuples."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, ListState, Operator, OutputPort, SchemaError, SchemaType
from ridgeline.api.columns.schema import Schema
from ridgeline.operators._shaped import T
from ridgeline.operators.key_value import to_batch


class RoundRobinHashMap(Operator, Generic[T]):
    """Group each `len(keys)` consecutive values into one tuple.

    Input: tuples of one column. Output: `schema`, whose columns must be named as `keys`; default: int64
    columns with these names. A tuple has the time of its last value. A group that is incomplete at the end of
    a window is completed in the next one. One that is incomplete at the end of the input is not emitted.
    Raises SchemaError if `keys` and `schema` disagree, or for tuples of more than one column. Partitions:
    round robin; each groups the values that it gets.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RoundRobinHashMap
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("points")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,), (3,), (4,)]))
        >>> points = app.add_operator("points", RoundRobinHashMap(keys=["x", "y"]))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("numbers", numbers.output, points.data)
        >>> app.add_stream("points", points.map, sink.input)
        >>> run_local(app).collected("sink")
        [{'x': 1, 'y': 2}, {'x': 3, 'y': 4}]
    """

    state_depends_on = ("data", "keys")

    data = InputPort(Any)
    map = OutputPort[T](Any)

    keys: list[str] = Field(min_length=1)
    schema: SchemaType[T] | None = None

    carried = ListState(moves="sum")

    def __post_init__(self) -> None:
        """Give the output port its schema. Raises SchemaError unless its columns are the keys."""
        keys = vars(self).get("keys", [])
        if self.schema is None:
            self.schema = pa.schema([(key, pa.int64()) for key in keys])
        names = Schema(self.schema).arrow.names
        if list(keys) != names:
            remedy = "rename one or the other"
            raise SchemaError(f"the columns of `schema` must be the `keys` {keys}; got {names}; {remedy}")
        self.declare_schema("map", self.schema)

    @data.process_batch
    def group(self, batch: pa.RecordBatch) -> None:
        """Emit the complete groups; keep the incomplete one in `carried`."""
        if batch.num_columns != 1:
            raise SchemaError(
                f"`RoundRobinHashMap` takes tuples of one column; got {batch.schema.names}; "
                "put a `Map` before it"
            )
        values, size = batch.column(0), len(self.keys)
        if self.carried:
            values = pa.concat_arrays([pa.array(list(self.carried), values.type), values])
            self.carried.clear()
        complete = len(values) - len(values) % size
        if complete:
            columns = [values.take(pa.array(np.arange(place, complete, size))) for place in range(size)]
            completing = np.arange(size - 1, complete, size) - (len(values) - batch.num_rows)
            completing = np.maximum(completing, 0)
            self.map.emit_batch(pa.RecordBatch.from_arrays(columns, names=list(self.keys)), rows=completing)
        self.carried.extend(values[complete:].to_pylist())

    def end_window(self) -> None:
        """Emit the groups that are complete because several partitions have become one."""
        size = len(self.keys)
        complete = len(self.carried) - len(self.carried) % size
        if complete:
            columns = [self.carried[place:complete:size] for place in range(size)]
            self.map.emit_batch(to_batch(self.map.schema.arrow, columns, "RoundRobinHashMap"))
            del self.carried[:complete]
