"""Keys, runs and columns of batches, vectorised, as windows need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.operators._exact import Index
from ridgeline.operators.key_value import distinct

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


def later(times: Index, others: Index) -> Mask:
    """Which of the times are later than the other ones, row by row."""
    if len(times) and is_constant(times) and is_constant(others):
        return np.broadcast_to(times[0] > others[0], len(times))
    return times > others


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
