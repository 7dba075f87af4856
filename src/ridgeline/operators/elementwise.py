"""Steps that take tuple by tuple: each becomes another one, passes or not, or becomes several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Self

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, Operator, OutputPort, SchemaType
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


class Filter(Operator, Generic[T]):
    """Let the tuples through for which a predicate is true, in their order.

    Give one of `predicate` and `batch_predicate`. `predicate` takes a tuple and returns True or False.
    `batch_predicate` takes an Arrow batch and returns a boolean Arrow or numpy array, one value a tuple; null
    counts as False. The predicate may be given by position: `Filter(is_large)`. Raises TypeError from the
    constructor if neither or both are given. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Filter
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("even-numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,), (4,)]))
        >>> even = app.add_operator("even", Filter(lambda number: number.value % 2 == 0))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("all", numbers.output, even.data)
        >>> app.add_stream("filtered", even.output, sink.input)
        >>> run_local(app).collected("sink")
        [Number(value=2), Number(value=4)]
    """

    data = InputPort[T](Any)
    output = OutputPort[T](Any)

    predicate: Callable[[T], bool] | None = None
    batch_predicate: Callable[[pa.RecordBatch], Any] | None = None

    def __new__(cls, *values: object, **properties: object) -> Self:
        """Make a `BatchFilter` if `batch_predicate` is given: its port takes batches in place of tuples."""
        by_batch = (values[1] if len(values) == 2 else properties.get("batch_predicate")) is not None  # noqa: PLR2004
        return super().__new__(BatchFilter if cls is Filter and by_batch else cls)  # type: ignore[return-value]

    def __post_init__(self) -> None:
        """Raise TypeError unless there is one predicate."""
        if (self.predicate is None) == (self.batch_predicate is None):
            found = "neither" if self.predicate is None else "both"
            raise TypeError(f"`Filter` needs one of `predicate` and `batch_predicate`; got {found}; give one")

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a function whose call gives no result."""
        rule = deferred(self.predicate)
        return [("predicate", self.predicate, rule)] if rule else []

    @data.process
    def sift(self, tuple: T) -> None:
        """Emit a tuple if the predicate is true for it."""
        if self.predicate is not None and self.predicate(tuple):
            self.output.emit(tuple)


class BatchFilter(Filter[T]):
    """A `Filter` that takes batches: what `Filter(batch_predicate=...)` returns."""

    data = InputPort[T](Any)

    @data.process_batch
    def sift_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the tuples of a batch for which the predicate is true."""
        if self.batch_predicate is not None:
            mask = self.batch_predicate(batch)
            mask = mask if isinstance(mask, pa.Array) else pa.array(mask, pa.bool_())
            self.output.emit_batch(batch.filter(mask), rows=mask)


class FlatMap(GivenSchema, Generic[T, Made]):
    """Turn each tuple into those of `schema` that a function returns or yields, in order: none or more.

    The function may be given by position: `FlatMap(words, schema=Word)`. Partitions: round robin.

    Example:
        >>> from collections.abc import Iterator
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import FlatMap
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Line(NamedTuple):
        ...     text: str
        >>> class Word(NamedTuple):
        ...     word: str
        >>> def split(line: Line) -> Iterator[Word]:
        ...     yield from map(Word, line.text.split())
        >>> app = Application("words")
        >>> lines = app.add_operator("lines", ListInput(Line, [("to be",), ("",), ("or",)]))
        >>> words = app.add_operator("words", FlatMap(split, schema=Word))
        >>> sink = app.add_operator("sink", CollectorSink(Word))
        >>> app.add_stream("lines", lines.output, words.data)
        >>> app.add_stream("words", words.output, sink.input)
        >>> run_local(app).collected("sink")
        [Word(word='to'), Word(word='be'), Word(word='or')]
    """

    data = InputPort[T](Any)
    output = OutputPort[Made](Any)

    function: Callable[[T], Iterable[Made]]
    schema: SchemaType[Made] = Field(kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a function whose call gives no result."""
        rule = deferred(self.function, many=True)
        return [("function", self.function, rule)] if rule else []

    @data.process
    def apply(self, tuple: T) -> None:
        """Emit what the function returns for a tuple."""
        for made in self.function(tuple):
            self.output.emit(made)
