"""Highest and lowest value by key."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.api import InputPort, KeyedState, OutputPort
from ridgeline.operators._batch_unifier import BatchUnifier
from ridgeline.operators.key_value import FirstColumnCodec, KeyValOperator, check_columns, distinct, extremes


class RangeUnifier(BatchUnifier):
    """Of what partitions say of the same key in the same window, keep the highest high and the lowest low."""

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One tuple a key, in the order in which keys came."""
        keys, index = distinct(batch.column(0))
        high, low = batch.columns[1:]
        columns = [
            pa.array(extremes(high, index, len(keys), highest=True), high.type),
            pa.array(extremes(low, index, len(keys), highest=False), low.type),
        ]
        return pa.RecordBatch.from_arrays([keys, *columns], schema=batch.schema)


class RangeKeyVal(KeyValOperator):
    """Highest and lowest value of each key in the application window.

    Input: `(key, value)`, values of any type that has an order; tuples whose value is null count nothing, nor
    does a NaN beside a number. Output: `(key, high, low)` at the end of the application window, of the keys
    that came in it, in the order in which they came first.

    Partitions: by key; round robin is right as well.
    """

    emits: ClassVar[str] = "range"

    data = InputPort(Any, codec=FirstColumnCodec())
    range = OutputPort(Any, unifier=RangeUnifier)

    extremes: KeyedState[Any] = KeyedState(tuple)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Widen the ranges by the values of many tuples."""
        check_columns(batch, 2, 2, "RangeKeyVal")
        if batch.column(1).null_count:
            batch = batch.filter(batch.column(1).is_valid())
        keys, index = distinct(batch.column(0))
        highs = extremes(batch.column(1), index, len(keys), highest=True)
        lows = extremes(batch.column(1), index, len(keys), highest=False)
        known = self.extremes
        for key, high, low in zip(keys.to_pylist(), highs, lows, strict=True):
            if key in known:
                before_high, before_low = known[key]
                high = _beyond(before_high, high, high > before_high)  # noqa: PLW2901  of both
                low = _beyond(before_low, low, low < before_low)  # noqa: PLW2901  of both
            known[key] = (high, low)

    def end_window(self) -> None:
        """Emit the window's ranges and forget them."""
        found = dict(self.extremes.items())
        if found:
            self.emit_columns([list(found), *map(list, zip(*found.values(), strict=True))])
            self.extremes.clear()


def _beyond(old: Any, new: Any, farther: bool) -> Any:  # noqa: FBT001  computed beside the call
    """The new extreme if it lies farther out, or if the old one is a NaN."""
    return new if farther or old != old else old  # noqa: PLR0124  only a NaN differs from itself
