"""Hashes of keys, by which files are sorted: the stable hashes, by which tuples are divided, too.

Keys that are equal in a dict have the same one, in every process. So have `1`, `1.0`, `True` and
`Decimal(1)`, or a named tuple and the tuple. Keys of which that is not known have none here. Lists of one
plain type are hashed at once; what a key is hashed to alone is the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.codec import Hashes, hash_column, mix, stable_hash

Keys = Sequence[object] | npt.NDArray[Any]
_PLAIN = (type(None), bool, int, float, str, bytes, datetime, date, Decimal, UUID, tuple)
_SIMPLE = frozenset({bool, int, str, bytes})
"""Types whose values are all equal to themselves, and hashed at once."""
_SCALARS = (np.bool_, np.integer, np.float16, np.float32, np.float64, np.str_, np.bytes_)


class UnstableKeyError(TypeError):
    """A key that has not the same hash in every process, or that is not equal to itself."""

    def __init__(self, key: object) -> None:
        super().__init__(
            f"a key of type `{type(key).__name__}` has not the same hash in every process; got {key!r}"
        )


def hash_one(key: object) -> int:
    """The hash of a key, of 64 bits. Raises UnstableKeyError if it has none."""
    if type(key) not in _SIMPLE:
        _check(key)
    return stable_hash(key)


def hash_many(keys: Keys) -> Hashes:
    """The hash of each key. Raises UnstableKeyError if one has none."""
    if isinstance(keys, np.ndarray):
        if keys.dtype.kind in "iub":
            return hash_column(pa.array(keys.astype(keys.dtype.newbyteorder("="), copy=False)))
        return hash_many(keys.tolist())
    return _hashes(keys, checked=True)


def hash_wanted(keys: Keys) -> Hashes:
    """`wanted_hash` of each key."""
    try:
        return hash_many(keys)
    except UnstableKeyError:
        return np.fromiter(map(wanted_hash, keys), np.uint64, len(keys))


def wanted_hash(key: object) -> int:
    """`hash_one` for a key that is looked for: that of an equal one, and any for one that cannot be found."""
    try:
        return hash_one(key)
    except UnstableKeyError:
        with suppress(TypeError):
            return stable_hash(_in_files(key))
        return 0


def _in_files(key: object) -> object:
    """The key that is equal to it and that may be in files: with the first of an hour that comes twice.

    A number of another type is the plain one that it is equal to.
    """
    if isinstance(key, tuple):
        return tuple(map(_in_files, key))
    if isinstance(key, (Fraction, complex)):
        for plain in (int, float):
            with suppress(OverflowError, ValueError):  # infinite, NaN
                if plain(key.real) == key:
                    return plain(key.real)
    return key.replace(fold=0) if isinstance(key, datetime) else key


def routed(keys: Sequence[Any]) -> Hashes:
    """The stable hashes of keys, by which tuples go to partitions. Raises TypeError for one that has none.

    Keys that are not equal to themselves have one, too.
    """
    return _hashes(keys, checked=False)


def _hashes(keys: Sequence[Any], *, checked: bool) -> Hashes:
    """The stable hash of each key. `checked`: raise UnstableKeyError as `_check`."""
    kinds = set(map(type, keys))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in _SIMPLE:
        try:
            if kind in {str, bytes}:
                texts = map(str.encode, keys) if kind is str else keys
                return mix(np.fromiter(map(zlib.crc32, texts), np.uint64, len(keys)))
            return mix(np.array(keys, np.int64).view(np.uint64))
        except (OverflowError, UnicodeEncodeError):
            pass  # an integer of more than 64 bits, half a character
    elif kind is tuple and len(set(map(len, keys))) == 1 and keys[0]:
        total, *others = (_hashes(part, checked=checked) for part in zip(*keys, strict=True))
        for part in others:
            total = mix(total * np.uint64(31) + part)
        return total
    elif checked:
        for key in keys:
            _check(key)
    return np.fromiter(map(stable_hash, keys), np.uint64, len(keys))


def _check(key: Any) -> None:
    """Raise UnstableKeyError for a key that is equal to others with other hashes, or not to itself."""
    if not _is_stable(type(key)) or key != key:  # type: ignore[arg-type]  # noqa: PLR0124  NaN
        raise UnstableKeyError(key)
    if isinstance(key, tuple):
        for part in key:
            if type(part) not in _SIMPLE:
                _check(part)
    elif isinstance(key, datetime) and key.fold and key.tzinfo:  # another instant, and equal all the same
        raise UnstableKeyError(key)


@lru_cache(maxsize=1024)
def _is_stable(kind: type) -> bool:
    """Whether keys of a type that are equal have one hash: the type, or what compares as that does."""
    if issubclass(kind, _SCALARS):
        return True
    base: Any = next((plain for plain in _PLAIN if issubclass(kind, plain)), object)
    if issubclass(kind, Enum):  # it is hashed by its value, if that is a text or a whole number
        return kind.__eq__ is base.__eq__ and base in {object, int, str}
    return base is not object and kind.__eq__ is base.__eq__
