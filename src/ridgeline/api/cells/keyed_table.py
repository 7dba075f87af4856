"""A table of numbers by whole number, and arrays to Python values and back, for many keys at once.

A dict would lie scattered over the memory. One of a million keys costs a cache miss for its entry, one for
the key and one for the value. Here they lie in arrays. All that is asked of them is asked for many keys.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.cells.cell import Kind
from ridgeline.api.columns.casting import to_python
from ridgeline.api.columns.nulls import one_nan

Rows = npt.NDArray[np.intp]
"""Where keys are in a table, in the order in which they came; -1: nowhere."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, TAOCP 6.4)
_EMPTY = -1
_LEAST_BITS = 10
_BUCKETS_A_ROW = 2
"""At least; with fewer, searches get long."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class NumberTable:
    """Numbers by int64 keys. Open addressing, searched for many keys in step.

    `dtype`: of the values. Rows of `find` stay as they are.
    """

    __slots__ = ("_bits", "_buckets", "_count", "_found", "_keys", "_values")

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._keys = np.empty(1 << (_LEAST_BITS - 1), np.int64)
        self._values = np.empty(len(self._keys), dtype)
        self._count = 0
        self._found: tuple[npt.NDArray[np.int64], Rows] | None = None
        """Keys that were looked for last, and their rows: the same ones are often set next."""
        self._lay(_LEAST_BITS)

    def _lay(self, bits: int) -> None:
        """Make room for `1 << bits` buckets, and put all rows into them."""
        self._bits = bits
        self._buckets = np.full(1 << bits, _EMPTY, np.int32)
        self._place(self._keys[: self._count], np.arange(self._count))

    def __len__(self) -> int:
        return self._count

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self._values.dtype

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """All keys; a view."""
        return self._keys[: self._count]

    @property
    def values(self) -> npt.NDArray[Any]:
        """The values of `keys`; a view."""
        return self._values[: self._count]

    def _first(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """The buckets where searches for some keys begin."""
        return ((keys.view(np.uint64) * _SPREAD) >> np.uint64(64 - self._bits)).astype(np.intp)

    def find(self, keys: npt.NDArray[np.int64]) -> Rows:
        """The row of each key."""
        rows = self._buckets[buckets := self._first(keys)].astype(np.intp)
        left = np.flatnonzero(rows >= 0)
        left = left[self._keys[rows[left]] != keys[left]]
        last = len(self._buckets) - 1
        while len(left):
            buckets[left] = here = (buckets[left] + 1) & last
            rows[left] = found = self._buckets[here]
            left = left[(found >= 0) & (self._keys[found] != keys[left])]
        return rows

    def find_one(self, key: Any) -> int:
        """The row of a key that may be anything."""
        if type(key) is not int:
            try:
                whole = int(key)
            except (TypeError, ValueError, OverflowError, ArithmeticError):
                return -1
            if whole != key:
                return -1
            key = whole
        if not _LEAST <= key <= _MOST:
            return -1
        return int(self.find(np.array([key], np.int64))[0])

    def find_all(self, keys: Sequence[object]) -> Rows:
        """The row of each key that may be anything."""
        if {int}.issuperset(map(type, keys)):
            try:
                return self.find(np.array(keys, np.int64))
            except OverflowError:
                pass
        return np.fromiter(map(self.find_one, keys), np.intp, len(keys))

    def set_many(self, keys: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> None:
        """Set the values of some keys; of equal keys the last one wins."""
        rows, self._found = self.look_up(keys), None
        if len(new := np.flatnonzero(rows < 0)):
            rows[new] = self._add(keys[new])
        self._values[rows] = values

    def look_up(self, keys: npt.NDArray[np.int64]) -> Rows:
        """As `find`; quick for the keys that were asked for last. Not to be changed."""
        if self._found is None or not np.array_equal(self._found[0], keys):
            self._found = keys.copy(), self.find(keys)
        return self._found[1]

    def _add(self, keys: npt.NDArray[np.int64]) -> Rows:
        """Add rows for keys that have none, and return them; some may be equal."""
        if not (keys[1:] > keys[:-1]).all():
            different, which = np.unique(keys, return_inverse=True)
            return self._append(different)[which]
        return self._append(keys)

    def _append(self, keys: npt.NDArray[np.int64]) -> Rows:
        """Add rows for keys that differ and have none."""
        begin, end = self._count, self._count + len(keys)
        if end > len(self._keys):
            self._grow(end)
        self._keys[begin:end] = keys
        self._count = end
        if end * _BUCKETS_A_ROW > len(self._buckets):
            self._lay((end * _BUCKETS_A_ROW * 2 - 1).bit_length())
        else:
            self._place(keys, np.arange(begin, end))
        return np.arange(begin, end)

    def _grow(self, rows: int) -> None:
        """Make room for so many rows."""
        size = max(rows, 2 * len(self._keys))
        keys, values = np.empty(size, np.int64), np.empty(size, self._values.dtype)
        keys[: self._count], values[: self._count] = self.keys, self.values
        self._keys, self._values = keys, values

    def _place(self, keys: npt.NDArray[np.int64], rows: Rows) -> None:
        """Put rows into the first free buckets of their keys, which differ and are in no bucket."""
        buckets, last = self._first(keys), len(self._buckets) - 1
        while len(rows):
            free = self._buckets[buckets] < 0
            self._buckets[buckets[free]] = rows[free]  # of several the last one
            left = self._buckets[buckets] != rows
            buckets, rows = (buckets[left] + 1) & last, rows[left]

    def as_dict(self) -> dict[int, Any]:
        """All keys and values as Python's objects."""
        return dict(zip(self.keys.tolist(), self.values.tolist(), strict=True))


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
