"""Declared state: what an operator keeps from one window to the next.

All other attributes are dropped when the window ends.

Each declaration is a descriptor. An operator instance holds one `StateCell` for it (see `api/cells/cell.py`).
"""

from __future__ import annotations

import copy
from typing import Any, Generic, TypeVar, overload

from ridgeline.api.cells.cell import (
    IMMUTABLE,
    MISSING,
    Change,
    Declaration,
    StateCell,
    StateScope,
    cell_of,
    checked_scope,
    differs,
    is_mutable,
)
from ridgeline.api.cells.keyed_declaration import KeyedState, StateMoves, checked_moves
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.list_state import ListCell, ListState

__all__ = [
    "ENDED",
    "HELD",
    "METRICS",
    "PLATFORM",
    "WATERMARK",
    "Change",
    "Declaration",
    "KeyedCell",
    "KeyedState",
    "ListCell",
    "ListState",
    "State",
    "StateCell",
    "ValueCell",
    "cell_of",
]

T = TypeVar("T")
WATERMARK = "_watermark"
"""The name under which the watermark of an operator is kept beside its declared states."""
ENDED = "_ended"
"""The name under which it is kept whether `end_of_input` was called."""
METRICS = "_metrics"
"""The name under which the fields that are metrics are kept, between the windows of an application window."""
HELD = "_held"
"""The name under which it is kept what an input has emitted beyond the budget of a window."""
PLATFORM = frozenset({ENDED, HELD, METRICS, WATERMARK})
"""The states that an operator may have without declaring them; (None,) if it has not."""


class State(Declaration[T], Generic[T]):
    """One value that survives windows: `position = State(0)`; read and assign it as an attribute.

    The default is copied. `scope="window"`: the value lives for an application window of its operator, over
    all its streaming windows; then it is the default again. Raises StateError for another scope.

    `moves`: what becomes of the values of all partitions when their number changes. `"same"`: all hold the
    same, such as a table. `"sum"`: they are added, and the first partition has the sum. `"least"` and
    `"greatest"`: all have that one. A function `moves(values, partitions)` returns one for each partition.
    Without it the change is refused. Raises StateError for another way.

    Example:
        >>> from ridgeline import Operator, State
        >>> class Count(Operator):
        ...     position = State(0)
        >>> count = Count()
        >>> count.position += 2
        >>> count.position, Count().position
        (2, 0)
    """

    def __init__(
        self,
        default: T,
        *,
        scope: StateScope = "application",
        moves: StateMoves | None = None,
    ) -> None:
        self.default = default
        self.scope = checked_scope(scope)
        self.moves = checked_moves(moves)

    def cell(self) -> ValueCell:
        """A new cell with the declared default."""
        return ValueCell(self.default)

    @overload  # type: ignore[override]
    def __get__(self, instance: None, owner: type) -> State[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> State[T] | T:
        if instance is None:
            return self
        cell: ValueCell = cell_of(instance, self)  # type: ignore[assignment]
        value: T = cell.get()
        return value

    def __set__(self, instance: object, value: T) -> None:
        cell: ValueCell = cell_of(instance, self)  # type: ignore[assignment]
        cell.set(value)


class ValueCell(StateCell):
    """The cell of `State`."""

    _value: Any
    _set: bool  # True if assigned in this window
    _before: Any  # copy of a mutable value, made when the window first read it
    _fresh: bool  # True if it was the default when the window began
    _ended: bool  # True if the window replaced it by the default

    def __init__(self, default: Any) -> None:
        self._default = default
        self.reset()

    def get(self) -> Any:
        """Return the value. One that can be changed in place is compared with a copy at the window's end."""
        value = self._value
        if type(value) not in IMMUTABLE and self._before is MISSING and not self._set and is_mutable(value):
            self._before = copy.deepcopy(value)
        return value

    def set(self, value: Any) -> None:
        """Assign the value."""
        self._value, self._set = value, True

    def begin(self, application_window: int) -> None:
        """Begin a streaming window."""
        self._fresh = self._ended or (self._fresh and not self._set and self._before is MISSING)
        self._set, self._before, self._ended = False, MISSING, False

    def end(self) -> None:
        """Replace the value by a copy of the default: no change if the window began with the default."""
        fresh = self._fresh
        self.reset()
        self._set, self._fresh, self._ended = not fresh, fresh, True

    def changes(self) -> Change | None:
        """Return the value if it was assigned or changed in place; else None."""
        if self._set or (self._before is not MISSING and differs(self._before, self._value)):
            return self.snapshot()
        return None

    def snapshot(self) -> Change:
        """Return the value as a change."""
        return (self._value,)

    def apply(self, change: Change) -> None:
        """Replace the value by that of a change."""
        self._value = change[0]
        self._set, self._before, self._fresh, self._ended = False, MISSING, False, False

    def reset(self) -> None:
        """Replace the value by a copy of the default."""
        self._value, self._set, self._before = copy.deepcopy(self._default), False, MISSING
        self._fresh, self._ended = True, False
