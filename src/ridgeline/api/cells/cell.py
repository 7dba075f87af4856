"""Cells: a declared state of one operator instance, as the engine sees it.

The engine calls `begin`, `end`, `changes`, `snapshot`, `apply` and `reset`, and nothing else. A change is a
plain value that can be pickled. A version of a cell is a snapshot and the changes since. A cell that is
restored to a version equals the cell that processed the windows up to there, the order of its items included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias, get_args

from ridgeline.api.cells.per_instance import OWN, PerInstance
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.support.pickling import dumps

Change = tuple[Any, ...]
StateScope: TypeAlias = Literal["application", "window"]
"""How long a state lives: as long as the application, or until its operator's application window ends."""
MISSING: Any = type("Missing", (), {"__repr__": lambda _self: "<missing>", "__bool__": lambda _self: False})()
IMMUTABLE = frozenset(
    {int, float, str, bytes, bool, type(None), datetime, date, time, timedelta, Decimal, complex, frozenset}
)
_EQUAL: object = object.__eq__


class StateCell(ABC):
    """One declared state of one operator partition, as the engine sees it."""

    __slots__ = ()

    @abstractmethod
    def begin(self, application_window: int) -> None:
        """Begin a streaming window of the application window that began with this one.

        Counted are the windows of the run: the numbers that rewinds have left out are not among them.
        """

    @abstractmethod
    def end(self) -> None:
        """End the application window of a state that lives no longer: as `reset`, which is a change."""

    @abstractmethod
    def changes(self) -> Change | None:
        """Return what changed since `begin`, as plain values; None if nothing did."""

    @abstractmethod
    def snapshot(self) -> Change:
        """Return the whole content as one change. `apply` on an empty cell restores it."""

    @abstractmethod
    def apply(self, change: Change) -> None:
        """Apply one change, or a snapshot to an empty cell, made by a cell of the same declaration."""

    @abstractmethod
    def reset(self) -> None:
        """Restore the declared default, as before the first window."""

    def rebind_files(self) -> None:
        """The same content follows from other files: as `reset`, but what is derived from it may stay."""
        self.reset()


class Declaration(PerInstance, ABC):
    """A state that a class body declares; makes the cell of each instance."""

    scope: StateScope = "application"

    @abstractmethod
    def cell(self) -> StateCell:
        """A new cell with the declared default."""

    def make(self, instance: Any) -> StateCell:
        """A new cell for this instance."""
        return self.cell()


def checked_scope(scope: StateScope) -> StateScope:
    """The scope of a declaration. Raises StateError for one that does not exist."""
    if scope not in get_args(StateScope):
        msg = f"the `scope` of a state says how long it lives; got {shorten(scope)}; give "
        raise StateError(msg + " or ".join(f'"{known}"' for known in get_args(StateScope)))
    return scope


def checked_merge(merge: Callable[[Any, Any], Any] | None, scope: StateScope) -> Any:
    """How a declaration merges. Raises StateError for what cannot be called, or another scope."""
    if merge is not None and (scope != "window" or not callable(merge)):
        what = "`merge` makes one value of the values of two slides of an application window"
        msg = f'{what}; got {shorten(merge)} with `scope="{scope}"`; give a function of two values, and '
        raise StateError(msg + '`scope="window"`')
    return merge


def cell_of(operator: object, declaration: Declaration) -> StateCell:
    """The cell of one declared state of one operator instance."""
    cell: StateCell = getattr(operator, OWN + declaration.name)
    return cell


def is_mutable(value: object) -> bool:
    """True if the value, or an item of a tuple, can be changed in place."""
    if type(value) in IMMUTABLE:
        return False
    if isinstance(value, tuple):
        return not IMMUTABLE.issuperset(map(type, value)) and any(map(is_mutable, value))
    return True


def differs(before: object, after: object) -> bool:
    """True if a value has changed, or if the two cannot be compared."""
    try:
        if type(after).__eq__ is not _EQUAL:
            return not bool(before == after)
    except Exception:  # noqa: BLE001, S110  arrays and the like compare item by item
        pass
    try:
        return dumps(before) != dumps(after)
    except Exception:  # noqa: BLE001  if in doubt, it is written
        return True
