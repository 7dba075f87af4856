"""Make each tuple into another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from ridgeline.api import InputPort, Operator, OutputPort
from ridgeline.operators._unnamed import named


class Map(Operator):
    """Make each tuple into another one of `schema`, in order.

    Give one of `function`, which takes a tuple and returns one of `schema`, and `batch_function`, which takes
    an Arrow batch and returns one with the columns of `schema`. That may have more or fewer tuples; if it has
    as many, each has the time of the row in its place. Without a name it is `function`: `Map(enlarge,
    schema=...)`. Raises TypeError when it is made if neither or both are given. Partitions: round robin.
    """

    data = InputPort(Any)
    output = OutputPort(Any)

    schema: Any
    function: Callable[[Any], Any] | None = None
    batch_function: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None

    def __new__(cls, *_unnamed: Any, **properties: Any) -> Self:
        """A `Map` whose port takes tuples or batches, as the function does."""
        return super().__new__(BatchMap if cls is Map and "batch_function" in properties else cls)  # type: ignore[return-value]

    def __init__(self, *unnamed: Any, **properties: Any) -> None:
        properties = named("Map", "function", unnamed, properties)
        super().__init__(**properties)
        if (self.function is None) == (self.batch_function is None):
            found = "neither" if self.function is None else "both"
            message = f"`Map` needs one of `function` and `batch_function`; got {found}; give one"
            raise TypeError(message)
        if "schema" in properties:
            self.declare_schema("output", self.schema)

    @data.process
    def apply(self, tuple: Any) -> None:
        """Emit what the function makes of a tuple."""
        if self.function is not None:
            self.output.emit(self.function(tuple))


class BatchMap(Map):
    """What `Map(batch_function=...)` makes."""

    data = InputPort(Any)

    @data.process_batch
    def apply_batch(self, batch: pa.RecordBatch) -> None:
        """Emit what the function makes of a batch."""
        if self.batch_function is not None:
            self.output.emit_batch(self.batch_function(batch))
