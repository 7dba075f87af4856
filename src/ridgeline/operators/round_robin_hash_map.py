"""Values that come one after the other, as tuples of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, ListState, Operator, OutputPort, SchemaError
from ridgeline.api.schema import Schema


class RoundRobinHashMap(Operator):
    """Make each `len(keys)` values that follow one another into one tuple: with `keys=["x", "y"]`, 1, 2, 3, 4 become (1, 2), (3, 4).

    Input: tuples of one column. Output: `schema`, whose columns must be named as `keys`; if it is not given,
    dictionaries of integers. A tuple has the time of its last value. A group that is not complete at the end
    of a window is carried over to the next; what is left at the very end is not emitted. Raises SchemaError
    if `keys` and `schema` disagree or tuples have more than one column. Partitions: round robin; each groups
    the values that it gets.
    """

    data = InputPort(Any)
    map = OutputPort(Any)

    keys: list[str] = Field(min_length=1)
    schema: Any = None

    carried: ListState[Any] = ListState()

    def __init__(self, **properties: Any) -> None:
        super().__init__(**properties)
        if properties.get("schema") is None:
            self.schema = pa.schema([(key, pa.int64()) for key in properties.get("keys", [])])
        names = Schema(self.schema).arrow.names
        if list(properties.get("keys", [])) != names:
            message = f"the columns of `schema` must be the `keys` {properties.get('keys')}; got {names}; rename one or the other"
            raise SchemaError(message)
        self.declare_schema("map", self.schema)

    @data.process_batch
    def group(self, batch: pa.RecordBatch) -> None:
        """Emit the groups that are complete, keep the rest."""
        if batch.num_columns != 1:
            message = f"`RoundRobinHashMap` takes tuples of one column; got {batch.schema.names}; put a `Map` before it"
            raise SchemaError(message)
        values, size = batch.column(0), len(self.keys)
        if self.carried:
            values = pa.concat_arrays([pa.array(list(self.carried), values.type), values])
            self.carried.clear()
        complete = len(values) - len(values) % size
        if complete:
            columns = [values.take(pa.array(np.arange(place, complete, size))) for place in range(size)]
            completing = np.arange(size - 1, complete, size) - (len(values) - batch.num_rows)
            self.map.emit_batch(pa.RecordBatch.from_arrays(columns, names=list(self.keys)), rows=completing)
        self.carried.extend(values[complete:].to_pylist())
