"""Checks of values that Arrow holds and Python changes: keys of maps given twice, times of day beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ridgeline.api.columns.casting import is_list, list_entries, map_entries
from ridgeline.api.columns.nan import NAN

_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def is_checked(kind: pa.DataType) -> bool:
    """True if a type is a map or a time of day, or has one within it."""
    return (
        pa.types.is_time(kind)
        or holds_map(kind)
        or any(is_checked(kind.field(number).type) for number in range(kind.num_fields))
    )


def refuse_changing(array: pa.Array, name: str) -> None:
    """Raise ValueError for a map that has a key twice, and for a time that is not within a day.

    `name`: the column's, for the error.
    """
    if is_checked(array.type):
        refuse_double_keys(array, name)
        _refuse_beyond_day(array, name)


def _refuse_beyond_day(array: pa.Array, name: str) -> None:
    """Raise ValueError for a time in the array, or within its values, that is not within a day."""
    kind: Any = array.type
    if pa.types.is_time(kind):
        numbers = array.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
        bounds = pc.min_max(numbers).as_py()
        day = _DAY[kind.unit]
        for found in bounds.values():
            if found is not None and not 0 <= found < day:
                raise ValueError(f"`{name}` has a time of day that is not within a day: {found} {kind.unit}")
    elif pa.types.is_dictionary(kind):
        _refuse_beyond_day(array.dictionary, name)
    elif pa.types.is_map(kind):
        keys, items, _ = map_entries(array)
        _refuse_beyond_day(keys, f"{name}{{}}")
        _refuse_beyond_day(items, f"{name}{{}}")
    elif is_list(kind):
        _refuse_beyond_day(list_entries(array)[0], f"{name}[]")
    elif pa.types.is_struct(kind):
        for field, part in zip(kind, array.flatten(), strict=True):
            _refuse_beyond_day(part, f"{name}.{field.name}")


def holds_map(kind: pa.DataType) -> bool:
    """True if a type is a map, or has one within it."""
    return pa.types.is_map(kind) or any(
        holds_map(kind.field(number).type) for number in range(kind.num_fields)
    )


def refuse_double_keys(array: pa.Array, name: str) -> None:
    """Raise ValueError for the first map in the array, or within its values, that has a key twice.

    `name`: the column's, for the error. All NaN are one key, and so are 0.0 and -0.0.
    """
    kind: Any = array.type
    if not holds_map(kind) or not len(array):
        return
    if pa.types.is_map(kind):
        keys, items, bounds = map_entries(array)
        place = double_key(keys, bounds)
        if place is not None:
            raise ValueError(f"a map in `{name}` has the key {keys[place].as_py()!r} twice")
        refuse_double_keys(keys, f"{name}{{}}")
        refuse_double_keys(items, f"{name}{{}}")
    elif is_list(kind):
        refuse_double_keys(list_entries(array)[0], f"{name}[]")
    elif pa.types.is_struct(kind):
        for field, part in zip(kind, array.flatten(), strict=True):
            refuse_double_keys(part, f"{name}.{field.name}")


def double_key(keys: pa.Array, bounds: npt.NDArray[np.int64]) -> int | None:
    """The position of a key that its map has twice; None if there is none."""
    if len(bounds) > len(keys):  # with more maps than keys, most have no second one
        longest = int(np.diff(bounds).max(initial=0))
        if longest <= 1:
            return None
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    maps = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    numbers = _numbered(keys)
    both = maps * (int(numbers.max(initial=0)) + 1) + numbers
    order = np.argsort(both)
    same = np.diff(both[order]) == 0
    return int(order[1:][same][0]) if same.any() else None


def _numbered(keys: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each key, the same for equal ones."""
    if pa.types.is_floating(keys.type):
        values = keys.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # -0.0 becomes 0.0
        keys = pa.array(np.where(np.isnan(values), NAN, values))
    try:
        return keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    except pa.ArrowNotImplementedError:  # keys that are nested
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(key), len(known)) for key in keys.to_pylist()], np.int64)
