"""Highest and lowest value by key."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.api import InputPort, KeyedState, OutputPort, SchemaType
from ridgeline.operators._shaped import T
from ridgeline.operators.key_value import (
    BatchUnifier,
    FirstColumnCodec,
    KeyValOperator,
    beyond,
    check_columns,
    distinct,
    extremes,
    to_batch,
)


class RangeUnifier(BatchUnifier):
    """Merge the ranges of partitions: of each key keep the highest high and the lowest low of the window.

    `RangeKeyVal` uses it by itself; give it to an output port of your own that emits `(key, high, low)`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import OutputPort
        >>> class HighLow(NamedTuple):
        ...     symbol: str
        ...     high: float
        ...     low: float
        >>> range = OutputPort(HighLow, unifier=RangeUnifier)
    """

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row a key, keys in the order in which they first appear."""
        keys, index = distinct(batch.column(0))
        high, low = batch.columns[1:]
        columns = [
            extremes(high, index, len(keys), highest=True),
            extremes(low, index, len(keys), highest=False),
        ]
        return to_batch(batch.schema, [keys, *columns], "RangeUnifier")


class RangeKeyVal(KeyValOperator[T]):
    """Emit the highest and the lowest value of each key in the application window.

    Input: `(key, value)`, values of any ordered type. Null values are ignored; so is NaN where the key has a
    number. Output: `(key, high, low)` at the end of the application window, for the keys of that window. Up
    to 50,000 keys come in the order in which they first came.

    Partitions: by key; round robin gives the same result. Slides with `slide_by_window_count`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import RangeKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class HighLow(NamedTuple):
        ...     symbol: str
        ...     high: float
        ...     low: float
        >>> app = Application("ranges")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 3.0), ("SAP", 9.0), ("IBM", 5.0)]))
        >>> ranges = app.add_operator("ranges", RangeKeyVal(schema=HighLow))
        >>> sink = app.add_operator("sink", CollectorSink(HighLow))
        >>> app.add_stream("prices", prices.output, ranges.data)
        >>> app.add_stream("ranges", ranges.range, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row)
        HighLow(symbol='IBM', high=5.0, low=3.0)
        HighLow(symbol='SAP', high=9.0, low=9.0)
    """

    emits: ClassVar[str] = "range"

    data = InputPort(Any, codec=FirstColumnCodec())
    range = OutputPort[T](Any, unifier=RangeUnifier)

    schema: SchemaType[T]

    extremes = KeyedState(tuple)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Extend the ranges of the window by the values of a batch."""
        check_columns(batch, 2, 2, "RangeKeyVal")
        if batch.column(1).null_count:
            batch = batch.filter(batch.column(1).is_valid())
        keys, index = distinct(batch.column(0))
        highs = extremes(batch.column(1), index, len(keys), highest=True)
        lows = extremes(batch.column(1), index, len(keys), highest=False)
        known = self.extremes
        for key, high, low in zip(keys.to_pylist(), highs, lows, strict=True):
            before_high, before_low = known.get(key, (None, None))
            known[key] = (
                beyond(before_high, high, highest=True),
                beyond(before_low, low, highest=False),
            )
        self.check_fit([keys, highs, lows])

    def end_window(self) -> None:
        """Emit the window's ranges and clear them."""
        self.emit_values(dict(self.extremes.items()))
        self.extremes.clear()
