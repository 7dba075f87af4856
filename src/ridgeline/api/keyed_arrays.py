"""Between arrays and Python values: what goes into keyed state, and what comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ARRAY_TYPES: dict[Any, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


def listed(values: Any) -> Sequence[Any]:
    """Python values of an array or any iterable."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return list(values.to_pylist())
    return values if isinstance(values, (list, tuple)) else list(values)


def array_of(values: Sequence[Any], kind: Any) -> npt.NDArray[Any]:
    """Values as an array of the declared kind; without one, of their own if all have the same that numpy knows, else of objects."""
    if kind in ARRAY_TYPES:
        return np.array(values, dtype=ARRAY_TYPES[kind])
    kinds = set(map(type, values))
    if len(kinds) == 1 and (only := kinds.pop()) in ARRAY_TYPES:
        with contextlib.suppress(OverflowError):  # an int that needs more than 64 bits stays what it is
            return np.array(values, dtype=ARRAY_TYPES[only])
    return np.fromiter(values, dtype=object, count=len(values))
