"""A value per key that survives windows: a mapping that costs what a window touches, not what it holds."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from itertools import compress, repeat
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
import typing_extensions

from ridgeline.api.cells.cell import (
    IMMUTABLE,
    MISSING,
    Change,
    Kind,
    StateCell,
    differs,
    is_mutable,
)
from ridgeline.api.cells.keyed_overlay import KeyedBase, Overlay
from ridgeline.api.cells.keyed_table import (
    ARRAY_TYPES,
    Arrays,
    NumberTable,
    array_of,
    listed_keys,
    listed_values,
    numbers_of,
    whole_numbers,
)
from ridgeline.api.columns.nulls import odd_tuple, one, one_nan
from ridgeline.api.errors import StateError, shorten

K = typing_extensions.TypeVar("K", default=Any)
V = typing_extensions.TypeVar("V", default=Any)
D = TypeVar("D")


class Held(NamedTuple):
    """The entries that a keyed cell holds beside its base, to be written as a file of its base.

    The cell's own objects: not to be changed.
    """

    application_window: int
    base: KeyedBase | None
    values: dict[object, object]
    """The entries set since the base was written, in order; all entries if there is no base."""
    removed: dict[object, None]
    """Keys of the base that were removed; none of them is in `values`."""
    changed: list[object]
    """The keys that the application window changed so far, as in a snapshot."""
    table: NumberTable | None = None
    """Instead of `values`, where these are numbers that came in arrays; nothing is removed then."""


class KeyedCell(StateCell, MutableMapping[K, V]):
    """The value of a `KeyedState` in one operator: a mapping that tracks what the window changed.

    `get_many` and `put_many` are vectorised. They take keys and values as numpy arrays, Arrow arrays or
    sequences. They return numpy arrays: int64, float64 or bool for these value types, else of objects.

    Example:
        >>> from ridgeline import KeyedState, Operator
        >>> class Count(Operator):
        ...     totals = KeyedState(int, key=str, default=0)
        >>> totals = Count().totals
        >>> totals.put_many(["a", "b"], [1, 2])
        >>> totals["a"] += 10
        >>> totals.get_many(["a", "b", "c"]).tolist()
        [11, 2, 0]
    """

    __slots__ = (
        "_application_window",
        "_changed",
        "_data",
        "_default",
        "_held",
        "_kind",
        "_known",
        "_own",
        "_plain",
        "_put",
        "_removed",
        "_touched",
        "_watched",
        "stamp",
    )

    _data: dict[Any, Any] | Overlay
    _own: dict[Any, Any]  # where values lie that were set: `_data`, or what lies over its base
    _known: Collection[type]  # of values that may take the short way; none once a window removed or put keys
    _plain: object  # the type of values if none of exactly this type can change in place
    _put: list[tuple[Sequence[Any], Sequence[Any]]] | None  # all that the window set, if by `put_many` alone
    _application_window: int
    _held: bool  # True if it held keys when the window began
    _touched: dict[Any, None]  # keys set or removed in this streaming window, in order
    _removed: dict[Any, None]  # keys that it removed, even if they came back
    _changed: dict[Any, None]  # keys of the streaming windows before, within the same application window
    _watched: dict[Any, Any]  # values that can change in place and were read, as they were
    stamp: object  # another one once entries were changed by others than the operator, or all at once

    def __init__(self, kind: Kind, default: V | Callable[[], V]) -> None:
        self._kind = kind
        self._plain = kind.type if isinstance(kind.type, type) and kind.type in IMMUTABLE else None
        self._default = default
        self.reset()

    def __getitem__(self, key: K) -> V:
        try:  # costs nothing where the key is there, `get` a call
            value = self._own[key]
        except KeyError:
            value = self.get(key, MISSING)
            return self._missing(key) if value is MISSING else value
        if type(value) is not self._plain and type(value) not in IMMUTABLE:
            self._watch(key, value)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value; quicker where the window has set the key before and removed none."""
        if key in self._touched and type(value) in self._known:
            self._own[key] = value
            return
        if type(value) not in self._kind.known:
            value = self._kind.fit(value, key)
        if key != key:  # noqa: PLR0124  a NaN
            key = one(key)
        if self._removed and key in self._removed and key not in self._data:
            self._touched.pop(key, None)  # it comes back as the last one
        self._put, self._known = None, () if self._removed else self._kind.known
        self._data[key] = value
        self._touched[key] = None

    def __delitem__(self, key: K) -> None:
        if key != key:  # noqa: PLR0124  a NaN
            key = one(key)
        self._put, self._known = None, ()
        del self._data[key]
        self._watched.pop(key, None)
        self._touched[key] = self._removed[key] = None

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __iter__(self) -> Iterator[K]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __bool__(self) -> bool:
        return bool(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data or (key != key and one(key) in self._data)  # noqa: PLR0124  a NaN

    def __repr__(self) -> str:
        return f"KeyedState({len(self._data)} keys)"

    def _watch(self, key: K, value: V) -> None:
        """Keep what a value that can change in place was when the window first read it."""
        if key not in self._touched and key not in self._watched and is_mutable(value):
            self._watched[key] = copy.deepcopy(value)

    def _missing(self, key: K) -> V:
        """The value of a key that is not there."""
        if self._default is MISSING:
            raise KeyError(key)
        value = self._default() if callable(self._default) else self._default
        if is_mutable(value):
            # set it: a change in place of a default would be lost with the copy
            value = self[key] = copy.deepcopy(value)
        return value

    @overload
    def get(self, key: K, default: None = None) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D) -> V | D: ...
    def get(self, key: K, default: object = None) -> object:
        """The value of a key; `default` if there is none (never the declared default)."""
        value = self._data.get(key, MISSING)
        if value is MISSING:
            return default if key == key or (same := one(key)) not in self._data else self[same]  # noqa: PLR0124  a NaN
        if type(value) not in IMMUTABLE:
            self._watch(key, value)
        return value

    def setdefault(self, key: K, default: V = None) -> V:  # type: ignore[assignment] # as a dict's
        """The value of a key, which is set to `default` (never the declared one) if there is none."""
        value = self.get(key, MISSING)
        if value is MISSING:
            value = self[key] = default
        return value

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: V | D) -> V | D: ...
    def pop(self, key: K, default: object = MISSING) -> object:
        """Remove a key; its value, `default` (never the declared one) if there is none.

        Raises KeyError without either.
        """
        value = self._data.get(one(key) if key != key else key, MISSING)  # noqa: PLR0124  a NaN
        if value is not MISSING:
            del self[key]
        elif default is MISSING:
            raise KeyError(key)
        else:
            value = default
        return value

    def clear(self) -> None:
        """Forget all keys."""
        self._put, self._known = None, ()
        # by key and not by a mark, as the delta must name what it removes
        keys = dict.fromkeys(self._data)
        self._touched.update(keys)
        self._removed.update(keys)
        self._replace_data({})
        self._watched.clear()

    def items(self) -> ItemsView[K, V]:
        """A view of keys and values, as a dict's."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """A view of the values, as a dict's."""
        return _Values(self)

    def pairs(self) -> Iterator[tuple[K, V]]:
        """Keys and values."""
        for key, value in self._data.items():
            if type(value) not in IMMUTABLE:
                self._watch(key, value)
            yield key, value

    def changed(self) -> Iterator[tuple[K, V]]:
        """Keys and values that this window set or changed and did not remove.

        The window is the application window, if the operator has one.
        """
        return zip(*self._changed_lists(), strict=True)

    def get_many(self, keys: Arrays) -> npt.NDArray[Any]:
        """The values of many keys, as one array.

        Raises KeyError for a missing key if no default was declared.
        """
        kind = self._kind.type
        if kind in ARRAY_TYPES and self._default is not MISSING:
            dtype, default = ARRAY_TYPES[kind], self._default() if callable(self._default) else self._default
            if isinstance(self._data, Overlay):
                return self._data.get_array(keys, default, dtype)
            keys = listed_keys(keys)
            return np.fromiter(map(self._data.get, keys, repeat(default)), dtype, len(keys))
        keys = listed_keys(keys)
        values = self._found(keys)
        for place, value in enumerate(values):
            if value is MISSING:
                values[place] = self[keys[place]]
        return array_of(values, kind)

    def _found(self, keys: Sequence[Any]) -> list[Any]:
        """The values of many keys, `MISSING` where there is none."""
        values = self.peek_many(keys, MISSING)
        if not IMMUTABLE.issuperset(map(type, values)):
            for key, value in zip(keys, values, strict=True):
                # a tuple of plain values, as most are, takes no call
                plain = type(value) is tuple and IMMUTABLE.issuperset(map(type, value))
                if not plain and value is not MISSING:
                    self._watch(key, value)
        return values

    def put_many(self, keys: Arrays, values: Arrays) -> None:
        """Set the values of many keys; later ones win.

        Raises ValueError if the lengths differ, StateError for a value of another type.
        """
        names, numbers = whole_numbers(keys), numbers_of(values, self._kind.type)
        keys = listed_keys(keys)
        values = listed_values(values, self._kind, keys)
        # a removed key that comes back goes last, which only `__setitem__` sees to
        if self._removed:
            self.update(zip(keys, values, strict=True))
            return
        if not isinstance(self._data, Overlay):
            self._data.update(zip(keys, values, strict=True))
        elif names is None or numbers is None or not self._data.set_arrays(names, numbers):
            self._data.set_many(keys, values)
        self._known = ()
        if self._put is not None:
            self._put.append((keys, values))
        if self._touched:
            self._touched.update(dict.fromkeys(keys))
        else:
            self._touched = dict.fromkeys(keys)

    def changed_arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """`changed()` as an array of keys and an array of values."""
        keys, values = self._changed_lists()
        return array_of(keys, None), array_of(values, self._kind.type)

    def _changed_lists(self) -> tuple[list[K], list[V]]:
        self._settle()
        keys = list(self._changed | self._touched)
        values = self._found(keys)
        there = [value is not MISSING for value in values]
        return list(compress(keys, there)), list(compress(values, there))

    def peek_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """The values of many keys, `default` where there is none, to be read only.

        For operators of the library: a change in place of such a value would be lost.
        """
        data = self._data
        if not isinstance(data, Overlay):
            return list(map(data.get, keys, repeat(default)))
        found = data.find_all(keys)
        return [default if value is MISSING else value for value in found]

    # The engine's side --------------------------------------------------------------------------------------

    def begin(self, application_window: int) -> None:
        """A streaming window begins. If it changes nothing, the cell can go back to before it as it is."""
        self._held = bool(self._data)
        self._start(application_window)

    def end(self) -> None:
        """Forget all keys: no change if there was none when the window began."""
        if self._held:
            self.clear()
        else:
            self._replace_data({})
            self._begin_log(self._application_window)

    def changes(self) -> Change | None:
        """(full=False, application window, new values by key, keys to remove before they are set).

        Raises StateError for a bad key.
        """
        self._settle()
        if not self._touched:
            return None
        if (bad := odd_tuple(self._touched)) is not None:
            what = "in which a NaN stands that equals no other; use `math.nan` for it, or None"
            raise StateError(f"{self._kind.state} has the key {shorten(bad)}, {what}")
        upserts: dict[Any, Any] = {}
        if self._put:
            for keys, values in self._put:
                upserts.update(zip(keys, values, strict=True))
        else:
            own = self._own_dict()
            touched = [key for key in self._touched if key in own] if self._removed else self._touched
            upserts = dict(zip(touched, map(own.__getitem__, touched), strict=True))
        return (False, self._application_window, upserts, list(self._removed))

    def snapshot(self) -> Change:
        """(full=True, application window, all values by key, keys that it changed so far)."""
        self._settle()
        return (
            True,
            self._application_window,
            dict(self._data.items()),
            list(self._changed | self._in_order()),
        )

    def apply(self, change: Change) -> None:
        """Add a snapshot's or a window's values."""
        full, application_window, values, keys = change
        names = list(values)
        if (ones := one_nan(names)) is not names:
            values = dict(zip(ones, values.values(), strict=True))
        keys = one_nan(keys)
        if full:
            self._hold(dict(values), keys, application_window)
            return
        self._start(application_window)  # this very cell may have run the window before
        self._remove(keys)
        self._add(values)
        self._changed.update(dict.fromkeys([*values, *keys]) if keys else dict.fromkeys(values))
        self._begin_log(application_window)
        self.stamp = object()

    def _add(self, values: Mapping[Any, Any]) -> None:
        """Set values, as arrays where that can be."""
        if isinstance(self._data, Overlay) and self._kind.type in ARRAY_TYPES:
            with contextlib.suppress(OverflowError):  # whole numbers of more than 64 bits
                arrays = array_of([*values], None), array_of([*values.values()], self._kind.type)
                if arrays[0].dtype == np.int64 and self._data.set_arrays(*arrays):
                    return
        self._data.update(values)

    def _remove(self, keys: Sequence[Any]) -> None:
        """Remove keys, those that are there."""
        if not isinstance(self._data, Overlay):
            for key in keys:
                self._data.pop(key, None)
        elif keys:
            self._data.remove_many(keys)
            if len(self._data.removed) == len(self._data.base):
                self._replace_data(self._data.values_set)

    def attach(
        self,
        base: KeyedBase,
        application_window: int,
        changed: Iterable[Any],
        values: Mapping[Any, Any] | None = None,
        removed: Sequence[Any] = (),
    ) -> None:
        """Fill an empty cell from a base, as a snapshot does.

        `changed`: the keys that the application window changed so far. `removed`: keys of the base that it
        has not, `values`: what it has beside it, set after these were removed.
        """
        data = Overlay(base)
        if removed:
            data.remove_many(one_nan(list(removed)))
        if values:
            data.set_many(one_nan(list(values)), values.values())
        self._hold(data, one_nan(list(changed)), application_window)

    def held(self, *, table: bool = True) -> Held:
        """The entries beside the base. `table`: they may be a table."""
        self._settle()
        changed = list(self._changed | self._in_order())
        data = self._data
        if not isinstance(data, Overlay):
            return Held(self._application_window, None, data, {}, changed)
        if not table:
            data.scatter()
        return Held(self._application_window, data.base, data.values_set, data.removed, changed, data.table)

    def written(self) -> Collection[K]:
        """The keys that this streaming window has set, changed or removed."""
        self._settle()
        return self._touched

    def reset(self) -> None:
        """Back to no keys."""
        self._hold({}, (), -1)

    def _hold(self, data: dict[Any, Any] | Overlay, changed: Iterable[Any], application_window: int) -> None:
        """Hold other entries. `changed`: the keys that the application window changed so far."""
        self._replace_data(data)
        self._changed = dict.fromkeys(changed)
        self._begin_log(application_window)

    def _replace_data(self, data: dict[Any, Any] | Overlay) -> None:
        self._data, self._own = data, data.values_set if isinstance(data, Overlay) else data
        self.stamp = object()

    def _start(self, application_window: int) -> None:
        """The streaming window before has ended, and another one begins."""
        if application_window != self._application_window:
            self._changed = {}
        else:
            self._changed.update(self._in_order())
        self._begin_log(application_window)

    def _begin_log(self, application_window: int) -> None:
        """A streaming window has changed nothing so far."""
        self._application_window = application_window
        self._touched, self._removed, self._watched = {}, {}, {}
        self._known = self._kind.known
        self._put = []
        if isinstance(self._data, Overlay):
            self._data.release()
            if self._data.table is not None:
                self._known = ()

    def _own_dict(self) -> dict[Any, Any]:
        """The entries set, in a dict."""
        if isinstance(self._data, Overlay):
            self._data.scatter()
        return self._own

    def _in_order(self) -> dict[Any, None]:
        """The keys that this streaming window set, then those that it removed: the order of its changes."""
        if not self._removed:
            return self._touched
        own = self._own
        return dict.fromkeys([*(key for key in self._touched if key in own), *self._removed])

    def _settle(self) -> None:
        """Set the values that changed in place."""
        for key, before in self._watched.items():
            if key not in self._touched and differs(before, value := self._data[key]):
                self._data[key] = value
                self._touched[key], self._put = None, None


class _Items(ItemsView[K, V]):
    """A dict's view with the vectorised reads of a base: no lookup for each key."""

    __slots__ = ()
    _mapping: KeyedCell[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.pairs()


class _Values(ValuesView[V]):
    """The values of `_Items`."""

    __slots__ = ()
    _mapping: KeyedCell[Any, V]

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._mapping.pairs())
