"""Aggregates of one batch by key and window, vectorised: what `Windowed` then merges into its state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.operators.aggregate import OF_WINDOW, Aggregate, Part
from ridgeline.operators.key_value import distinct, extremes, sums

Index = npt.NDArray[np.int64]


def key_codes(columns: Sequence[pa.Array]) -> tuple[Index, list[tuple[Any, ...]]]:
    """For each row the number of its key, and the keys."""
    codes, keys = np.zeros(len(columns[0]), np.int64), [()]
    for column in columns:
        values, index = distinct(column)
        found, codes = np.unique(codes * len(values) + index, return_inverse=True)
        listed = [math.nan if value != value else value for value in values.to_pylist()]  # noqa: PLR0124  a NaN
        keys = [(*keys[code // len(values)], listed[code % len(values)]) for code in found.tolist()]
    return codes.astype(np.int64), keys


def first_rows(codes: Index, count: int) -> Index:
    """For each of so many keys its first row. `codes`: for each row the number of its key."""
    found = np.zeros(count, np.int64)
    found[codes[::-1]] = np.arange(len(codes))[::-1]
    return found


def parts(
    aggregate: Aggregate, batch: pa.RecordBatch, rows: Index, times: Index, groups: Index, count: int
) -> list[Part]:
    """The part of each group. `rows`: positions in the batch, in the order of their `times`."""
    if aggregate.kind in OF_WINDOW:
        return [None] * count
    if aggregate.column is None:
        return list(np.bincount(groups, minlength=count).tolist())
    column = batch.column(batch.schema.get_field_index(aggregate.column)).take(pa.array(rows))
    valid: npt.NDArray[np.bool_] | None = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        column, groups, times = column.drop_null(), groups[valid], times[valid]
    counts = np.bincount(groups, minlength=count).tolist()
    if aggregate.kind == "count":
        return list(counts)
    if aggregate.kind in ("sum", "mean"):
        totals = sums(column, groups, count)
        if aggregate.kind == "mean":
            totals = list(zip(totals, counts, strict=True))
        return [total if number else None for total, number in zip(totals, counts, strict=True)]
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return _ordered(aggregate.kind, column, times, groups, count)


def _ordered(kind: str, column: pa.Array, times: Index, groups: Index, count: int) -> list[Part]:
    """The least, greatest, first or last value of each group that has one; of the last two with its time."""
    found: list[Part] = [None] * count
    if kind in ("first", "last"):
        places = np.full(count, -1, np.int64)
        order = np.arange(len(groups))
        if kind == "last":
            places[groups] = order
        else:
            places[groups[::-1]] = order[::-1]
        there = np.flatnonzero(places >= 0)
        values = column.take(pa.array(places[there])).to_pylist()
        for group, time, value in zip(there.tolist(), times[places[there]].tolist(), values, strict=True):
            found[group] = time, value
        return found
    return extremes(column, groups, count, highest=kind == "max")


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
