"""Changes of a big mapping over an immutable base; together they read as a dict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import compress, islice, repeat
from operator import is_
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ridgeline.api.cells.cell import IMMUTABLE, MISSING, is_mutable
from ridgeline.api.cells.keyed_table import NumberTable, listed, listed_keys, whole_numbers

Mask = npt.NDArray[np.bool_]
_ONE_OF_MANY, _FEW = 10, 1_000
"""To ask a table for one key takes as long as to put so many into the dict; so few keys do not count."""


class KeyedBase(Protocol):
    """An immutable mapping, such as sorted segments in files. Its keys have an order of their own.

    A key of a type that it cannot hold counts as missing.
    """

    def __len__(self) -> int:
        """Number of keys."""

    def __contains__(self, key: object) -> bool:
        """Whether the key is there."""

    def find(self, key: object, default: object) -> object:
        """The value of a key; `default` if it is missing. A mutable value is a new object each time."""

    def has_many(self, keys: Sequence[object] | npt.NDArray[Any]) -> Mask:
        """For each key, whether it is there."""

    def find_many(self, keys: Sequence[object] | npt.NDArray[Any]) -> tuple[Mask, npt.NDArray[Any]]:
        """For each key, whether it is there, and its value.

        Values are int64, float64, bool or objects; those of missing keys are arbitrary.
        """

    def __iter__(self) -> Iterator[Any]:
        """All keys."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All keys and values, in the same order."""


class Overlay(MutableMapping[Any, Any]):
    """A dict of which some items lie in a base: those come first, then all that were set.

    Takes memory only for what is set or removed, and for mutable values that were read. Keys and values set
    by arrays of numbers lie in a table, and the dict is empty. If more is done than to set and to read, all
    of it goes into the dict.
    """

    __slots__ = (
        *("_asked", "_both", "_held", "_rows", "_scattered", "_unknown"),
        *("base", "removed", "table", "values_set"),
    )

    def __init__(self, base: KeyedBase) -> None:
        self.base = base
        self.values_set: dict[object, object] = {}
        """Values set since the base was written, in order."""
        self.removed: dict[object, None] = {}
        """Keys of the base that are not there any more; none of them is in `values_set`."""
        self._both = 0
        """How many keys that were set the base has, too, without those of which that is not known yet."""
        self._unknown: set[object] = set()
        """Keys of `values_set` that were not looked up in the base."""
        self._rows = 0
        """Of how many rows of the table it is known."""
        self._held: dict[object, object] = {}
        """Mutable values of the base that were read."""
        self.table: NumberTable | None = None
        """The keys and values set, in place of `values_set`."""
        self._asked = 0
        """How often the table was asked for one key."""
        self._scattered = False
        """The table was moved into the dict, where all stays from then on."""

    def __getitem__(self, key: object) -> Any:
        value = self.values_set.get(key, MISSING)
        if value is MISSING and (value := self.get(key, MISSING)) is MISSING:
            raise KeyError(key)
        return value

    def get(self, key: object, default: object = None) -> Any:
        """The value of a key. A mutable value is the same object each time until `release`."""
        value = self.values_set.get(key, MISSING)
        if value is not MISSING:
            return value
        if self.table is not None and (value := self._in_table(self.table, key)) is not MISSING:
            return value
        if key in self.removed:
            return default
        value = self.base.find(key, MISSING)
        if value is MISSING:
            return default
        return value if type(value) in IMMUTABLE else self._hold(key, value)

    def _hold(self, key: object, value: object) -> object:
        """Keep a mutable value of the base; return the object that was read first."""
        return (
            self._held.setdefault(key, value) if type(value) not in IMMUTABLE and is_mutable(value) else value
        )

    def __setitem__(self, key: object, value: object) -> None:
        self.scatter()
        if key not in self.values_set:
            self._unknown.add(key)
            self.removed.pop(key, None)
        self.values_set[key] = value

    def __delitem__(self, key: object) -> None:
        self.scatter()
        based = key not in self.removed and key in self.base
        if not based and key not in self.values_set:
            raise KeyError(key)
        self._remove(key, based=based)

    def _remove(self, key: object, *, based: bool) -> None:
        """Remove a key, if it is there. `based`: the base has it."""
        if self.values_set.pop(key, MISSING) is not MISSING:
            self._both -= based and key not in self._unknown
            self._unknown.discard(key)
        if based:
            self.removed[key] = None
        self._held.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return (
            key in self.values_set
            or (self.table is not None and self._in_table(self.table, key) is not MISSING)
            or (key not in self.removed and key in self.base)
        )

    def __len__(self) -> int:
        return len(self.base) - len(self.removed) + self.own_size - self._in_both()

    def __bool__(self) -> bool:
        """Whether there is a key; unlike `len` it looks nothing up in the base."""
        return self.own_size > 0 or len(self.base) > len(self.removed)

    @property
    def own_size(self) -> int:
        """How many values were set since the base was written."""
        return len(self.values_set) if self.table is None else len(self.table)

    def _in_both(self) -> int:
        """How many keys that were set the base has, too; looks up those that came since the last call."""
        new = list(self._unknown) if self.table is None else self.table.keys[self._rows :]
        if len(new):
            self._both += int(np.count_nonzero(self.base.has_many(new)))
            self._unknown.clear()
            self._rows += len(new) if self.table is not None else 0
        return self._both

    def _in_table(self, table: NumberTable, key: object) -> Any:
        """The value of a key in the table; `MISSING` if there is none.

        A dict is quicker for one key. If many are asked for so, all goes into the dict.
        """
        self._asked += 1
        if self._asked * _ONE_OF_MANY > len(table) + _FEW:
            self.scatter()
            return self.values_set.get(key, MISSING)
        row = table.find_one(key)
        return table.values[row].item() if row >= 0 else MISSING

    def scatter(self) -> None:
        """Have what was set in the dict from now on, not in a table."""
        if self.table is not None:
            self._scattered = True
            self.values_set.update(self.table.as_dict().items())
            self._unknown.update(self.table.keys[self._rows :].tolist())
            self.table = None

    def _gather(self, dtype: np.dtype[Any]) -> NumberTable | None:
        """Have what was set in a table from now on; None if that cannot be, or was so before."""
        if self._scattered or self.removed:
            return None
        keys, values = list(self.values_set), list(self.values_set.values())
        # exact types: a bool in a table of int64 would come out as an int
        kind = {type(dtype.type().item())}
        try:
            self._scattered = not ({int}.issuperset(map(type, keys)) and kind.issuperset(map(type, values)))
            if not self._scattered:
                table = NumberTable(dtype)
                table.set_many(np.array(keys, np.int64), np.array(values, dtype))
                self._both = self._rows = 0  # all its rows are looked up when that is needed
                self._unknown.clear()
                self.values_set.clear()
                self.table = table
        except OverflowError:
            self._scattered = True
        return self.table

    def __iter__(self) -> Iterator[Any]:
        self.scatter()
        before, own = len(self), self.values_set.copy()
        yield from (key for key in self.base if key not in own and key not in self.removed)
        yield from own
        self._refuse_new_size(before)

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]  # nobody needs the set operations of a view
        """Keys and values: those that only the base has, then those that were set."""
        self.scatter()
        before, own, now, removed = len(self), self.values_set.copy(), self.values_set, self.removed
        for key, value in self.base.items():
            found = now.get(key, MISSING)
            if found is not MISSING:
                if key not in own:  # it was set meanwhile
                    yield key, found
            elif key not in removed:
                yield key, value if type(value) in IMMUTABLE else self._hold(key, value)
        for key, value in own.items():
            yield key, now.get(key, value)
        self._refuse_new_size(before)

    def _refuse_new_size(self, before: int) -> None:
        if len(self) != before:
            raise RuntimeError("keyed state changed size during iteration")

    def update(self, pairs: Mapping[object, object]) -> None:  # type: ignore[override]  # of what a mapping's may take, what cells use
        """Set the values of many keys."""
        self.set_many(pairs.keys(), pairs.values())

    def set_many(self, keys: Collection[object], values: Iterable[Any]) -> None:
        """Set the values of many keys; of equal keys the last wins."""
        self.scatter()
        own, before = self.values_set, len(self.values_set)
        own.update(zip(keys, values, strict=True))
        self._unknown.update(islice(reversed(own), len(own) - before))  # new keys come last
        for key in keys if self.removed else ():
            self.removed.pop(key, None)

    def set_arrays(self, keys: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> bool:
        """As `set_many`, in a table; False if there is none, and cannot be: nothing is set then."""
        table = self._gather(values.dtype) if self.table is None else self.table
        if table is None or table.dtype != values.dtype:
            return False
        table.set_many(keys, values)
        return True

    def remove_many(self, keys: Sequence[object]) -> None:
        """Remove those of the keys that are there."""
        self.scatter()
        for key, based in zip(keys, self.base.has_many(keys).tolist(), strict=True):
            self._remove(key, based=based)

    def find_all(self, keys: Sequence[object]) -> list[Any]:
        """The values of many keys; `MISSING` for a missing key."""
        if self.table is None:
            values = list(map(self.values_set.get, keys, repeat(MISSING)))
        else:
            rows, set_ = self.table.find_all(keys), self.table.values
            values = [set_[row].item() if row >= 0 else MISSING for row in rows.tolist()]
        places = [
            place
            for place, value in enumerate(values)
            if value is MISSING and keys[place] not in self.removed
        ]
        asked = [keys[place] for place in places]
        there, array = self.base.find_many(asked)
        found = array.tolist()
        if not IMMUTABLE.issuperset(map(type, found)):
            found = list(map(self._hold, asked, found))
        for place, value in compress(zip(places, found, strict=True), there.tolist()):
            values[place] = value
        return values

    def get_array(self, keys: Any, default: Any, dtype: Any) -> npt.NDArray[Any]:
        """The values of many keys as an array of numbers; `default` for a missing key."""
        numbers = whole_numbers(keys)
        names: Any = listed_keys(keys) if numbers is None else numbers
        values = np.full(len(names), default, dtype)
        below, own = self._set_here(names, dtype)
        values[~below] = own
        if self.removed:
            below &= ~np.fromiter(map(self.removed.__contains__, listed(names)), np.bool_, len(names))
        places = np.flatnonzero(below)
        if len(places):
            array = numbers if numbers is not None else keys
            there, found = self.base.find_many(
                array[places] if isinstance(array, np.ndarray) else [names[one] for one in places.tolist()]
            )
            values[places[there]] = found[there]
        return values

    def _set_here(self, names: Any, dtype: Any) -> tuple[Mask, Any]:
        """Which of some keys are not set, and the values of the others."""
        if self.table is not None and self.table.dtype == dtype:
            by_array = isinstance(names, np.ndarray)
            rows = self.table.look_up(names) if by_array else self.table.find_all(names)
            return rows < 0, self.table.values[rows[rows >= 0]]
        self.scatter()
        if not self.values_set:
            return np.ones(len(names), np.bool_), ()
        found = list(map(self.values_set.get, listed(names), repeat(MISSING)))
        below = np.fromiter(map(is_, found, repeat(MISSING)), np.bool_, len(found))
        return below, [value for value in found if value is not MISSING]

    def release(self) -> None:
        """Drop the mutable values that were read; the caller has set those that changed."""
        self._held.clear()
