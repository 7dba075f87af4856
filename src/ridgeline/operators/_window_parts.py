"""Keys, runs and columns of batches, vectorised, as windows need them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.operators.key_value import distinct

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
