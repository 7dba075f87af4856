"""Aggregates by key in application windows: sums, ranges, and averages over the last windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce
from itertools import cycle
from operator import add
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, KeyedState, OutputPort, Schema, SchemaError, SchemaType, State
from ridgeline.operators._exact import added, divided, to_scale
from ridgeline.operators.key_value import (
    BatchUnifier,
    FirstColumnCodec,
    Index,
    KeyValOperator,
    T,
    beyond,
    check_columns,
    distinct,
    extremes,
    sums,
    to_batch,
)

Kind = tuple[Callable[[pa.Array, Index, int], list[Any]], Callable[[Any, Any], Any]]
"""What a kind of total makes of the values of each group, and of two totals of a group."""
Totals = tuple[Any, ...]


def _counts(_column: pa.Array, index: Index, groups: int) -> list[int]:
    """How many rows each group has."""
    counts: list[int] = np.bincount(index, minlength=groups).tolist()
    return counts


_SUM: Kind = sums, added
_COUNT: Kind = _counts, add
_HIGHEST: Kind = partial(extremes, highest=True), partial(beyond, highest=True)
_LOWEST: Kind = partial(extremes, highest=False), partial(beyond, highest=False)


class TotalsUnifier(BatchUnifier):
    """Merge the totals of partitions by key. `kinds`: those of the columns after the key, again and again."""

    kinds: ClassVar[tuple[Kind, ...]]

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row a key, keys in the order in which they first appear."""
        keys, index = distinct(batch.column(0))
        columns = zip(batch.columns[1:], cycle(self.kinds))
        found = [of(column, index, len(keys)) for column, (of, _) in columns]
        return to_batch(batch.schema, [keys, *found], type(self).__name__)


class KeyTotals(KeyValOperator[T]):
    """The base of operators that emit totals of each key's values at the end of the application window."""

    kinds: ClassVar[tuple[Kind, ...]]
    """The totals of each column of values."""
    most: ClassVar[int | None] = 2
    """The most columns that tuples may have. Of two, tuples whose value is null are left out."""

    data = InputPort(Any, codec=FirstColumnCodec())

    totals = KeyedState(tuple)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch to the totals of their keys."""
        check_columns(batch, 2, self.most, type(self).__name__)
        if self.most and batch.column(1).null_count:
            batch = batch.filter(batch.column(1).is_valid())
        keys, index = distinct(batch.column(0))
        if self.meets():
            self.refuse_strays(keys)
        columns = [of(column, index, len(keys)) for column in batch.columns[1:] for of, _ in self.kinds]
        rows = [
            self.take(key, new) for key, new in zip(keys.to_pylist(), zip(*columns, strict=True), strict=True)
        ]
        if rows:
            self.check_fit([keys, *_columns(rows)])

    def meets(self) -> bool:
        """Whether all tuples of a key must come to one partition."""
        return False

    def merged(self, before: Totals | None, new: Totals) -> Totals:
        """The totals of a key, with those of a batch."""
        if before is None:
            return new
        kinds = zip(before, new, cycle(self.kinds))
        return tuple([merge(one, other) for one, other, (_, merge) in kinds])

    def take(self, key: Any, new: Totals) -> Totals:
        """Add the totals of a batch to those of a key; returns the values that could be emitted now."""
        self.totals[key] = found = self.merged(self.totals.get(key), new)
        return found

    def emit_all(self, found: Iterable[tuple[Any, Totals]]) -> None:
        """Emit keys with their totals."""
        if rows := dict(found):
            self.emit_columns([list(rows), *_columns(rows.values())])

    def end_window(self) -> None:
        """Emit the totals of the window's keys, and clear them."""
        self.emit_all(self.totals.items())
        self.totals.clear()


def _columns(rows: Iterable[Totals]) -> list[list[Any]]:
    return list(map(list, zip(*rows, strict=True)))


class SumUnifier(TotalsUnifier):
    """Merge the sums of partitions: add the values of each key in the window.

    `SumKeyVal` uses it by itself; give it to an output port of your own that emits `(key, number, ...)`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import OutputPort
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> volumes = OutputPort(Volume, unifier=SumUnifier)
    """

    kinds = (_SUM,)


class SumKeyVal(KeyTotals[T]):
    """Emit the sum of each key's values; tuples with several values are summed column by column.

    Input: `(key, value, ...)`, numbers; null values are ignored. Output: `(key, sum, ...)` at the end of the
    (application) window, for the keys of that window. Up to 50,000 keys come in the order in which they first
    came. Sums are exact, those of floats rounded once: they do not depend on the order of tuples. As soon as
    a sum does not fit its column SchemaError is raised, before the window is committed.

    `schema`: of the output; None: that of the input. `cumulative`: sums continue from window to window;
    otherwise each application window starts at zero. `restart_every`: cumulative sums start at zero again
    after this number of (application) windows; 0: never.

    Partitions: by key. Round robin gives the same result unless `cumulative`. With `cumulative` it is refused
    with RidgelineError: a partition emits only the keys that came to it, so the totals would be incomplete.
    Slides with `slide_by_window_count`, unless `cumulative`.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SumKeyVal
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> items = [("IBM", 3), ("SAP", 5), ("IBM", 4), END_WINDOW, ("IBM", 1)]
        >>> app = Application("volumes")
        >>> trades = app.add_operator("trades", ListInput(Volume, items))
        >>> volumes = app.add_operator("volumes", SumKeyVal(cumulative=True))
        >>> sink = app.add_operator("sink", CollectorSink(Volume))
        >>> app.add_stream("trades", trades.output, volumes.data)
        >>> app.add_stream("volumes", volumes.sum, sink.input)
        >>> for volume in run_local(app).collected("sink"):
        ...     print(volume)
        Volume(symbol='IBM', shares=7)
        Volume(symbol='SAP', shares=5)
        Volume(symbol='IBM', shares=8)
    """

    emits: ClassVar[str] = "sum"
    kinds = (_SUM,)
    most = None

    sum = OutputPort[T](Any, unifier=SumUnifier)

    schema: SchemaType[T] | None = None
    cumulative: bool = False
    restart_every: int = Field(default=0, ge=0)

    windows = State(0, moves="same")

    def slider_of(self, port: str) -> type[SumUnifier] | None:
        """Return `SumUnifier`; None for sums that continue, which hold the windows before already."""
        return None if self.cumulative else SumUnifier

    def meets(self) -> bool:
        """For sums that continue."""
        return self.cumulative

    def end_window(self) -> None:
        """Emit the sums of the window's keys; clear them unless they continue."""
        if not self.cumulative:
            super().end_window()
            return
        self.emit_all(self.totals.changed())
        if self.restart_every:
            self.windows = (self.windows + 1) % self.restart_every
            if not self.windows:
                self.totals.clear()


class RangeUnifier(TotalsUnifier):
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

    kinds = (_HIGHEST, _LOWEST)


class RangeKeyVal(KeyTotals[T]):
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
    kinds = (_HIGHEST, _LOWEST)

    range = OutputPort[T](Any, unifier=RangeUnifier)

    schema: SchemaType[T]


class SimpleMovingAverage(KeyTotals[T]):
    """Emit the average of each key's values over the last `window_size` application windows.

    Input: `(key, value)`, numbers; null values are ignored. Output: `(key, average)` at the end of every
    application window, for each key with a value in the last `window_size` application windows, the ending
    one included. The average is the sum of all these values divided by their number, so each value has the
    same weight. The first averages cover fewer windows. A key without new values is still emitted, until all
    its values are too old; then it is forgotten. Up to 50,000 keys are emitted in the order in which they
    first came. The same operator of Apex Malhar continues to emit 0 for such keys. Sums are exact, and each
    average is rounded once: to a float, or to the digits of a Decimal column. The order of tuples does not
    matter.

    `schema`: of the output; None: that of the input, whose values then must be floats or Decimals.

    Partitions: by key. Round robin and `partition_parallel` are refused with RidgelineError when a key comes
    to another partition than by key: averages of parts cannot be merged.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SimpleMovingAverage
        >>> from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> items = [("IBM", 1.0), END_WINDOW, ("IBM", 3.0), END_WINDOW, ("IBM", 5.0)]
        >>> app = Application("averages")
        >>> prices = app.add_operator("prices", ListInput(Price, items))
        >>> averages = app.add_operator("averages", SimpleMovingAverage(window_size=2))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, averages.data)
        >>> app.add_stream("averages", averages.average, sink.input)
        >>> run = run_local(app)
        >>> [run.collected("sink", window)[0].price for window in run.window_ids]
        [1.0, 2.0, 4.0]
    """

    emits: ClassVar[str] = "average"
    kinds = (_SUM, _COUNT)

    state_depends_on = ("data", "window_size")

    average = OutputPort[T](Any)

    schema: SchemaType[T] | None = None
    window_size: int = Field(default=2, ge=1)

    window_number = State(0, moves="same")
    """The number of the application window, the same in all partitions: `totals` has it, sum and count."""

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """That of the input. Raises SchemaError for whole numbers, whose averages are none."""
        given = inputs.get("data")
        if port == "average" and self.schema is None and given is not None and len(given.arrow) > 1:
            column = given.arrow.field(1)
            if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
                what = f"averages of `{column.name}`, which is {column.type}, are no whole numbers"
                raise SchemaError(f"{what}; give `schema`, with a float or a Decimal for them")
        return super().derived_schema(port, inputs)

    def meets(self) -> bool:
        """Averages of parts cannot be merged."""
        return True

    def _recent(self, key: Any) -> tuple[Totals, ...]:
        """The sums and counts of a key that the average is of, the oldest first."""
        oldest = self.window_number - self.window_size
        return tuple(part for part in self.totals.get(key, ()) if part[0] > oldest)

    def take(self, key: Any, new: Totals) -> Totals:
        """Add sum and count to those of the window; returns the average."""
        parts, number = self._recent(key), self.window_number
        if parts and parts[-1][0] == number:
            parts, new = parts[:-1], self.merged(parts[-1][1:], new)
        self.totals[key] = parts = (*parts, (number, *new))
        return self._average(parts)

    def end_window(self) -> None:
        """Emit the averages; delete keys whose values are all too old."""
        recent = {key: self._recent(key) for key in self.totals}
        for key in [key for key, parts in recent.items() if not parts]:
            del self.totals[key]
        self.window_number += 1
        self.emit_all((key, self._average(parts)) for key, parts in recent.items() if parts)

    def _average(self, parts: Sequence[Totals]) -> Totals:
        """The average as the output has it, rounded once: that of Decimals is a fraction."""
        found = divided(reduce(added, (part[1] for part in parts)), sum(part[2] for part in parts))
        if isinstance(found, Fraction):
            kind = self.output_schema().field(1).type
            found = to_scale(found, kind.scale) if pa.types.is_decimal(kind) else float(found)
        return (found,)
