"""Key-value streams: the common parts of the operators whose names end in `KeyVal`, and of similar ones.

A key-value stream is a stream of any schema whose first column is the key; the columns after it are the
values: `(symbol, price)`, `(symbol, high, low)`. Positions count, names do not. Input ports of these
operators take the schema of their stream; the schema of their output is given to the constructor:
`RangeKeyVal(schema=HighLow)`. Tuples are partitioned by the first column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import localcontext
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import (
    InputPort,
    Operator,
    OutputPort,
    RidgelineError,
    SchemaError,
    SchemaType,
    StreamCodec,
    Unifier,
    stable_hash,
)
from ridgeline.api.codec import hash_column
from ridgeline.api.columns.nulls import NAN
from ridgeline.api.columns.schema import is_named_tuple
from ridgeline.api.columns.struct_types import struct_fields as record_fields
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import shorten
from ridgeline.api.partitioner import assign_keys
from ridgeline.operators._exact import EXACT, Index, Sum, float_sums, rounded
from ridgeline.operators._shaped import GivenSchema, T

Values = npt.NDArray[Any]
_LARGEST = 2**63 - 1


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


def refuse_strays(operator: Operator, hashes: npt.NDArray[Any], key_of: Callable[[int], object]) -> None:
    """Raise RidgelineError if one of these hashes of keys belongs to another partition of the operator.

    `key_of`: the key of the hash at a position.
    """
    partitions, partition = operator.context.partitions, operator.context.partition
    own = next(iter(operator.context.keys.values()), None) or assign_keys(partitions)[partition]
    strays = ~np.isin(hashes & np.uint64(own.mask), np.fromiter(own.keys, np.uint64, len(own.keys)))
    if strays.any():
        key = key_of(int(np.argmax(strays)))
        where = f"partition {partition} of {partitions}, which does not own it"
        remedy = "partition by key: leave out `partitioner` and `partition_parallel`"
        raise RidgelineError(
            f"`{type(operator).__name__}` needs all tuples of a key in one partition; "
            f"got key {key!r} in {where}; {remedy}"
        )


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


def is_number(kind: pa.DataType) -> bool:
    """True of integers, floats, booleans and Decimals."""
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    )


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


def check_columns(batch: pa.RecordBatch, least: int, most: int | None, who: str) -> None:
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


def distinct(column: pa.Array) -> tuple[pa.Array, Index]:
    """Return a column's distinct values, in order of appearance, and for each row the index of its value.

    Null is one of the values. All NaN are one value, and -0.0 equals 0.0.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        zero, nan = pa.scalar(0.0, column.type), pa.scalar(NAN, column.type)
        column = pc.if_else(pc.equal(column, zero), zero, pc.if_else(pc.is_nan(column), nan, column))
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)


def first_rows(index: Index, groups: int) -> Index:
    """The number of the first row of each group."""
    rows = np.empty(groups, np.int64)
    rows[index[::-1]] = np.arange(len(index))[::-1]
    return rows


def last_rows(index: Index, groups: int) -> Index:
    """The number of the last row of each group."""
    rows = np.empty(groups, np.int64)
    rows[index] = np.arange(len(index))
    return rows


def to_values(column: pa.Array, *, narrow: bool = False) -> Values:
    """Return a column without nulls as numpy values: int64, float64, or objects for all other types.

    Integers beyond int64 become objects too. `narrow`: integers keep their types.
    """
    kind = column.type
    if narrow and pa.types.is_integer(kind):
        return column.to_numpy()
    if pa.types.is_floating(kind):
        wide = pa.float64()
    elif pa.types.is_boolean(kind) or (
        pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(column).as_py() or 0) <= _LARGEST)
    ):
        wide = pa.int64()
    else:
        return np.fromiter(column.to_pylist(), dtype=object, count=len(column))
    values: Values = column.cast(wide).to_numpy(zero_copy_only=False)
    return values


def without_nulls(column: pa.Array, index: Index, *, narrow: bool = False) -> tuple[Values, Index]:
    """The values of a column that are not null, as `to_values` has them, and the groups of these rows."""
    if column.null_count:
        there = column.is_valid()
        values = to_values(column.filter(there), narrow=narrow)
        return values, index[there.to_numpy(zero_copy_only=False)]
    return to_values(column, narrow=narrow), index


def sums(column: pa.Array, index: Index, groups: int) -> list[Sum]:
    """The sum of each group, without rounding (see `_exact`); null values are ignored.

    Raises SchemaError for types that cannot be summed.
    """
    if is_number(column.type):
        return value_sums(*without_nulls(column, index), groups)
    raise SchemaError(
        f"values of type {column.type} have no sum; got such a column after the key; put a `Map` before it"
    )


def value_sums(values: Values, index: Index, groups: int) -> list[Sum]:
    """As `sums`, of values as `to_values` returns them."""
    if values.dtype == np.float64:
        return float_sums(values, index, groups)
    if (
        values.dtype == np.int64
        and len(values)
        and len(values) * max(-int(values.min()), int(values.max())) > _LARGEST
    ):
        values = values.astype(object)  # Python's integers do not overflow
    totals = np.zeros(groups, values.dtype)
    with localcontext(EXACT):
        np.add.at(totals, index, values)
    return list(totals.tolist())


def extremes(
    column: pa.Array, index: Index, groups: int, *, highest: bool, counts: Sequence[int] | None = None
) -> list[Any]:
    """The highest (or lowest) value of each group; null values are ignored, and NaN beside a number.

    -0.0 is lower than 0.0, so that the order of values does not matter. None for a group without a value.
    `counts`: how many values that are not null each group has, if it is known. Raises SchemaError for values
    that have no order.
    """
    values, index = without_nulls(column, index, narrow=True)
    there = np.zeros(groups, np.bool_)
    if counts is None:
        there[index] = True
    else:
        there = np.array(counts, np.int64) > 0
    found: Values
    if values.dtype == object:
        found = np.empty(groups, object)
        firsts = first_rows(index, groups)
        found[there] = values[firsts[there]]
    elif values.dtype != np.float64:
        bounds = np.iinfo(values.dtype)
        found = np.full(groups, bounds.min if highest else bounds.max, values.dtype)
    try:
        if values.dtype == np.float64:
            found = _float_extremes(values, index, groups, highest=highest)
        else:
            (np.maximum if highest else np.minimum).at(found, index, values)
    except TypeError as error:
        raise SchemaError(
            f"values of type {column.type} have no highest and no lowest; got such a column after the key; "
            "put a `Map` before it"
        ) from error
    values_found = map(bool, found.tolist()) if pa.types.is_boolean(column.type) else found.tolist()
    return [value if known else None for value, known in zip(values_found, there.tolist(), strict=True)]


def beyond(old: Any, new: Any, *, highest: bool) -> Any:
    """The higher (or lower) of two values; of a number and NaN the number, as in `extremes`."""
    if old is None or old != old:  # noqa: PLR0124  only a NaN differs from itself
        return old if new is None else new
    if new is None or new != new:  # noqa: PLR0124  as above
        return old
    if old == new == 0 and isinstance(new, float):
        return new if (math.copysign(1.0, new) > 0) == highest else old
    return new if (new > old if highest else new < old) else old


def _float_extremes(
    values: npt.NDArray[np.float64], index: Index, groups: int, *, highest: bool
) -> npt.NDArray[np.float64]:
    """As `extremes`: the bits of floats, as integers in the same order, are compared."""
    numbers = ~np.isnan(values)
    bits = values[numbers].view(np.int64)
    ranks = np.where(bits < 0, bits ^ _LARGEST, bits)
    found = np.full(groups, -_LARGEST - 1 if highest else _LARGEST)
    (np.maximum if highest else np.minimum).at(found, index[numbers], ranks)
    extreme = np.where(found < 0, found ^ _LARGEST, found).view(np.float64)  # of no number a NaN
    return np.where(np.isnan(extreme), np.nan, extreme)
