"""Checks of operators that the in-process runner makes and Spark's does not, to save time."""

from __future__ import annotations

import hashlib
from threading import get_ident
from typing import Any

import pyarrow as pa

from ridgeline.api.cells.cell import is_mutable
from ridgeline.api.cells.per_instance import PerInstance
from ridgeline.api.columns.dataframes import ArrowStream
from ridgeline.api.errors import RidgelineError, StateError, shorten
from ridgeline.api.operator import Operator
from ridgeline.api.points import OutputPoint, Rows
from ridgeline.engine.operator.instance import Instance, is_hidden
from ridgeline.testing.fingerprint import changing_fingerprint, fingerprint, is_users

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
        self._before = {
            name: (value, changing_fingerprint(value)) for name, value in _held(self._operator).items()
        }

    def begin_again(self) -> None:
        """The operator was torn down and set up: objects that `setup` has made are as they should be."""
        held = _held(self._operator)
        self._before = {
            name: self._before[name]
            if name in self._before and self._before[name][0] is value
            else (value, changing_fingerprint(value))
            for name, value in held.items()
        }

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
    found: dict[str, object] = {}
    for base in reversed(type(operator).__mro__):
        if is_users(base):
            found.update({name: value for name, value in vars(base).items() if not name.startswith("__")})
    found.update(
        {
            name: value
            for name, value in vars(operator).items()
            if not is_hidden(name) and name not in _PLATFORMS
        }
    )
    return {
        name: value
        for name, value in found.items()
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
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).digest()
