"""Declared state: what an operator keeps from one window to the next. Everything else is forgotten when the window ends.

Each declaration is a descriptor; an operator instance holds one `StateCell` for it. The engine knows cells by this small interface
only: `begin`, `changes`, `snapshot`, `apply`, `reset`. A change is a plain picklable value; a version of a cell is a snapshot and the
changes since. A cell that was brought to a version is the same as the one that lived through the windows, order included.
"""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.pickling import dumps

if TYPE_CHECKING:
    from ridgeline.api.operator import Operator

T = TypeVar("T")
Change = tuple[Any, ...]
_MISSING: Any = type("Missing", (), {"__repr__": lambda _self: "<missing>", "__bool__": lambda _self: False})()
_IMMUTABLE = frozenset({int, float, str, bytes, bool, type(None), datetime, date, time, timedelta, Decimal, complex, frozenset})
_EQUAL: Any = object.__eq__
_ARRAY_TYPES: dict[Any, Any] = {int: np.int64, float: np.float64, bool: np.bool_}


def _is_mutable(value: Any) -> bool:
    if type(value) in _IMMUTABLE:
        return False
    return any(map(_is_mutable, value)) if isinstance(value, tuple) else True


def _differs(before: Any, after: Any) -> bool:
    try:
        if type(after).__eq__ is not _EQUAL:
            return not bool(before == after)
    except Exception:  # noqa: BLE001, S110  arrays and the like have no one answer
        pass
    try:
        return dumps(before) != dumps(after)
    except Exception:  # noqa: BLE001  when in doubt, it is written
        return True


class StateCell(ABC):
    """One declared state of one operator partition, as the engine sees it."""

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


class Declaration(ABC):
    """A state that a class body declares; makes the cell of each instance."""

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @abstractmethod
    def cell(self) -> StateCell:
        """A new cell with the declared default."""


def cell_of(operator: Operator, declaration: Declaration) -> StateCell:
    """The cell of one declared state of one operator instance."""
    cells: dict[str, StateCell] = operator.__dict__.setdefault("_cells", {})
    if declaration.name not in cells:
        cells[declaration.name] = declaration.cell()
    return cells[declaration.name]


class State(Declaration, Generic[T]):
    """One value that survives windows: `position = State(0)`; read and assign it as an attribute. The default is copied."""

    def __init__(self, default: T) -> None:
        self.default = default

    def cell(self) -> ValueCell:
        """A new cell with the declared default."""
        return ValueCell(self.default)

    @overload
    def __get__(self, instance: None, owner: type) -> State[T]: ...
    @overload
    def __get__(self, instance: Operator, owner: type) -> T: ...
    def __get__(self, instance: Operator | None, owner: type) -> State[T] | T:
        if instance is None:
            return self
        cell: ValueCell = cell_of(instance, self)  # type: ignore[assignment]
        value: T = cell.get()
        return value

    def __set__(self, instance: Operator, value: T) -> None:
        cell: ValueCell = cell_of(instance, self)  # type: ignore[assignment]
        cell.set(value)


class ValueCell(StateCell):
    """The cell of `State`."""

    _value: Any
    _set: bool  # assigned in this window
    _before: Any  # a value that can change in place, as it was when the window first read it

    def __init__(self, default: Any) -> None:
        self._default = default
        self.reset()

    def get(self) -> Any:
        """The value; if it can be changed in place, it is compared at the window's end."""
        if self._before is _MISSING and not self._set and _is_mutable(self._value):
            self._before = copy.deepcopy(self._value)
        return self._value

    def set(self, value: Any) -> None:
        """Assign the value."""
        self._value, self._set = value, True

    def begin(self, application_window: int) -> None:
        """A streaming window begins."""
        self._set, self._before = False, _MISSING

    def changes(self) -> Change | None:
        """The value, if it was assigned or changed in place."""
        if self._set or (self._before is not _MISSING and _differs(self._before, self._value)):
            return self.snapshot()
        return None

    def snapshot(self) -> Change:
        """The value."""
        return (self._value,)

    def apply(self, change: Change) -> None:
        """Take the value."""
        self._value = change[0]
        self._set, self._before = False, _MISSING

    def reset(self) -> None:
        """Back to a copy of the default."""
        self._value, self._set, self._before = copy.deepcopy(self._default), False, _MISSING


class KeyedState(Declaration, Generic[T]):
    """A value per key: `totals = KeyedState(int, default=0)`; a mutable mapping, split by key when the operator is repartitioned.

    `type` is the values' type. `default` (a value, copied, or a callable without arguments) is what a missing key starts from.
    """

    def __init__(self, type: type[T], *, default: T | Callable[[], T] = _MISSING) -> None:  # noqa: A002  what it is
        self.type = type
        self.default = default

    def cell(self) -> KeyedCell[T]:
        """A new cell without keys."""
        return KeyedCell(self.type, self.default)

    @overload
    def __get__(self, instance: None, owner: type) -> KeyedState[T]: ...
    @overload
    def __get__(self, instance: Operator, owner: type) -> KeyedCell[T]: ...
    def __get__(self, instance: Operator | None, owner: type) -> KeyedState[T] | KeyedCell[T]:
        return self if instance is None else cell_of(instance, self)  # type: ignore[return-value]

    def __set__(self, instance: Operator, value: object) -> None:
        if value is not cell_of(instance, self):  # which `|=` assigns
            msg = f"`{type(instance).__name__}.{self.name}` is keyed state; assign to its keys, or `clear()` it"
            raise AttributeError(msg)


class KeyedCell(StateCell, MutableMapping[Any, T]):
    """The cell of `KeyedState`: a mapping that knows what the window changed, with a vectorised side.

    Arrays: keys and values go in as numpy arrays, Arrow arrays or sequences and come out as numpy arrays
    (int64, float64, bool for those value types; objects otherwise).
    """

    _data: dict[Any, Any]
    _application_window: int
    _touched: dict[Any, None]  # keys set or removed in this streaming window, in order
    _removed: dict[Any, None]  # keys that it removed, even if they came back
    _changed: dict[Any, None]  # the keys of the streaming windows before, within the application window
    _watched: dict[Any, Any]  # values that can change in place and were read, as they were

    def __init__(self, kind: Any, default: Any) -> None:
        self._kind = kind
        self._default = default
        self.reset()

    def __getitem__(self, key: Any) -> T:
        value = self._data.get(key, _MISSING)
        if value is _MISSING:
            value = self._missing(key)
        elif type(value) not in _IMMUTABLE and key not in self._touched and key not in self._watched and _is_mutable(value):
            self._watched[key] = copy.deepcopy(value)
        found: T = value
        return found

    def __setitem__(self, key: Any, value: T) -> None:
        if key in self._removed and key not in self._data:
            self._touched.pop(key, None)  # it comes back as the last one
        self._data[key] = value
        self._touched[key] = None

    def __delitem__(self, key: Any) -> None:
        del self._data[key]
        self._watched.pop(key, None)
        self._touched[key] = self._removed[key] = None

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __repr__(self) -> str:
        return f"KeyedState({len(self._data)} keys)"

    def _missing(self, key: Any) -> Any:
        if self._default is _MISSING:
            raise KeyError(key)
        value = self._default() if callable(self._default) else self._default
        if _is_mutable(value):
            value = self[key] = copy.deepcopy(value)
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key; `default` if there is none (never the declared default)."""
        return self[key] if key in self._data else default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of a key, which is set to `default` (never the declared one) if there is none."""
        if key not in self._data:
            self[key] = default
        return self[key]

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Remove a key; its value, `default` (never the declared one) if there is none. Raises KeyError without either."""
        if key not in self._data:
            if default is _MISSING:
                raise KeyError(key)
            return default
        value = self._data[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Forget all keys."""
        self._touched.update(dict.fromkeys(self._data))
        self._removed.update(dict.fromkeys(self._data))
        self._data.clear()
        self._watched.clear()

    def changed(self) -> Iterator[tuple[Any, T]]:
        """Keys and values that this window (the application window, if the operator has one) set or changed and did not remove."""
        self._settle()
        return iter([(key, self._data[key]) for key in (self._changed | self._touched) if key in self._data])

    def get_many(self, keys: Any) -> npt.NDArray[Any]:
        """The values of many keys, as one array. Raises KeyError for a missing key if no default was declared."""
        listed, data = _listed(keys), self._data
        if self._kind in _ARRAY_TYPES and self._default is not _MISSING:
            default = self._default() if callable(self._default) else self._default
            return np.array([data.get(key, default) for key in listed], dtype=_ARRAY_TYPES[self._kind])
        return _array([self[key] for key in listed], self._kind)

    def put_many(self, keys: Any, values: Any) -> None:
        """Set the values of many keys; later ones win. Raises ValueError if the lengths differ."""
        listed, new = _listed(keys), _listed(values)
        if len(listed) != len(new):
            msg = f"{len(listed)} keys but {len(new)} values"
            raise ValueError(msg)
        if self._removed:
            self.update(zip(listed, new, strict=True))
            return
        self._data.update(zip(listed, new, strict=True))
        self._touched.update(dict.fromkeys(listed))

    def changed_arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """`changed()` as an array of keys and an array of values."""
        pairs = list(self.changed())
        return _array([key for key, _ in pairs], None), _array([value for _, value in pairs], self._kind)

    # The engine's side ---------------------------------------------------------------------------------------------

    def begin(self, application_window: int) -> None:
        """A streaming window begins."""
        self._changed = self._changed | self._in_order() if application_window == self._application_window else {}
        self._start(application_window)

    def changes(self) -> Change | None:
        """(full=False, application window, new values by key, keys to remove before they are set)."""
        self._settle()
        if not self._touched:
            return None
        data = self._data
        upserts = {key: data[key] for key in self._touched if key in data}
        return (False, self._application_window, upserts, list(self._removed))

    def snapshot(self) -> Change:
        """(full=True, application window, all values by key, keys that it changed so far)."""
        self._settle()
        return (True, self._application_window, dict(self._data), list(self._changed | self._in_order()))

    def apply(self, change: Change) -> None:
        """Add a snapshot's or a window's values."""
        full, application_window, values, keys = change
        if full:
            self._data, self._changed = dict(values), dict.fromkeys(keys)
        else:
            before = self._changed | self._in_order()  # the latter: of the last window, if this very cell ran it
            for key in keys:
                self._data.pop(key, None)
            self._data.update(values)
            touched = dict.fromkeys([*values, *keys])
            self._changed = before | touched if application_window == self._application_window else touched
        self._start(application_window)

    def reset(self) -> None:
        """Back to no keys."""
        self._data, self._changed = {}, {}
        self._start(-1)

    def _start(self, application_window: int) -> None:
        self._application_window = application_window
        self._touched, self._removed, self._watched = {}, {}, {}

    def _in_order(self) -> dict[Any, None]:
        """The keys that this streaming window set, then those that it removed: as `apply` finds them in its changes."""
        return dict.fromkeys([*(key for key in self._touched if key in self._data), *self._removed])

    def _settle(self) -> None:
        for key, before in self._watched.items():
            if key not in self._touched and _differs(before, self._data[key]):
                self._touched[key] = None


class ListState(Declaration, Generic[T]):
    """A list that survives windows: `recent = ListState(float)`; what is appended costs only itself, other edits rewrite it from there."""

    def __init__(self, type: type[T] | None = None) -> None:  # noqa: A002  what it is
        self.type = type

    def cell(self) -> ListCell[T]:
        """A new empty cell."""
        return ListCell()

    @overload
    def __get__(self, instance: None, owner: type) -> ListState[T]: ...
    @overload
    def __get__(self, instance: Operator, owner: type) -> ListCell[T]: ...
    def __get__(self, instance: Operator | None, owner: type) -> ListState[T] | ListCell[T]:
        return self if instance is None else cell_of(instance, self)  # type: ignore[return-value]

    def __set__(self, instance: Operator, value: object) -> None:
        if value is not cell_of(instance, self):  # which `+=` assigns
            msg = f"`{type(instance).__name__}.{self.name}` is list state; use its methods, such as `append` and `clear`"
            raise AttributeError(msg)


class ListCell(StateCell, MutableSequence[T]):
    """The cell of `ListState`. Items that change in place are not noticed: replace them."""

    _items: list[Any]
    _length: int  # when the window began
    _same: int  # so many first items were not touched since

    def __init__(self) -> None:
        self.reset()

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]

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

    def changes(self) -> Change | None:
        """(number of first items that stay, the items from there)."""
        if self._same == self._length == len(self._items):
            return None
        return (self._same, self._items[self._same :])

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


def _listed(values: Any) -> Sequence[Any]:
    """Python values of an array or any iterable."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return list(values.to_pylist())
    return values if isinstance(values, (list, tuple)) else list(values)


def _array(values: list[Any], kind: Any) -> npt.NDArray[Any]:
    if kind in _ARRAY_TYPES:
        return np.array(values, dtype=_ARRAY_TYPES[kind])
    kinds = set(map(type, values))
    if len(kinds) == 1 and (only := kinds.pop()) in _ARRAY_TYPES:
        with contextlib.suppress(OverflowError):  # an int that needs more than 64 bits stays what it is
            return np.array(values, dtype=_ARRAY_TYPES[only])
    return np.fromiter(values, dtype=object, count=len(values))
