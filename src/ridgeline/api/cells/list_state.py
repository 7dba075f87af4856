"""A list that survives windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from types import UnionType
from typing import Any, Generic, TypedDict, Unpack, overload

from typing_extensions import TypeVar

from ridgeline.api.cells.cell import Change, Declaration, Kind, StateCell, StateScope, cell_of, checked_scope
from ridgeline.api.cells.keyed_declaration import MovesTo, StateMoves, checked_key, checked_moves

T = TypeVar("T", default=Any)


class _Options(TypedDict, total=False):
    scope: StateScope
    moves: StateMoves | None
    moves_by: Callable[[Any], Any] | None
    moves_to: MovesTo | None


class ListState(Declaration["ListCell[T]"], Generic[T]):
    """A list that survives windows: `recent = ListState(float)`.

    An append writes only the new items to the checkpoint; any other edit rewrites the list from that place.
    `type` is the items' type; None: any. An item of another type raises StateError at the end of the window.
    `scope="window"`: the list is empty again when the application window of its operator has ended.

    When the number of partitions changes, `moves_by=lambda item: item.symbol` gives each item to the
    partition that gets the tuples with this key. `moves` is as of `State`; it gets lists. Where an item has
    many keys, `moves_to` divides all lists by the partitions that get them, as of `KeyedState`.

    Example:
        >>> from ridgeline import ListState, Operator
        >>> class Remember(Operator):
        ...     recent = ListState(float)
        >>> remember = Remember()
        >>> remember.recent.append(1.5)
        >>> list(remember.recent)
        [1.5]
    """

    @overload
    def __init__(self, type: type[T], **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self, type: UnionType | None = None, **options: Unpack[_Options]) -> None: ...
    def __init__(
        self,
        type: object = None,  # noqa: A002  what it is
        *,
        scope: StateScope = "application",
        moves: StateMoves | None = None,
        moves_by: Callable[[Any], Any] | None = None,
        moves_to: MovesTo | None = None,
    ) -> None:
        self.type = type
        self.scope = checked_scope(scope)
        self.moves = checked_moves(moves)
        self.moves_by = checked_key(moves_by)
        self.moves_to = moves_to

    def cell(self) -> ListCell[T]:
        """A new empty cell."""
        return ListCell(Kind(Any if self.type is None else self.type, self.name))

    def __set__(self, instance: object, value: object) -> None:
        if value is not cell_of(instance, self):  # which `+=` assigns
            what = f"`{type(instance).__name__}.{self.name}`"
            raise AttributeError(f"{what} is list state; use its methods, such as `append` and `clear`")


class ListCell(StateCell, MutableSequence[T]):
    """The value of a `ListState` in one operator: a mutable sequence.

    Items that change in place are not noticed: replace them.

    Example:
        >>> from ridgeline import ListState, Operator
        >>> class Remember(Operator):
        ...     recent = ListState(float)
        >>> recent = Remember().recent
        >>> recent.extend([1.5, 2.5])
        >>> recent[0] = 0.5
        >>> recent == [0.5, 2.5]
        True
    """

    _items: list[T]
    _length: int  # when the window began
    _same: int  # so many first items were not touched since

    def __init__(self, kind: Kind | None = None) -> None:
        self._kind = kind or Kind(Any, "")
        self.reset()

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]

    @overload
    def __setitem__(self, index: int, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: Any, value: Any) -> None:
        self._dirty(index)
        self._items[index] = value

    def __delitem__(self, index: int | slice) -> None:
        self._dirty(index)
        del self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == (other._items if isinstance(other, ListCell) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ListState({len(self._items)} items)"

    def insert(self, index: int, value: T) -> None:
        """Insert before `index`."""
        if index < len(self._items):
            self._dirty(index)
        self._items.insert(index, value)

    def extend(self, values: Iterable[T]) -> None:
        """Append all."""
        self._items.extend(self._items if values is self else values)

    def _dirty(self, index: int | slice) -> None:
        start = index.indices(len(self._items))[0] if isinstance(index, slice) else index
        if isinstance(index, slice) and index.step is not None and index.step < 0:
            start = 0
        self._same = min(self._same, start if start >= 0 else max(0, len(self._items) + start))

    def begin(self, application_window: int) -> None:
        """A streaming window begins."""
        self._same = self._length = len(self._items)

    def end(self) -> None:
        """Drop all items: no change if there was none when the window began."""
        self._items, self._same = [], 0

    def changes(self) -> Change | None:
        """(number of first items that stay, the items from there).

        Raises StateError for an item that is not of the declared type.
        """
        if self._same == self._length == len(self._items):
            return None
        items = self._items[self._same :]
        if not self._kind.known.issuperset(map(type, items)):
            self._items[self._same :] = items = list(map(self._kind.fit, items))
        return (self._same, items)

    def snapshot(self) -> Change:
        """(0, all items)."""
        return (0, list(self._items))

    def apply(self, change: Change) -> None:
        """Replace the items from a position on."""
        same, items = change
        self._items[same:] = items
        self._same = self._length = len(self._items)

    def reset(self) -> None:
        """Back to empty."""
        self._items = []
        self._same = self._length = 0
