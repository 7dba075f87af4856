"""Detect changes in place: a digest of plain containers and of users' objects."""

from __future__ import annotations

import array
import hashlib
import itertools
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

from ridgeline.api.cells.cell import IMMUTABLE
from ridgeline.api.operator import Operator

_MOST_NODES = 4_000
_MOST_ITEMS = 128
"""Items of a container that are hashed: the first, the last, and some between."""
_MOST_WALKED = 20_000
"""Beyond this number of items only the first and the last are hashed."""
_MOST_BYTES = 1 << 20
_VALUES: Any = (*IMMUTABLE, UUID, Enum, PurePath, np.generic)
_PLAIN = frozenset({str, bytes, int, float, bool, type(None)})
"""Of these very types most values are: they are recognized at once."""


def fingerprint(value: object) -> bytes:
    """Return a digest of what can change in a value: items, attributes of users' objects, arrays.

    Of large containers it covers the length and some items, of large arrays some values. Of anything else
    (connections, files, locks, iterators, objects of other packages) it covers the type only. It never
    changes the value.
    """
    walk = _Walk()
    walk.add(value)
    return walk.digest()


def changing_fingerprint(value: object) -> bytes | None:
    """Return the `fingerprint` of a value, None if it is the same for ever: all in it is immutable."""
    walk = _Walk()
    walk.add(value)
    return walk.digest() if walk.changes else None


class _Walk:
    """One walk through a value. `changes`: something in it may be another digest later."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._texts: list[str] = []
        self.changes = False
        self._seen: dict[int, Any] = {}
        self._left = _MOST_NODES

    def digest(self) -> bytes:
        self._update(b"")
        return self._hash.digest()

    def add(self, value: object) -> None:
        """Add a value to the digest, and all values in it, each once."""
        kind: Any = type(value)
        self._note(kind.__qualname__)
        if kind in _PLAIN or isinstance(value, _VALUES):
            self._note(_text(value))
            return
        if id(value) in self._seen or self._left <= 0:
            return
        self._seen[id(value)] = value
        self._left -= 1
        self.changes = self.changes or not isinstance(value, (tuple, frozenset))
        if isinstance(value, tuple):
            self._container(value)
        elif isinstance(value, (dict, list, deque)):
            with suppress(RuntimeError):  # a thread changes it just now
                self._container(value)
        elif isinstance(value, (set, frozenset)):
            self._note(f"{len(value)} {hash(frozenset(value))}")
        elif isinstance(value, (bytearray, array.array)):
            self._bytes(memoryview(value).cast("B"))
        elif isinstance(value, np.ndarray):
            self._array(value)
        else:
            self._note(_counter(value))
        if is_users(kind) and not isinstance(value, Operator):
            self.changes = self.changes or hasattr(value, "__dict__")
            for name, part in _attributes(value):
                self.changes = True
                self._note(name)
                self.add(part)

    def _note(self, text: str) -> None:
        self._texts.append(text)

    def _update(self, data: Any) -> None:
        """Add the texts so far to the hash, and these bytes."""
        if self._texts:
            self._hash.update("\0".join([*self._texts, ""]).encode("utf-8", "surrogatepass"))
            self._texts.clear()
        self._hash.update(data)

    def _container(self, value: Any) -> None:
        """Add the length of a container and its items, of a large one some of them."""
        self._note(str(len(value)))
        if isinstance(value, dict):
            for key, item in _some(value, value.items(), lambda: reversed(value.items())):
                self._note(_text(key))
                self.add(item)
        else:
            texts = self._texts
            few = isinstance(value, tuple) and len(value) <= _MOST_ITEMS
            for item in value if few else _some(value, value, lambda: reversed(value)):
                if type(item) in _PLAIN:
                    texts += (type(item).__qualname__, _text(item))
                else:
                    self.add(item)

    def _bytes(self, value: memoryview) -> None:
        self._note(str(len(value)))
        self._update(value if len(value) <= _MOST_BYTES else bytes(value[:: len(value) // _MOST_BYTES + 1]))

    def _array(self, value: np.ndarray[Any, Any]) -> None:
        self._note(f"{value.dtype} {value.shape}")
        flat = value.reshape(-1) if value.flags.c_contiguous else value.flat[:_MOST_BYTES]
        if value.dtype == object:
            self.add(flat[:_MOST_ITEMS].tolist())
        else:
            self._update(flat[:: value.nbytes // _MOST_BYTES + 1].tobytes())


def _some(value: Sized, items: Iterable[object], backwards: Any) -> Iterator[Any]:
    """All items of a small container, a sample of a large one."""
    count = len(value)
    if count <= _MOST_ITEMS:
        yield from list(items)
        return
    yield from list(itertools.islice(items, _MOST_ITEMS // 4))
    yield from list(itertools.islice(backwards(), _MOST_ITEMS // 4))
    if count <= _MOST_WALKED:
        yield from list(itertools.islice(items, 0, None, count // (_MOST_ITEMS // 2)))


def _text(value: object) -> str:
    """A text that differs for different values: `hash` alone is the same for -1 and -2."""
    try:
        return f"{hash(value)} {value & 0xFF if isinstance(value, int) else ''}"
    except Exception:  # noqa: BLE001  whatever a user's class raises
        return type(value).__qualname__


def _counter(value: object) -> str:
    """How far a generator of random numbers is, or a count; empty for anything else."""
    if isinstance(value, random.Random):
        return str(hash(value.getstate()))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    return repr(value) if type(value) is itertools.count else ""


def _attributes(value: object) -> list[tuple[str, Any]]:
    """The attributes of an object by name, read without running code of its class."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        found = {}
    kind: Any = type(value)
    for name in _slots(kind):
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return [(name, part) for name, part in found.items() if isinstance(name, str)]


@lru_cache(maxsize=4096)
def _slots(kind: type) -> list[str]:
    """The names in `__slots__` of a class and of its bases."""
    each = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    return [name for slots in each for name in ((slots,) if isinstance(slots, str) else slots)]


@lru_cache(maxsize=4096)
def is_users(kind: object) -> bool:
    """True if a class comes from the user's modules: not Python's, Ridgeline's or an installed package's."""
    module = kind.__module__
    top = str(module).partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return False
    if top in {"builtins", "ridgeline"}:
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not {"site-packages", "dist-packages"}.intersection(PurePath(file).parts)
