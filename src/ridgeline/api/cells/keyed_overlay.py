"""Changes of a big mapping over an immutable base; together they read as a dict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import compress, repeat
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
    """An immutable mapping in insertion order, such as sorted segments in files.

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
        """All keys, in the order of insertion."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All keys and values, in the order of insertion."""


class Overlay(MutableMapping[Any, Any]):
    """A dict whose first items lie in a base.

    Takes memory only for what is set or removed, and for mutable values that were read. Keys and values set
    by arrays of numbers lie in a table, and the dict is empty. If more is done than to set and to read, all
    of it goes into the dict.
    """

    __slots__ = (
        "_asked",
        "_held",
        "_in_base",
        "_scattered",
        "_unplaced",
        "_updated",
        "base",
        "removed",
        "table",
        "values_set",
    )

    def __init__(self, base: KeyedBase) -> None:
        self.base = base
        self.values_set: dict[object, object] = {}
        """Values set since the base was written: of new keys, in order, and of keys of the base."""
        self.removed: dict[object, None] = {}
        """Keys of the base that were removed; one that is set again counts as a new key."""
        self._updated: set[object] = set()
        """Set keys that keep their place in the base, without those that `_unplaced` still has."""
        self._unplaced: list[object] = []
        """Set keys that were not yet looked up in the base; may repeat keys, or hold removed ones."""
        self._held: dict[object, object] = {}
        """Mutable values of the base that were read."""
        self.table: NumberTable | None = None
        """The keys and values set, in place of `values_set`."""
        self._in_base = 0, 0
        """Of how many rows of the table it is known whether the base has their keys, and how many it has."""
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
            self._unplaced.append(key)
        self.values_set[key] = value

    def __delitem__(self, key: object) -> None:
        self.scatter()
        based = key not in self.removed and (key in self._updated or key in self.base)
        if key in self.values_set:
            del self.values_set[key]
        elif not based:
            raise KeyError(key)
        if based:
            self.removed[key] = None
        self._updated.discard(key)
        self._held.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return (
            key in self.values_set
            or (self.table is not None and self._in_table(self.table, key) is not MISSING)
            or (key not in self.removed and key in self.base)
        )

    def __len__(self) -> int:
        if self.table is not None:
            return len(self.base) + self.own_size - self._updated_rows()
        return len(self.base) - len(self.removed) + len(self.values_set) - len(self.updated)

    def __bool__(self) -> bool:
        """Whether there is a key; unlike `len` it looks nothing up in the base."""
        return self.own_size > 0 or len(self.base) > len(self.removed)

    @property
    def own_size(self) -> int:
        """How many values were set since the base was written."""
        return len(self.values_set) if self.table is None else len(self.table)

    def _updated_rows(self) -> int:
        """How many keys of the table the base has; looks up those that came since the last call."""
        assert self.table is not None  # noqa: S101  the caller has looked
        known, there = self._in_base
        if known < len(self.table):
            there += int(np.count_nonzero(self.base.has_many(self.table.keys[known:])))
            self._in_base = len(self.table), there
        return there

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
            self._unplaced += self.values_set
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
                self.table, self._in_base = NumberTable(dtype), (0, 0)
                self.table.set_many(np.array(keys, np.int64), np.array(values, dtype))
        except OverflowError:
            self.table, self._scattered = None, True
        if self.table is None:
            return None
        for mine in (self.values_set, self._unplaced, self._updated):
            mine.clear()
        return self.table

    def __iter__(self) -> Iterator[Any]:
        self.scatter()
        before, updated = len(self), self.updated
        for key in self.base:
            if key not in self.removed:
                yield key
        yield from [key for key in self.values_set if key not in updated]
        self._refuse_new_size(before)

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]  # nobody needs the set operations of a view
        """Keys and values, in the order of insertion."""
        self.scatter()
        before, updated = len(self), self.updated
        for key, value in self.base.items():
            if key in updated:
                yield key, self.values_set[key]
            elif key not in self.removed:
                yield key, self._hold(key, value)
        yield from [(key, value) for key, value in self.values_set.items() if key not in updated]
        self._refuse_new_size(before)

    def _refuse_new_size(self, before: int) -> None:
        if len(self) != before:
            raise RuntimeError("keyed state changed size during iteration")

    @property
    def updated(self) -> set[object]:
        """The set keys that keep their place in the base; looks up those set since the last call."""
        if self._unplaced:
            there, placed, removed = self.values_set, self._updated, self.removed
            keys = [
                key
                for key in set(self._unplaced)
                if key in there and key not in placed and key not in removed
            ]
            placed.update(compress(keys, self.base.has_many(keys)))
            self._unplaced.clear()
        return self._updated

    def update(self, pairs: Mapping[object, object]) -> None:  # type: ignore[override]  # of what a mapping's may take, what cells use
        """Set the values of many keys."""
        self.scatter()
        self.values_set.update(pairs)
        self._note_unplaced(pairs)

    def set_many(self, keys: Sequence[object], values: Iterable[Any]) -> None:
        """Set the values of many keys; of equal keys the last wins."""
        self.scatter()
        self.values_set.update(zip(keys, values, strict=True))
        self._note_unplaced(keys)

    def set_arrays(self, keys: npt.NDArray[np.int64], values: npt.NDArray[Any]) -> bool:
        """As `set_many`, in a table; False if there is none, and cannot be: nothing is set then."""
        table = self._gather(values.dtype) if self.table is None else self.table
        if table is None or table.dtype != values.dtype:
            return False
        table.set_many(keys, values)
        return True

    def _note_unplaced(self, keys: Iterable[object]) -> None:
        """Add keys to `_unplaced`; drop repetitions when it gets long."""
        self._unplaced += keys
        # a loop over the same keys would let it grow without end
        if len(self._unplaced) > 4 * len(self.values_set) + 1_000:
            self._unplaced = list(set(self._unplaced))

    def remove_many(self, keys: Sequence[object]) -> None:
        """Remove those of the keys that are there."""
        self.scatter()
        for key in compress(keys, self.base.has_many(keys)):
            self.removed[key] = None
        for key in keys:
            self.values_set.pop(key, None)
            self._held.pop(key, None)
        self._updated.difference_update(keys)

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

    def get_array(self, keys: object, default: Any, dtype: Any) -> npt.NDArray[Any]:
        """The values of many keys as an array of numbers; `default` for a missing key."""
        if self.table is not None and self.table.dtype == dtype:
            return self._get_rows(self.table, keys, default, dtype)
        self.scatter()
        names = listed_keys(keys)
        values = np.full(len(names), default, dtype)
        if not self.values_set and not self.removed:
            there, found = self.base.find_many(keys if isinstance(keys, np.ndarray) else names)
            values[there] = found[there]
            return values
        own = list(map(self.values_set.get, names, repeat(MISSING)))
        below = np.fromiter(map(is_, own, repeat(MISSING)), np.bool_, len(own))
        here = np.flatnonzero(~below).tolist()
        values[here] = [own[place] for place in here]
        if self.removed:
            below &= ~np.fromiter(map(self.removed.__contains__, names), np.bool_, len(names))
        places = np.flatnonzero(below)
        there, found = self.base.find_many(
            keys[places] if isinstance(keys, np.ndarray) else [names[place] for place in places.tolist()]
        )
        values[places[there]] = found[there]
        return values

    def _get_rows(self, table: NumberTable, keys: Any, default: Any, dtype: Any) -> npt.NDArray[Any]:
        """As `get_array`, of what is set in a table."""
        names = whole_numbers(keys)
        rows = table.find_all(keys := listed(keys)) if names is None else table.look_up(names)
        values = np.full(len(rows), default, dtype)
        own = rows >= 0
        values[own] = table.values[rows[own]]
        below = np.flatnonzero(~own)
        if len(below):
            there, found = self.base.find_many(
                [keys[place] for place in below.tolist()] if names is None else names[below]
            )
            values[below[there]] = found[there]
        return values

    def release(self) -> None:
        """Drop the mutable values that were read; the caller has set those that changed."""
        self._held.clear()
