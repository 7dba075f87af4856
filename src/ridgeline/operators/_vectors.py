"""Keys, groups, runs and columns of batches, vectorised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api import (
    SchemaError,
)
from ridgeline.api.columns.nulls import NAN
from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.operators._exact import EXACT, Index, Sum, float_sums

Mask = npt.NDArray[np.bool_]
_LAST = LATEST - 366 * 86_400_000_000
_FEW = 4_096


def timed(times: Index) -> Mask:
    """The rows with a time, up to a year before the last one: sums with it do not overflow."""
    if len(times) and times.min() >= EARLIEST and times.max() < _LAST:
        return np.ones(len(times), np.bool_)
    return (times >= EARLIEST) & (times < _LAST)


def key_codes(columns: Sequence[pa.Array]) -> tuple[Index, list[tuple[Any, ...]]]:
    """For each row the number of its key, and the keys."""
    if len(columns) == 1 and (quick := whole_codes(columns[0])) is not None:
        return quick
    codes: Index | None = None
    keys: list[tuple[Any, ...]] = [()]
    for column in columns:
        values, index = distinct(column)
        listed = [math.nan if value != value else value for value in values.to_pylist()]  # noqa: PLR0124  a NaN
        if codes is None:
            codes, keys = index, [(value,) for value in listed]
            continue
        found, codes = numbered(codes * len(values) + index, len(keys) * len(values))
        keys = [(*keys[code // len(values)], listed[code % len(values)]) for code in found.tolist()]
    return np.zeros(len(columns[0]), np.int64) if codes is None else codes, keys


def whole_codes(column: pa.Array) -> tuple[Index, list[tuple[Any, ...]]] | None:
    """As `key_codes` of one column of integers; None if it has nulls, or lies too far apart."""
    kind = column.type
    if not pa.types.is_integer(kind) or kind == pa.uint64() or column.null_count or not len(column):
        return None
    values = column.to_numpy()
    least, most = int(values.min()), int(values.max())
    if most - least > 2 * len(values) + 1024:
        return None
    places = np.subtract(values, least, dtype=np.int64)
    there = np.zeros(most - least + 1, np.bool_)
    there[places[:_FEW]] = True
    if not there.all():
        there[places] = True
    found = np.flatnonzero(there)
    # in the order in which they appear, as soon as all have
    firsts, rows = found, _FEW
    while True:
        first = np.full(len(there), len(values), np.int64)
        first[places[:rows][::-1]] = np.arange(min(rows, len(values)))[::-1]
        firsts = first[found]
        if rows >= len(values) or firsts.max() < len(values):
            break
        rows *= 8
    found = found[np.argsort(firsts)]
    numbers = np.empty(len(there), np.int64)
    numbers[found] = np.arange(len(found))
    return numbers[places], [(key,) for key in (found + least).tolist()]


def numbered(codes: Index, limit: int) -> tuple[Index, Index]:
    """The distinct codes, the least first, and for each code its place there. All are from 0 to `limit` - 1.

    As `numpy.unique` does it, without sorting where there are not many more possible codes than there are.
    """
    if limit > 4 * len(codes) + 1024:
        found, places = np.unique(codes, return_inverse=True)
        return found, places.astype(np.int64, copy=False)
    there = np.zeros(limit, np.bool_)
    there[codes] = True
    found = np.flatnonzero(there)
    if len(found) == limit:
        return found, codes
    places = np.cumsum(there) - 1
    return found, places[codes]


def by_time(times: Index) -> Index | None:
    """The rows in the order of their times, those of one time as they came; None if they came so."""
    return None if (times[1:] >= times[:-1]).all() else np.argsort(times, kind="stable")


def few_distinct(values: Index) -> tuple[Index, Index]:
    """As `numpy.unique` with `return_inverse`, of values of which there are few, equal ones in runs."""
    if is_constant(values):  # see `FixedWindows.bounds`
        return values[:1].copy(), np.broadcast_to(np.int64(0), len(values))
    firsts = np.ones(len(values), np.bool_)
    firsts[1:] = values[1:] != values[:-1]
    found = np.unique(values[firsts])
    if len(found) == 1:
        return found, np.broadcast_to(np.int64(0), len(values))
    return found, np.searchsorted(found, values)


def best_rows(groups: Index, column: pa.Array, size: int, *, highest: bool) -> Index:
    """The positions of the `size` rows of each group with the highest (or lowest) values, group by group.

    The best come first, of equal ones the first. A NaN is behind all numbers in both directions.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    table = pa.table({"group": groups, "by": column, "place": np.arange(len(groups))})
    way = "descending" if highest else "ascending"
    keys = [("group", "ascending"), ("by", way), ("place", "ascending")]
    order: Index = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64, copy=False)
    begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ranks = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return order[ranks < size]


def is_constant(values: npt.NDArray[Any]) -> bool:
    """True of an array that is a view of one value."""
    return values.strides == (0,)


def later(times: Index, limit: int) -> Mask:
    """Which of the times are later than one."""
    if len(times) and is_constant(times):
        return np.broadcast_to(times[0] > limit, len(times))
    return times > limit


def runs(codes: Index, times: Index, gap: int) -> tuple[Index, Index]:
    """The rows sorted by key and time, and for each of them its run: rows of a key less than `gap` apart."""
    order = np.lexsort((times, codes))
    keys, sorted_times = codes[order], times[order]
    begins = np.ones(len(order), np.int64)
    begins[1:] = (np.diff(keys) != 0) | (np.diff(sorted_times) >= gap)
    return order, np.cumsum(begins) - 1


def filtered(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows of a batch where the mask says so."""
    return batch if mask.all() else batch.filter(pa.array(mask))


def as_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as a column; timestamps may be microseconds."""
    if pa.types.is_timestamp(kind) and values and isinstance(values[0], int):
        return pc.cast(pa.array(values, pa.int64()), kind)
    return pa.array(values, kind)


Values = npt.NDArray[Any]
_LARGEST = 2**63 - 1


def is_number(kind: pa.DataType) -> bool:
    """True of integers, floats, booleans and Decimals."""
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
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
