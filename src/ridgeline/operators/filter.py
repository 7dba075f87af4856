"""Let those tuples through for which a predicate is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self

import pyarrow as pa

from ridgeline.api import InputPort, Operator, OutputPort
from ridgeline.api.support.results import deferred
from ridgeline.operators._shaped import T


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
