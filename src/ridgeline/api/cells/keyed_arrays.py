"""Conversion of arrays to Python values and back, for the vectorised methods of keyed state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.cells.kind import Kind
from ridgeline.api.columns.casting import to_python
from ridgeline.api.columns.nan import one_nan

Arrays: TypeAlias = "npt.NDArray[Any] | pa.Array[Any] | pa.ChunkedArray[Any] | Iterable[Any]"
"""Keys or values of many rows: a numpy or Arrow array, or any iterable."""
ARRAY_TYPES: dict[Any, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


def listed(values: Arrays) -> Sequence[object]:
    """The Python values of an array or any iterable."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return to_python(values)
    return values if isinstance(values, (list, tuple)) else list(values)


def whole_numbers(values: object) -> npt.NDArray[np.int64] | None:
    """An array of whole numbers that fit into 64 bits as such, None of anything else."""
    if isinstance(values, pa.Array) and pa.types.is_signed_integer(values.type) and not values.null_count:
        values = values.to_numpy(zero_copy_only=False)
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 1:
        return values.astype(np.int64, copy=False)
    return None


def numbers_of(values: object, kind: Any) -> npt.NDArray[Any] | None:
    """An array of values of a kind that numpy has, None of anything else."""
    if kind not in ARRAY_TYPES:
        return None
    if isinstance(values, pa.Array) and not values.null_count and pa.types.is_primitive(values.type):
        values = values.to_numpy(zero_copy_only=False)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype == ARRAY_TYPES[kind]:
        return values
    return whole_numbers(values) if kind is int else None


def listed_keys(keys: Arrays) -> Sequence[Any]:
    """The Python values of an array or iterable of keys; every NaN outside of a tuple becomes `NAN`."""
    if isinstance(keys, np.ndarray):
        plain = keys.dtype.kind in "iubSU" or (keys.dtype.kind == "f" and not np.isnan(keys).any())
    else:
        plain = isinstance(keys, (pa.Array, pa.ChunkedArray)) and (
            pa.types.is_integer(keys.type) or pa.types.is_string(keys.type)
        )
    values = listed(keys)
    return values if plain else one_nan(values, inside=False)


def listed_values(values: Arrays, kind: Kind, keys: Sequence[object]) -> Sequence[Any]:
    """The Python values of an array or any iterable, one for each key.

    Raises StateError for a value that is not of the kind, ValueError if there are not as many as keys.
    """
    typed = isinstance(values, np.ndarray) and values.dtype != object
    times = (
        isinstance(values, np.ndarray) and values.dtype.kind in "mM"
    )  # whose nanoseconds numpy lists as int
    values = list(values) if times else listed(values)
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys but {len(values)} values")
    known = kind.known.issuperset(map(type, values[:1] if typed else values))
    return values if known else list(map(kind.fit, values, keys))


def array_of(values: Sequence[Any], kind: Any) -> npt.NDArray[Any]:
    """Values as an array of the declared kind, if numpy has it.

    Otherwise the array is of the values' own type if all are int, float or bool, else of objects.
    """
    if kind in ARRAY_TYPES:
        return np.array(values, dtype=ARRAY_TYPES[kind])
    kinds = set(map(type, values))
    if len(kinds) == 1 and (only := kinds.pop()) in ARRAY_TYPES:
        with contextlib.suppress(OverflowError):  # an int of more than 64 bits stays a Python object
            return np.array(values, dtype=ARRAY_TYPES[only])
    return np.fromiter(values, dtype=object, count=len(values))
