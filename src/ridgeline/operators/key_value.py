"""Key-value streams: the operators whose names end in `KeyVal`, similar ones, and their common parts.

A key-value stream is a stream of any schema whose first column is the key; the columns after it are the
values: `(symbol, price)`, `(symbol, high, low)`. Positions count, names do not. Input ports of these
operators take the schema of their stream; the schema of their output is given to the constructor:
`RangeKeyVal(schema=HighLow)`. Tuples are partitioned by the first column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, ClassVar, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ridgeline.api import (
    InputPort,
    KeyedState,
    ListState,
    Operator,
    OutputPort,
    Schema,
    SchemaError,
    SchemaType,
    State,
    StreamCodec,
    Unifier,
    stable_hash,
)
from ridgeline.api.codec import hash_column
from ridgeline.api.columns.schema import is_named_tuple
from ridgeline.api.columns.struct_types import struct_fields as record_fields
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import shorten
from ridgeline.operators._divided import refuse_strays
from ridgeline.operators._exact import added, divided, rounded, to_scale
from ridgeline.operators._shaped import GivenSchema, T, handed_on
from ridgeline.operators._vectors import beyond, distinct, extremes, is_number, last_rows, sums


class FirstColumnCodec(StreamCodec):
    """Partition by the first column, whatever its name.

    Its hashes equal those of a port with `key=` this column, so both send equal keys to the same partition.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import stable_hash
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> FirstColumnCodec().hash(Price("IBM", 12.3)) == stable_hash("IBM")
        True
    """

    def hash(self, tuple: Any) -> int:
        """The stable hash of the first value of a NamedTuple, a dataclass or a dictionary."""
        if isinstance(tuple, dict):
            return stable_hash(next(iter(tuple.values())))
        # checkpoints have a digest of this code, names included: another one means that keys moved
        return stable_hash(
            tuple[0]
            if is_named_tuple(type(tuple))
            else getattr(tuple, next(iter(record_fields(type(tuple)))))
        )

    def hashes(self, tuples: Tuples) -> npt.NDArray[np.uint64]:
        """The stable hashes of the first Arrow column, vectorised."""
        return hash_column(tuples.batch.column(0))

    def key_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """The first column."""
        return tuple(schema.names[:1]) or None


class KeyValOperator(GivenSchema, Generic[T]):
    """The base of operators over key-value streams: the output's schema, and how columns are emitted.

    `schema` is the schema of the tuples on the output port that `emits` names: the key, then the values, by
    position.

    Example:
        >>> from typing import Any, NamedTuple
        >>> from ridgeline import Application, InputPort, OutputPort
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class Negated(KeyValOperator):
        ...     emits = "output"
        ...     data = InputPort(Any, codec=FirstColumnCodec())
        ...     output = OutputPort(Any)
        ...
        ...     @data.process_batch
        ...     def negate(self, batch):
        ...         self.emit_columns([batch.column(0), pc.negate(batch.column(1))])
        >>> app = Application("negated")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3)]))
        >>> negated = app.add_operator("negated", Negated(schema=Price))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, negated.data)
        >>> app.add_stream("negated", negated.output, sink.input)
        >>> run_local(app).collected("sink")
        [Price(symbol='IBM', price=-12.3)]
    """

    schema: SchemaType[T] | None

    def output_schema(self) -> pa.Schema:
        """The Arrow schema of the output port."""
        schema: pa.Schema = getattr(self, self.emits).schema.arrow
        return schema

    def emit_columns(self, columns: Sequence[object]) -> None:
        """Emit columns (Arrow arrays or Python lists) by position.

        Raises SchemaError if they do not fit the output's schema.
        """
        getattr(self, self.emits).emit_batch(self.check_fit(columns))

    def emit_values(self, found: Mapping[Any, Sequence[Any]]) -> None:
        """Emit the values of each key. Raises SchemaError as `emit_columns`."""
        if found:
            self.emit_columns([list(found), *map(list, zip(*found.values(), strict=True))])

    def check_fit(self, columns: Sequence[object]) -> pa.RecordBatch:
        """The batch of columns. Raises SchemaError if they could not be emitted.

        Called when values come in: at the end of an application window they would be committed already.
        """
        return to_batch(self.output_schema(), columns, type(self).__name__)

    def refuse_strays(self, keys: pa.Array) -> None:
        """Raise RidgelineError for a key in a partition that does not own it: equal keys must all meet.

        The division of its input says which partition owns a key. Round robin and partitions that follow
        those upstream are refused at the first key that `assign_keys` would give to another partition.
        """
        if self.context.partitions > 1:
            refuse_strays(self, hash_column(keys), lambda row: keys[row].as_py())


class BatchUnifier(Unifier):
    """Collect the batches of all partitions in a window; at its end emit the result of `merge`."""

    input = InputPort(Any)
    output = OutputPort(Any)

    def begin_window(self, window_id: int) -> None:
        """Start with no batches."""
        self.batches: list[pa.RecordBatch] = []

    @input.process_batch
    def collect(self, batch: pa.RecordBatch) -> None:
        """Keep a partition's batch."""
        self.batches.append(batch)

    def end_window(self) -> None:
        """Emit the merged batch, if any batch came."""
        if self.batches:
            self.output.emit_batch(
                self.merge(pa.Table.from_batches(self.batches).combine_chunks().to_batches()[0])
            )

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Merge the rows of all partitions, in the partitions' order, into one batch of the same schema.

        Called once a window; `batch` is not empty.
        """
        raise NotImplementedError


def to_batch(schema: pa.Schema, columns: Sequence[object], who: str) -> pa.RecordBatch:
    """Make a batch of a schema from columns (Arrow arrays or Python lists), by position.

    `who` is named in errors. Raises SchemaError if number or types of the columns do not fit.
    """
    if len(columns) != len(schema):
        number = len(columns)
        raise SchemaError(
            f"`{who}` emits {number} columns; got a `schema` with {len(schema)}: {schema.names}; "
            f"give one of {number} columns"
        )
    arrays = []
    for field, column in zip(schema, columns, strict=True):
        try:
            arrays.append(_fitted(column, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            place = f"column `{field.name}` ({field.type}) of its `schema`"
            raise SchemaError(
                f"`{who}` emits values that do not fit {place}; "
                f"{_which(columns[0], column, field.type)}{error}; give another `schema`"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fitted(column: Any, kind: pa.DataType) -> pa.Array:
    """A column as an array of a type. Raises what Arrow raises for values that it would have to change."""
    if not isinstance(column, pa.Array):
        if pa.types.is_floating(kind) and tuple in set(map(type, column)):
            column = list(map(rounded, column))
        exact = None if pa.types.is_integer(kind) else pa.float64() if pa.types.is_floating(kind) else kind
        column = pa.array(column, exact)  # to integers Arrow would truncate 0.5; a cast refuses it
    if pa.types.is_integer(kind) and not (is_number(column.type) or pa.types.is_null(column.type)):
        raise TypeError(f"they are {column.type}")
    if pa.types.is_boolean(kind) and is_number(column.type) and not pa.types.is_boolean(column.type):
        raise TypeError(f"they are {column.type}")
    found = column.cast(kind)
    if pa.types.is_floating(kind) and pa.types.is_float64(column.type) and kind != column.type:
        wide = found.cast(column.type)
        if pc.any(pc.and_(pc.is_finite(column), pc.invert(pc.is_finite(wide)))).as_py():
            raise OverflowError(f"a number is beyond the largest {kind}")
    return found


def _which(keys: Any, column: Any, kind: pa.DataType) -> str:
    """The key of the first of some values that does not fit a type, as text; nothing for arrays."""
    if isinstance(column, pa.Array) or column is keys:
        return ""
    for row, value in enumerate(column):
        try:
            _fitted([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            key = keys[row].as_py() if isinstance(keys, pa.Array) else keys[row]
            return f"of key {shorten(key)}: "
    return ""


def check_width(batch: pa.RecordBatch, least: int, most: int | None, who: str) -> None:
    """Raise SchemaError if a batch has fewer than `least` or more than `most` columns."""
    if batch.num_columns < least or (most is not None and batch.num_columns > most):
        wanted = (
            f"a key and {least - 1} value{'' if least == 2 else 's'}"  # noqa: PLR2004
            if most == least
            else f"a key and at least {least - 1} value"
        )
        raise SchemaError(
            f"`{who}` takes {wanted}; got tuples with the columns {batch.schema.names}; put a `Map` before it"
        )


class SumUnifier(BatchUnifier):
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

    def merge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row a key, keys in the order in which they first appear."""
        keys, index = distinct(batch.column(0))
        columns = [sums(column, index, len(keys)) for column in batch.columns[1:]]
        return to_batch(batch.schema, [keys, *columns], "SumUnifier")


class SumKeyVal(KeyValOperator[T]):
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

    data = InputPort(Any, codec=FirstColumnCodec())
    sum = OutputPort[T](Any, unifier=SumUnifier)

    schema: SchemaType[T] | None = None
    cumulative: bool = False
    restart_every: int = Field(default=0, ge=0)

    sums = KeyedState(tuple)
    windows = State(0, moves="same")

    def slider_of(self, port: str) -> type[SumUnifier] | None:
        """Return `SumUnifier`; None for sums that continue, which hold the windows before already."""
        return None if self.cumulative else SumUnifier

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch to the sums."""
        check_width(batch, 2, None, "SumKeyVal")
        keys, index = distinct(batch.column(0))
        if self.cumulative:
            self.refuse_strays(keys)
        columns = [sums(column, index, len(keys)) for column in batch.columns[1:]]
        known, totals = self.sums, []
        for key, new in zip(keys.to_pylist(), zip(*columns, strict=True), strict=True):
            before = known.get(key)
            total = new if before is None else tuple(map(added, before, new))
            known[key] = total
            totals.append(total)
        if totals:
            self.check_fit([keys, *map(list, zip(*totals, strict=True))])

    def end_window(self) -> None:
        """Emit the sums of the window's keys; clear them unless they continue."""
        self.emit_values(dict(self.sums.changed() if self.cumulative else self.sums.items()))
        if not self.cumulative:
            self.sums.clear()
        elif self.restart_every:
            self.windows = (self.windows + 1) % self.restart_every
            if not self.windows:
                self.sums.clear()


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
        check_width(batch, 2, 2, "RangeKeyVal")
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


class SimpleMovingAverage(KeyValOperator[T]):
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

    state_depends_on = ("data", "window_size")

    data = InputPort(Any, codec=FirstColumnCodec())
    average = OutputPort[T](Any)

    schema: SchemaType[T] | None = None
    window_size: int = Field(default=2, ge=1)

    # For each key, oldest first: (number of the application window, sum, count). The number is the same in
    # all partitions.
    parts = KeyedState(tuple)
    window_number = State(0, moves="same")

    def derived_schema(self, port: str, inputs: Mapping[str, Schema]) -> object:
        """That of the input. Raises SchemaError for whole numbers, whose averages are none."""
        given = inputs.get("data")
        if port == "average" and self.schema is None and given is not None and len(given.arrow) > 1:
            column = given.arrow.field(1)
            if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
                what = f"averages of `{column.name}`, which is {column.type}, are no whole numbers"
                raise SchemaError(f"{what}; give `schema`, with a float or a Decimal for them")
        return super().derived_schema(port, inputs)

    @data.process_batch
    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch to the current application window."""
        check_width(batch, 2, 2, "SimpleMovingAverage")
        if batch.column(1).null_count:
            batch = batch.filter(batch.column(1).is_valid())
        keys, index = distinct(batch.column(0))
        self.refuse_strays(keys)
        totals = sums(batch.column(1), index, len(keys))
        counts = sums(pa.array(index >= 0), index, len(keys))
        number, known, averages = self.window_number, self.parts, []
        for key, total, count in zip(keys.to_pylist(), totals, counts, strict=True):
            before = tuple(part for part in known.get(key, ()) if part[0] > number - self.window_size)
            if before and before[-1][0] == number:
                parts = (*before[:-1], (number, added(before[-1][1], total), before[-1][2] + count))
            else:
                parts = (*before, (number, total, count))
            known[key] = parts
            averages.append(_average(parts))
        self.check_fit([keys, self._in_type(averages)])

    def end_window(self) -> None:
        """Emit the averages; delete keys whose values are all too old."""
        oldest = self.window_number - self.window_size + 1
        keys, averages, gone = [], [], []
        for key, parts in self.parts.items():
            recent = [part for part in parts if part[0] >= oldest]
            if recent:
                keys.append(key)
                averages.append(_average(recent))
            else:
                gone.append(key)
        for key in gone:
            del self.parts[key]
        self.window_number += 1
        if keys:
            self.emit_columns([keys, self._in_type(averages)])

    def _in_type(self, averages: list[Any]) -> list[Any]:
        """Averages of Decimals are fractions: as the output's column has them, rounded once."""
        if not averages or not isinstance(averages[0], Fraction):
            return averages
        kind = self.output_schema().field(1).type
        if pa.types.is_decimal(kind):
            return [to_scale(average, kind.scale) for average in averages]
        return list(map(float, averages))


def _average(parts: Sequence[tuple[int, Any, int]]) -> Any:
    return divided(reduce(added, (part[1] for part in parts)), sum(part[2] for part in parts))


class ConsolidatorKeyVal(KeyValOperator[T]):
    """Join two to five key-value streams by key into one tuple.

    Inputs: `in1` ... `in5`, each `(key, value, ...)`; `in2` to `in5` are optional. Output: `schema`, whose
    first column is the key. Each other column takes the input column of the same name; names must differ
    between inputs. At the end of the (application) window one tuple is emitted for each key that came on any
    port. Keys are emitted in the order in which they came. A tuple has the newest value of every column, also
    from earlier windows, and None where no value has come yet. Raises SchemaError for an input column that
    `schema` lacks.

    Partitions: by key, the same on all ports. Round robin is refused with RidgelineError: equal keys would
    not meet.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import ConsolidatorKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> class Quote(NamedTuple):
        ...     symbol: str
        ...     price: float | None
        ...     shares: int | None
        >>> app = Application("quotes")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 3.0), ("SAP", 9.0)]))
        >>> volumes = app.add_operator("volumes", ListInput(Volume, [("IBM", 70)]))
        >>> join = app.add_operator("join", ConsolidatorKeyVal(schema=Quote))
        >>> sink = app.add_operator("sink", CollectorSink(Quote))
        >>> app.add_stream("prices", prices.output, join.in1)
        >>> app.add_stream("volumes", volumes.output, join.in2)
        >>> app.add_stream("quotes", join.out, sink.input)
        >>> for quote in run_local(app).collected("sink"):
        ...     print(quote)
        Quote(symbol='IBM', price=3.0, shares=70)
        Quote(symbol='SAP', price=9.0, shares=None)
    """

    emits: ClassVar[str] = "out"

    in1 = InputPort(Any, codec=FirstColumnCodec())
    in2 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in3 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in4 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    in5 = InputPort(Any, codec=FirstColumnCodec(), optional=True)
    out = OutputPort[T](Any)

    schema: SchemaType[T]

    newest = KeyedState(tuple)  # the values of each key, in the order of the schema's columns after the first

    def _note(self, port: str, batch: pa.RecordBatch) -> None:
        """Merge the newest row of each key in a batch of `port` into `newest`.

        Raises SchemaError for a column that the output lacks.
        """
        check_width(batch, 2, None, "ConsolidatorKeyVal")
        columns = self.output_schema().names[1:]
        unknown = [name for name in batch.schema.names[1:] if name not in columns]
        if unknown:
            found = f"got a `schema` with the values {columns}"
            raise SchemaError(
                f"column `{unknown[0]}` of port `{port}` has no place in the output; {found}; "
                "add it, or rename it before"
            )
        keys, index = distinct(batch.column(0))
        self.refuse_strays(keys)
        last = batch.take(pa.array(last_rows(index, len(keys))))
        places = [columns.index(name) for name in batch.schema.names[1:]]
        rows = zip(*(column.to_pylist() for column in last.columns[1:]), strict=True)
        nothing, joined = (None,) * len(columns), []
        for key, row in zip(keys.to_pylist(), rows, strict=True):
            values = list(self.newest.get(key, nothing))
            for place, value in zip(places, row, strict=True):
                values[place] = value
            self.newest[key] = tuple(values)
            joined.append(values)
        if joined:
            self.check_fit([keys, *map(list, zip(*joined, strict=True))])

    _note_1 = handed_on(in1, _note, "in1")
    _note_2 = handed_on(in2, _note, "in2")
    _note_3 = handed_on(in3, _note, "in3")
    _note_4 = handed_on(in4, _note, "in4")
    _note_5 = handed_on(in5, _note, "in5")

    def end_window(self) -> None:
        """Emit the newest values of the keys that came in the window."""
        self.emit_values(dict(self.newest.changed()))


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
