"""Checks of operators that the in-process runner makes and Spark's does not, to save time."""

from __future__ import annotations

import array
import copyreg
import hashlib
import io
import itertools
import pickle
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from threading import get_ident
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from ridgeline.api.cells.cell import IMMUTABLE, is_mutable
from ridgeline.api.cells.per_instance import PerInstance
from ridgeline.api.columns.arrow_stream import arrow_stream
from ridgeline.api.columns.dataframes import ArrowStream
from ridgeline.api.errors import RidgelineError, StateError, shorten
from ridgeline.api.operator import Operator
from ridgeline.api.points import OutputPoint, Rows
from ridgeline.engine.operator.instance import Instance, is_hidden

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
    return _Walk(value).digest


def changing_fingerprint(value: object) -> bytes | None:
    """Return the `fingerprint` of a value, None if it is the same for ever: all in it is immutable."""
    walk = _Walk(value)
    return walk.digest if walk.changes else None


class _Walk(pickle.Pickler):
    """One walk through a value. `changes`: something in it may be another digest later.

    Pickle itself writes plain values alone: for all others it has the name of the type and what is inside.
    """

    def __init__(self, value: object) -> None:
        written = io.BytesIO()
        super().__init__(written, 5)
        self.fast = True  # equal texts count, not whether they are one object
        self.changes = False
        self._seen: dict[int, Any] = {}
        self.dump(value)
        self.digest = _hashed(written.getvalue())

    def persistent_id(self, value: Any) -> Any:
        """What stands for a value, with parts that are looked at in turn, each once; None for itself."""
        kind: Any = type(value)
        if kind in _PLAIN:
            return None
        if isinstance(value, _VALUES):
            return kind.__qualname__, _text(value)
        if id(value) in self._seen or len(self._seen) >= _MOST_NODES:
            return kind.__qualname__
        self._seen[id(value)] = value
        self.changes = self.changes or not isinstance(value, (tuple, frozenset))
        parts = [kind.__qualname__]
        with suppress(RuntimeError):  # a thread changes it just now
            parts += _inside(value)
        if is_users(kind) and not isinstance(value, Operator):
            attributes = _attributes(value)
            self.changes = self.changes or bool(attributes) or hasattr(value, "__dict__")
            parts += itertools.chain.from_iterable(attributes)
        return tuple(parts)


def _inside(value: Any) -> list[Any]:  # noqa: PLR0911  a case each
    """What is in a container or an array, of a large one some; how far a generator of numbers is."""
    if isinstance(value, dict):
        pairs = _some(value, value.items(), lambda: reversed(value.items()))
        return [len(value), *itertools.chain.from_iterable(pairs)]
    if isinstance(value, (list, tuple, deque)):
        return [len(value), *_some(value, value, lambda: reversed(value))]
    if isinstance(value, (set, frozenset)):
        return [len(value), hash(frozenset(value))]
    if isinstance(value, (bytearray, array.array)):
        value = np.frombuffer(value, np.uint8)
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1) if value.flags.c_contiguous else value.flat[:_MOST_BYTES]
        few = flat[:_MOST_ITEMS].tolist()
        some = few if value.dtype == object else flat[:: value.nbytes // _MOST_BYTES + 1].tobytes()
        return [str(value.dtype), str(value.shape), some]
    if isinstance(value, random.Random):
        return [hash(value.getstate())]
    if isinstance(value, np.random.Generator):
        return [repr(value.bit_generator.state)]
    return [repr(value)] if type(value) is itertools.count else []


def _hashed(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


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


def _attributes(value: object) -> list[tuple[str, Any]]:
    """The attributes of an object by name, read without running code of its class."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        found = {}
    kind: Any = type(value)
    for name in copyreg._slotnames(kind):  # type: ignore[attr-defined]  # noqa: SLF001
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return [(name, part) for name, part in found.items() if isinstance(name, str)]


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


_MOST_TUPLES = 1_000
"""Mutable tuples that are checked, of one port in one window."""
_PLATFORMS = frozenset({"_given", "_schemas"})


class Inspector:
    """Checks one operator after each window for what a crash would lose and a replay would not repeat.

    It finds three things:
    - changes in place of undeclared values that `__init__`, `setup` or the class made
    - emissions from other threads
    - tuples and batches that changed after they were emitted

    It does not look into values other than plain containers, numpy arrays and objects of the user's classes.
    So it misses changes in files, iterators, closures and objects of other packages. It also misses changes
    in module variables, in the middle of large containers, and those undone before the window ends.
    """

    def __init__(self, instance: Instance) -> None:
        self._operator = instance.operator
        self._points = [_checked(point) for point in instance.outputs.values()]
        self._before: dict[str, tuple[object, bytes | None]] = {}
        self.begin_again()

    def begin_again(self) -> None:
        """The operator was torn down and set up: objects that `setup` has made are as they should be."""
        before, self._before = self._before, {}
        for name, value in _held(self._operator).items():
            same = name in before and before[name][0] is value
            self._before[name] = before[name] if same else (value, changing_fingerprint(value))

    def check(self) -> None:
        """Compare with the last state. Called after each callback that may change things.

        Raises StateError or RidgelineError.
        """
        for point in self._points:
            point.check()
        now = _held(self._operator)
        for name, (value, before) in self._before.items():
            if before is not None and now.get(name) is value and fingerprint(value) != before:
                raise StateError(self._lost(name))

    def _lost(self, name: str) -> str:
        kind = type(self._operator).__name__
        made = "is made again by `setup`, without what windows did to it"
        if name not in vars(self._operator):
            made = "belongs to the class, which each process has for itself and all operators share"
        return (
            f"`{kind}.{name}` was changed in place and the change would be lost in a crash: "
            f"what is not declared {made}; "
            f"declare it, `{name} = State(...)`, `KeyedState(...)` or `ListState(...)`, to keep it, "
            f"or `{name} = Cache(...)` if it may be lost at any time"
        )


def _held(operator: Operator) -> dict[str, object]:
    """The undeclared attributes of an operator and of its user-defined classes."""
    classes = filter(is_users, reversed(type(operator).__mro__))
    shared = [one for base in classes for one in vars(base).items() if not one[0].startswith("__")]
    own = [one for one in vars(operator).items() if not is_hidden(one[0]) and one[0] not in _PLATFORMS]
    return {
        name: value
        for name, value in dict([*shared, *own]).items()
        if not isinstance(value, (PerInstance, type)) and not callable(value)
    }


def _checked(point: OutputPoint) -> CheckedOutput:
    """Turn an output port into one that checks what is emitted."""
    # in place: the operator and its streams hold this very object
    point.__class__ = CheckedOutput
    assert isinstance(point, CheckedOutput)  # noqa: S101  it is now
    point.discard()
    return point


class CheckedOutput(OutputPoint):
    """An output port that remembers the operator's thread and what emitted tuples looked like."""

    def _clear(self) -> None:
        super()._clear()
        self._given: list[tuple[object, bytes]] = []

    def emit(self, value: Any, timestamp: Any = None) -> None:
        """As `OutputPoint.emit`. Raises RidgelineError in another thread than the operator's."""
        self._refuse_others()
        super().emit(value, timestamp)
        if len(self._given) < _MOST_TUPLES and is_mutable(value):
            self._given.append((value, fingerprint(value)))

    def emit_batch(self, batch: pa.RecordBatch | ArrowStream, rows: Rows | None = None) -> None:
        """As `OutputPoint.emit_batch`. Raises RidgelineError in another thread than the operator's."""
        self._refuse_others()
        super().emit_batch(batch, rows)
        if isinstance(batch, pa.RecordBatch):  # a table came here again, as a batch
            self._given.append((batch, _digest(batch)))

    def _refuse_others(self) -> None:
        if get_ident() != self.thread:
            self._refuse()

    def check(self) -> None:
        """Raise RidgelineError for the first tuple or batch that has changed since it was emitted."""
        for value, before in self._given:
            if isinstance(value, pa.RecordBatch):
                if _digest(value) != before:
                    remedy = (
                        "emit a copy (`array.copy()`), "
                        "since Arrow arrays made of numpy arrays share their memory"
                    )
                    what = f"a batch of {value.num_rows} tuples was changed after `{self.name}.emit_batch`"
                    raise RidgelineError(f"{what}, which took its arrays over; {remedy}")
            elif fingerprint(value) != before:
                what = f"a tuple was changed after `{self.name}.emit`, to which it belongs since"
                raise RidgelineError(f"{what}; it is now {shorten(value)}; emit a new one each time")


def _digest(batch: pa.RecordBatch) -> bytes:
    """A digest of all values of a batch, independent of their memory."""
    # through IPC: raw buffers also have padding and the rows around a slice
    return _hashed(arrow_stream([batch]))
