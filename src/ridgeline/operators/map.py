"""Turn each tuple into another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, SchemaType
from ridgeline.api.support.results import deferred
from ridgeline.operators._shaped import GivenSchema, Made, T


class Map(GivenSchema, Generic[T, Made]):
    """Turn each tuple into another one of `schema`, in order.

    Give one of `function` and `batch_function`. `function` takes a tuple and returns one of `schema`.
    `batch_function` takes an Arrow batch and returns one with the columns of `schema`. It may return more or
    fewer rows; if it returns as many, row i keeps the time of input row i. The function may be given by
    position: `Map(enlarge, schema=...)`. Raises TypeError from the constructor if neither or both are given.
    Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Map
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Celsius(NamedTuple):
        ...     city: str
        ...     degrees: float
        >>> class Fahrenheit(NamedTuple):
        ...     city: str
        ...     degrees: float
        >>> def convert(reading: Celsius) -> Fahrenheit:
        ...     return Fahrenheit(reading.city, reading.degrees * 9 / 5 + 32)
        >>> app = Application("temperatures")
        >>> source = app.add_operator("source", ListInput(Celsius, [("Bern", 20.0), ("Oslo", -5.0)]))
        >>> converted = app.add_operator("converted", Map(convert, schema=Fahrenheit))
        >>> sink = app.add_operator("sink", CollectorSink(Fahrenheit))
        >>> app.add_stream("celsius", source.output, converted.data)
        >>> app.add_stream("fahrenheit", converted.output, sink.input)
        >>> run_local(app).collected("sink")
        [Fahrenheit(city='Bern', degrees=68.0), Fahrenheit(city='Oslo', degrees=23.0)]
    """

    data = InputPort[T](Any)
    output = OutputPort[Made](Any)

    function: Callable[[T], Made] | None = None
    schema: SchemaType[Made] = Field(kw_only=True)
    batch_function: Callable[[pa.RecordBatch], pa.RecordBatch] | None = Field(default=None, kw_only=True)

    def __new__(cls, *_values: object, **properties: object) -> Self:
        """Make a `BatchMap` if `batch_function` is given: its port takes batches in place of tuples."""
        return super().__new__(
            BatchMap if cls is Map and properties.get("batch_function") is not None else cls
        )  # type: ignore[return-value]

    def __post_init__(self) -> None:
        """Raise TypeError unless there is one function; give the output port its schema."""
        if (self.function is None) == (self.batch_function is None):
            found = "neither" if self.function is None else "both"
            raise TypeError(f"`Map` needs one of `function` and `batch_function`; got {found}; give one")
        super().__post_init__()

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a function whose call gives no result."""
        rule = deferred(self.function)
        return [("function", self.function, rule)] if rule else []

    @data.process
    def apply(self, tuple: T) -> None:
        """Emit what the function returns for a tuple."""
        if self.function is not None:
            self.output.emit(self.function(tuple))


class BatchMap(Map[T, Made]):
    """A `Map` that takes batches: what `Map(batch_function=...)` returns."""

    data = InputPort[T](Any)

    @data.process_batch
    def apply_batch(self, batch: pa.RecordBatch) -> None:
        """Emit what the function returns for a batch."""
        if self.batch_function is not None:
            self.output.emit_batch(self.batch_function(batch))
