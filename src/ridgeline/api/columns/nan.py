"""`NAN`, the one float object for every NaN that is a key: a dict finds a NaN by identity only.

Columns of floats are read from Arrow with it. Keyed state replaces every NaN that is a key by it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NAN = math.nan
"""The object that replaces every NaN."""
_FLOATS = (float, complex, Decimal, np.floating)


def one_nan(values: Sequence[Any], *, inside: bool = True) -> Sequence[object]:
    """Replace every NaN by `NAN`; if `inside`, in tuples too. Returns `values` itself if there is none."""
    kinds = set(map(type, values))
    return (
        list(map(one, values))
        if _may_be_nan(values, kinds) or (inside and _may_hold_nan(values, kinds))
        else values
    )


def one(value: object) -> Any:
    """Replace a NaN, or every NaN in a tuple, by `NAN`."""
    if not _is_odd(value):
        return value
    if not isinstance(value, tuple):
        return NAN
    parts = map(one, value)
    return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)


def odd_tuple(values: Collection[Any]) -> object:
    """The first tuple that contains a NaN other than `NAN`; None if there is none."""
    found = (value for value in values if isinstance(value, tuple) and _is_odd(value))
    return next(found, None) if _may_hold_nan(values, set(map(type, values))) else None


def nan_places(array: pa.Array) -> npt.NDArray[np.int64]:
    """The positions of NaN in an array of floats."""
    if array.null_count:
        array = array.fill_null(0.0)
    return np.flatnonzero(np.isnan(array.to_numpy(zero_copy_only=False)))


def _may_be_nan(values: Iterable[Any], kinds: set[type]) -> bool:
    """False if none of the values, of these types, is a NaN. Some nanoseconds per value."""
    if kinds == {float}:
        total = sum(values)
        return bool(total != total)  # noqa: PLR0124
    return any(issubclass(kind, _FLOATS) for kind in kinds)


def _may_hold_nan(values: Iterable[Any], kinds: set[type]) -> bool:
    """False if none of the values, of these types, is a tuple with a NaN. Some nanoseconds per value."""
    if not any(issubclass(kind, tuple) for kind in kinds):
        return False
    flat = list(
        chain.from_iterable(
            values if kinds == {tuple} else (value for value in values if isinstance(value, tuple))
        )
    )
    inner = set(map(type, flat))
    return _may_be_nan(flat, inner) or _may_hold_nan(flat, inner)


def _is_odd(value: object) -> bool:
    """True for a NaN other than `NAN`, or a tuple that contains one."""
    if isinstance(value, tuple):
        return any(map(_is_odd, value))
    if value is NAN or not isinstance(value, _FLOATS):
        return False
    return value.is_nan() if isinstance(value, Decimal) else bool(value != value)  # noqa: PLR0124
