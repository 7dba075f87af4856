"""Hashes of keys, by which files are sorted: equal for equal keys of a dict, and in every process.

So `1`, `1.0`, `True` and `Decimal(1)` have the same hash, a named tuple has that of the tuple, and datetimes
have that of their instant. Arrays and lists of one plain type are hashed at once; what a key is hashed to
alone is the same.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Keys = Sequence[object] | npt.NDArray[Any]

_MASK = (1 << 64) - 1
SPREAD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: spreads all bits upwards (Knuth, TAOCP 6.4)
_FRACTION = 0x2545F4914F6CDD1D  # instead of it for what is no whole number
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_EPOCHS = {True: datetime(1970, 1, 1, tzinfo=UTC), False: datetime(1970, 1, 1)}  # noqa: DTZ001  by: aware?


class UnstableKeyError(TypeError):
    """A key that has not the same hash in every process, or that is not equal to itself."""

    def __init__(self, key: object) -> None:
        super().__init__(
            f"a key of type `{type(key).__name__}` has not the same hash in every process; got {key!r}"
        )


def hash_one(key: object) -> int:
    """The hash of a key, of 64 bits. Raises UnstableKeyError if it has none."""
    kind = type(key)
    return (_HASHERS.get(kind) or _learn(kind))(key)  # type: ignore[arg-type]  # classes are hashable


def hash_many(keys: Keys) -> Hashes:
    """The hash of each key. Raises UnstableKeyError if one has none."""
    if isinstance(keys, np.ndarray):
        hashes = _of_array(keys)
        return hash_many(keys.tolist()) if hashes is None else hashes
    kinds = set(map(type, keys))
    hashes = _of_list(keys, kinds.pop()) if len(kinds) == 1 else None
    return np.fromiter(map(hash_one, keys), np.uint64, len(keys)) if hashes is None else hashes


def hash_wanted(keys: Keys) -> Hashes:
    """`hash_many` for keys that are looked for: one that has no hash, so cannot be found, gets any."""
    try:
        return hash_many(keys)
    except UnstableKeyError:
        return np.fromiter(map(_hash_wanted, keys), np.uint64, len(keys))


def _hash_wanted(key: object) -> int:
    try:
        return hash_one(key)
    except UnstableKeyError:
        return 0


# One key ----------------------------------------------------------------------------------------------------


def _whole(key: int) -> int:
    return (key * SPREAD if _LEAST <= key <= _MOST else hash(key) * _FRACTION) & _MASK


def _float(key: float) -> int:
    if key.is_integer():
        return _whole(int(key))
    if key != key:  # noqa: PLR0124  NaN
        raise UnstableKeyError(key)
    return int.from_bytes(struct.pack("<d", key), "little") * _FRACTION & _MASK


def _number(key: Any) -> int:
    """Hash other numbers as the int or float that they equal; else by Python's own hash of numbers."""
    if key != key:  # noqa: PLR0124  NaN
        raise UnstableKeyError(key)
    key = key.real if isinstance(key, complex) and not key.imag else key
    with suppress(OverflowError, TypeError, ValueError):  # infinite, complex
        if int(key) == key:
            return _whole(int(key))
    with suppress(OverflowError, TypeError, ValueError):
        if float(key) == key:
            return _float(float(key))
    return hash(key) * _FRACTION & _MASK


def _bytes(key: bytes) -> int:
    return (zlib.crc32(key) + (len(key) << 32)) * SPREAD & _MASK


def _text(key: str) -> int:
    return _bytes(key.encode("utf-8", "surrogatepass"))


def _duration(key: timedelta) -> int:
    return ((key.days * 86_400 + key.seconds) * 1_000_000 + key.microseconds) * _FRACTION & _MASK


def _instant(key: datetime) -> int:
    unfolded = key.replace(fold=0)  # which equality passes over
    return _duration(unfolded - _EPOCHS[unfolded.utcoffset() is not None])


def _tuple(key: tuple[object, ...]) -> int:
    total = len(key)
    for part in key:
        total = (total ^ hash_one(part)) * SPREAD & _MASK
        total ^= total >> 29
    return total * SPREAD & _MASK


_HASHERS: dict[type, Callable[[Any], int]] = {
    type(None): lambda _: SPREAD,
    bool: _whole,
    int: _whole,
    float: _float,
    str: _text,
    bytes: _bytes,
    datetime: _instant,  # before `date`, which it is a subclass of
    date: lambda key: key.toordinal() * _FRACTION & _MASK,
    timedelta: _duration,
    Decimal: _number,
    Fraction: _number,
    complex: _number,
    UUID: lambda key: _bytes(key.bytes),
    tuple: _tuple,
}
_PLAIN = tuple(_HASHERS)
_SCALARS = (np.bool_, np.integer, np.float16, np.float32, np.float64, np.str_, np.bytes_)


def _unstable(key: object) -> int:
    raise UnstableKeyError(key)


@lru_cache(maxsize=1024)
def _learn(kind: type) -> Callable[[Any], int]:
    """The hasher of a type that is not listed: of its base, if it is equal to what its base is equal to."""
    if issubclass(kind, _SCALARS):
        return lambda scalar: hash_one(scalar.item())
    if base := next((plain for plain in _PLAIN if issubclass(kind, plain)), None):
        return _HASHERS[base] if kind.__eq__ is base.__eq__ else _unstable  # type: ignore[comparison-overlap]
    return _member if issubclass(kind, Enum) and kind.__eq__ is object.__eq__ else _unstable


def _member(key: Enum) -> int:
    return _text(f"{type(key).__qualname__}.{key.name}")


# Many keys --------------------------------------------------------------------------------------------------


def _of_array(keys: npt.NDArray[Any]) -> Hashes | None:
    if keys.dtype.kind in "ib" or (keys.dtype.kind == "u" and (not len(keys) or int(keys.max()) <= _MOST)):
        return keys.astype(np.int64, copy=False).view(np.uint64) * np.uint64(SPREAD)
    return _of_floats(keys.astype(np.float64, copy=False)) if keys.dtype.kind == "f" else None


def _of_floats(keys: npt.NDArray[np.float64]) -> Hashes | None:
    if np.isnan(keys).any():
        return None
    small = np.abs(keys) < -float(_LEAST)
    whole = small & (keys == np.floor(keys))
    if (np.isfinite(keys) & ~small).any():
        return None
    ints = np.where(whole, keys, 0.0).astype(np.int64).view(np.uint64) * np.uint64(SPREAD)
    return np.where(whole, ints, keys.view(np.uint64) * np.uint64(_FRACTION))


def _of_list(keys: Sequence[Any], kind: type) -> Hashes | None:
    """The hashes of keys of exactly one type, if that is one for which it can be done at once."""
    if kind in {int, float, bool}:
        try:
            return _of_array(np.array(keys, {int: np.int64, float: np.float64, bool: np.bool_}[kind]))
        except OverflowError:
            return None
    if kind in {str, bytes}:
        try:
            encoded = list(map(str.encode, keys)) if kind is str else keys
        except UnicodeEncodeError:
            return None
        checks = np.fromiter(map(zlib.crc32, encoded), np.uint64, len(keys))
        lengths = np.fromiter(map(len, encoded), np.uint64, len(keys))
        return (checks + (lengths << np.uint64(32))) * np.uint64(SPREAD)
    if kind is tuple and len(set(map(len, keys))) == 1:
        total = np.full(len(keys), len(keys[0]), np.uint64)
        for part in zip(*keys, strict=True):
            total = (total ^ hash_many(part)) * np.uint64(SPREAD)
            total ^= total >> np.uint64(29)
        return total * np.uint64(SPREAD)
    return None
