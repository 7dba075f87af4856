"""What the engine sees of a declared state: a cell for each instance of an operator.

The engine knows cells by this small interface only: `begin`, `changes`, `snapshot`, `apply`, `reset`. A
change is a plain picklable value; a version of a cell is a snapshot and the changes since. A cell that was
brought to a version is the same as the one that lived through the windows, order included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ridgeline.api.per_instance import OWN, PerInstance
from ridgeline.api.pickling import dumps

if TYPE_CHECKING:
    from ridgeline.api.operator import Operator

Change = tuple[Any, ...]
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
        """A streaming window begins; it belongs to the application window that began with this window id."""

    @abstractmethod
    def changes(self) -> Change | None:
        """What changed since `begin`; None if nothing did. Plain values only."""

    @abstractmethod
    def snapshot(self) -> Change:
        """Everything, as one change that `apply` on an empty cell turns into this cell."""

    @abstractmethod
    def apply(self, change: Change) -> None:
        """Add one change (or a snapshot, to an empty cell) made by a cell of the same declaration."""

    @abstractmethod
    def reset(self) -> None:
        """Back to the declared default, as before the first window."""


class Declaration(PerInstance, ABC):
    """A state that a class body declares; makes the cell of each instance."""

    @abstractmethod
    def cell(self) -> StateCell:
        """A new cell with the declared default."""

    def make(self, instance: Any) -> StateCell:
        """A new cell for this instance."""
        return self.cell()


def cell_of(operator: Operator, declaration: Declaration) -> StateCell:
    """The cell of one declared state of one operator instance."""
    cell: StateCell = getattr(operator, OWN + declaration.name)
    return cell


def is_mutable(value: object) -> bool:
    """Whether a value, or an item of a tuple, can change in place."""
    if type(value) in IMMUTABLE:
        return False
    if isinstance(value, tuple):
        return not IMMUTABLE.issuperset(map(type, value)) and any(map(is_mutable, value))
    return True


def differs(before: object, after: object) -> bool:
    """Whether a value is another one than before; True where nobody can tell."""
    try:
        if type(after).__eq__ is not _EQUAL:
            return not bool(before == after)
    except Exception:  # noqa: BLE001, S110  arrays and the like have no one answer
        pass
    try:
        return dumps(before) != dumps(after)
    except Exception:  # noqa: BLE001  when in doubt, it is written
        return True
