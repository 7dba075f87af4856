"""Timers by key as state: what is due is found at the cost of what is due, not of what is held.

A cell keeps the time of each key in keyed state, with a number that says in which order they were set. To
find what is due it has a heap of entries (time, number, key). An entry may be out of date: then it is older
than what the state says, and is put right when its time has come. So to set a timer to a later time again and
again, as sessions do, costs no entry. The heap is not part of the state: it is made of it when it is first
needed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, NamedTuple

import typing_extensions

from ridgeline.api.cells.cell import MISSING, Change, Kind
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.columns.nulls import one
from ridgeline.api.columns.struct_types import EPOCH
from ridgeline.api.errors import StateError, shorten

K = typing_extensions.TypeVar("K", default=Any)

_MICROSECOND = timedelta(microseconds=1)
_NUMBERS_A_WINDOW = 1 << 24
_SPARE_ENTRIES = 1_000
"""Stale entries that are kept in any case."""


class Due(NamedTuple):
    """A timer that is due: its time in microseconds since 1970, when it was set (a number), its key."""

    when: int
    number: int
    key: Any


class TimerCell(KeyedCell[K, tuple[int, int]]):
    """A time per key, in microseconds since 1970, and the number of the call that set it."""

    __slots__ = ("_entries", "_most", "_number", "timers")

    _entries: list[tuple[int, int, Any]] | None  # None: to be made of the state
    _most: int  # with more entries those that are out of date are left out
    _number: int  # of the last call that set a timer

    def __init__(self, name: str, key: object) -> None:
        super().__init__(Kind(tuple, name), MISSING)
        self.timers = KeyTimers(self, name, key)

    def put(self, key: K, when: int) -> None:
        """Set the time of a key, in the place of its earlier one."""
        entries = self._index()
        if key != key:  # noqa: PLR0124  a NaN
            key = one(key)
        known = self._own.get(key)
        self._number = number = self._number + 1
        self[key] = when, number
        if known is None or when < known[0]:  # else it has an entry that comes before
            heappush(entries, (when, number, key))
            if len(entries) > self._most:
                self._leave_out()

    def next_due(self, until: float) -> Due | None:
        """The first timer, if its time is not later than this; of equal times the one that was set first."""
        entries = self._index()
        while entries and entries[0][0] <= until:
            when, number, key = entries[0]
            held = self._data.get(key)
            if held is None:
                heappop(entries)
            elif held == (when, number):
                return Due(when, number, key)
            else:
                heapreplace(entries, (*held, key))
        return None

    def take(self, due: Due) -> None:
        """Remove the timer that `next_due` has returned, before it is asked again."""
        heappop(self._index())
        del self[due.key]

    def _index(self) -> list[tuple[int, int, Any]]:
        entries = self._entries
        if entries is None:
            entries = self._entries = [(when, number, key) for key, (when, number) in self._data.items()]
            heapify(entries)
            self._number = max(self._number, max((number for _, number, _ in entries), default=0))
            self._most = 2 * len(entries) + _SPARE_ENTRIES
        return entries

    def _leave_out(self) -> None:
        """If more than half of the entries are out of date, leave these out."""
        self._most = 2 * len(self._data) + _SPARE_ENTRIES
        if self._entries is not None and len(self._entries) > self._most:
            self._entries = None

    # The engine's side --------------------------------------------------------------------------------------

    def begin_window(self, window_id: int) -> None:
        """A streaming window begins: its calls get numbers of their own, in whatever process it runs."""
        self._index()
        self._number = max(self._number, window_id * _NUMBERS_A_WINDOW)

    @property
    def number(self) -> int:
        """The number of the last call that set a timer."""
        return self._number

    def reset(self) -> None:
        """Back to no timers."""
        super().reset()
        self._entries, self._number = None, 0

    def rebind_files(self) -> None:
        """The same timers come from other files: what finds them stays."""
        entries, number, most = self._entries, self._number, self._most if self._entries is not None else 0
        super().reset()
        self._entries, self._number, self._most = entries, number, most

    def apply(self, change: Change) -> None:
        """Add a snapshot's or a window's timers."""
        super().apply(change)
        full, _, values, _ = change
        if self._entries is not None and not full:
            for key, (when, number) in values.items():
                heappush(self._entries, (when, number, one(key) if key != key else key))  # noqa: PLR0124  a NaN
                self._number = max(self._number, number)
            if len(self._entries) > self._most:
                self._leave_out()


class KeyTimers(Generic[K]):
    """The timers of a `Timers` in one operator: one per key at most.

    Example:
        >>> from datetime import UTC, datetime
        >>> from ridgeline import Operator, Timers
        >>> class Sessions(Operator):
        ...     silence = Timers(key=str)
        ...
        ...     @silence.expired
        ...     def close(self, user: str, when: datetime) -> None: ...
        >>> silence = Sessions().silence
        >>> silence.set("ann", datetime(2026, 1, 1, 12, 30, tzinfo=UTC))
        >>> len(silence), silence.get("ann").hour, silence.get("bob")
        (1, 12, None)
        >>> silence.delete("ann")
        >>> "ann" in silence
        False
    """

    __slots__ = ("_cell", "_key", "_name")

    def __init__(self, cell: TimerCell[K], name: str, key: object) -> None:
        self._cell = cell
        self._name = name
        self._key = Kind(key, name, holds=f"timers `{name}` have keys", remedy="declare `key=`")

    def set(self, key: K, when: datetime) -> None:
        """Set the timer of a key, in the place of the key's earlier one. A time without a zone is UTC.

        If that time has passed already the timer expires in this window. Raises StateError for what is no
        time, and for a key of another type than declared or without a hash.
        """
        if type(key) not in self._key.known:
            key = self._fitting(key)
        if not isinstance(when, datetime):
            remedy = "give a `datetime`, such as `self.context.window_time + timedelta(seconds=30)`"
            raise StateError(
                f"timers `{self._name}`: a timer is set to a time; got {shorten(when)}; {remedy}"
            )
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        self._cell.put(key, (when - EPOCH) // _MICROSECOND)

    def delete(self, key: K) -> None:
        """Remove the timer of a key; nothing is done if it has none."""
        self._cell.pop(key, None)

    def get(self, key: K) -> datetime | None:
        """The time of a key's timer, in UTC; None if it has none."""
        held = self._cell.get(key)
        return None if held is None else EPOCH + timedelta(microseconds=held[0])

    def __contains__(self, key: object) -> bool:
        return key in self._cell

    def __len__(self) -> int:
        return len(self._cell)

    def __repr__(self) -> str:
        return f"Timers({len(self)} keys)"

    def _fitting(self, key: Any) -> Any:
        """The key as its type has it. Raises StateError for one of another type."""
        try:
            hash(key)
        except TypeError:
            raise StateError(
                f"timers `{self._name}`: the key {shorten(key)} has no hash; give a key that cannot change"
            ) from None
        return self._key.fit(key)
