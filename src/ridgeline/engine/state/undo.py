"""Take windows back in memory: set the keys that they touched to what the files of a version say.

To load a large state again takes long. A few windows touch few keys. The newest deltas say what these were,
or the segments below them, which are mapped. All that is kept for this is which keys were touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ridgeline.api.cells.cell import StateCell
from ridgeline.api.columns.nan import one_nan
from ridgeline.api.state import KeyedCell, ValueCell
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.state import state_files
from ridgeline.engine.state.keyed_segments import SegmentsChange
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import StateVersion

LARGE = 20_000
"""A state with fewer keys is loaded again: that is quick."""
_MOST_KEYS = 200_000
"""Of so many touched keys at most it is kept that they were."""


class TouchedKeys(NamedTuple):
    """The keys of one cell that were touched: those that it held of its own before, and those since."""

    old: Collection[Any]
    new: Collection[Any]


class Touched(NamedTuple):
    """Changes that this window and later ones may have made: keys of keyed cells, and single values.

    `passed_over`: as of `OperatorContext`.
    """

    window_id: int
    passed_over: int
    keys: Mapping[str, TouchedKeys]
    values: AbstractSet[str]


class _Noted(NamedTuple):
    """The keys that a window has touched, by cell, and how many values keyed cells held of their own before.

    `before`: the last delta of the version before it.
    """

    window_id: int
    before: str
    keys: Mapping[str, Collection[Any]]
    sizes: Mapping[str, int]
    values: AbstractSet[str]


class Undo:
    """Which keys the last windows have touched in the cells of one operator."""

    def __init__(self, cells: Mapping[str, StateCell], passed_over: int = 0) -> None:
        self._passed_over = passed_over
        self._keyed = {name: cell for name, cell in cells.items() if isinstance(cell, KeyedCell)}
        self._values = {name: cell for name, cell in cells.items() if isinstance(cell, ValueCell)}
        self._possible = bool(self._keyed) and len(self._keyed) + len(self._values) == len(cells)
        self._segments: tuple[str, ...] | None = None
        self._window, self._before = -1, ""
        """The window that runs or has run last, and the last delta of the version before it."""
        self._first = 0
        """All that windows from this one on have touched is noted, or is in the cells."""
        self._noted: deque[_Noted] = deque()
        self._sizes: Mapping[str, int] = {}
        """How many values the cells held of their own after the last window."""
        self._keys = 0

    def restoring(self) -> None:
        """The cells are about to be brought to some version: should that fail, they hold a part of one."""
        self._segments = None

    def restored(self, version: StateVersion, window_id: int) -> None:
        """The cells were brought to this version, to run this window next."""
        self._segments = state_files.segments_of(version)
        self._forget(window_id)

    def begins(self, version: StateVersion, window_id: int) -> None:
        """The cells are at this version (at least its last name is known), and run this window next."""
        self._window, self._before = window_id, _last(version)

    def ran(self, window_id: int, changed: Collection[str]) -> None:
        """A window has run, and its changes were taken from the cells that have `changed`."""
        if not self._possible:
            return
        keys = {name: cell.touched() for name, cell in self._keyed.items()}
        if not self._large or None in keys.values():
            self._forget(window_id + 1)
            return
        self._noted.append(_Noted(window_id, self._before, keys, self._sizes, self._values.keys() & changed))  # type: ignore[arg-type]  # no None
        self._keys += _count(self._noted[-1].keys)
        while self._keys > _MOST_KEYS:
            dropped = self._noted.popleft()
            self._keys -= _count(dropped.keys)
            self._first = dropped.window_id + 1
        self._sizes = {name: cell.own_size for name, cell in self._keyed.items()}

    def touched_since(self, window_id: int, wanted: StateVersion) -> Touched | None:
        """The keys that this window and later ones may have touched; None if that is not known.

        `wanted`: the version before that window. It must lie in the segments that the cells have.
        """
        if (
            not self._possible
            or window_id < self._first
            or self._segments != state_files.segments_of(wanted)
            or not self._large
        ):
            return None
        noted = [one for one in self._noted if one.window_id >= window_id]
        window, before = (noted[0].window_id, noted[0].before) if noted else (self._window, self._before)
        if (window, before) != (window_id, _last(wanted)):
            return None  # others have run windows since, or have run the one before in another way
        sizes = noted[0].sizes if noted else self._sizes
        values = {name for name, cell in self._values.items() if cell.changes() is not None}
        touched: dict[str, TouchedKeys] = {}
        for name, cell in self._keyed.items():
            now = cell.touched()
            if now is None:
                return None
            new = cell.newest(cell.own_size - sizes[name])
            keys = set(now).union(*(one.keys[name] for one in noted))
            touched[name] = TouchedKeys(keys.difference(new), new)
        return Touched(window_id, self._passed_over, touched, values.union(*(one.values for one in noted)))

    @property
    def _large(self) -> bool:
        """True if it takes long to load the cells."""
        return any(cell.in_segments or cell.own_size >= LARGE for cell in self._keyed.values())

    def _forget(self, first: int) -> None:
        self._noted.clear()
        self._keys, self._first = 0, first
        self._sizes = {name: cell.own_size for name, cell in self._keyed.items()}


def take_back(
    storage: Storage,
    operator: PhysicalOperator,
    cells: Mapping[str, StateCell],
    version: StateVersion,
    touched: Touched,
) -> bool:
    """Bring cells back to the version before a window, from which only what was touched since differs.

    False if that cannot be, since keys were removed shortly before: to put one back would change the order.
    Then nothing was changed. Raises StateError naming a file that is missing or corrupt, OSError.
    """
    last = touched.window_id - 1
    application_window = last - last % operator.window_count - touched.passed_over
    keyed = {name: _KeyedBefore(keys) for name, keys in touched.keys.items()}
    values: dict[str, Any] = {}
    for name in reversed([name for name in version if not state_files.is_segment(name)]):
        # Which keys have changed is needed of the whole application window, values only until all are found.
        in_window = state_files.window_of(name) >= application_window
        if not in_window and touched.values <= values.keys() and all(one.found for one in keyed.values()):
            break
        for cell, change in state_files.read(storage, name, operator.state_key).items():
            if cell in keyed:
                if not keyed[cell].take(change, application_window):
                    return False
            elif cell in touched.values:
                values.setdefault(cell, change)
    if not all(before.found for before in keyed.values()):
        return False
    for name, before in keyed.items():
        before.put(cells[name], application_window)
    for name in touched.values:
        if name in values:
            cells[name].apply(values[name])
        else:
            cells[name].reset()
    return True


class _KeyedBefore:
    """The values of one cell's keys, as far as the deltas say that are taken in, the newest first."""

    def __init__(self, keys: TouchedKeys) -> None:
        self._left, self._new = set(keys.old), keys.new
        self._values: dict[Any, Any] = {}
        self._changed: list[Collection[Any]] = []
        self._whole = False

    @property
    def found(self) -> bool:
        """True once it is known what all keys were."""
        return not self._left

    def take(self, change: Any, application_window: int) -> bool:
        """Take one more delta or snapshot in; False if it removes keys."""
        if self._whole:
            return True
        values: Mapping[Any, Any] = {}
        if isinstance(change, SegmentsChange):  # what is there shows through
            self._whole, changed_in, changed = True, change.application_window, change.changed
            values = change.values or {}
        else:
            self._whole, changed_in, values, changed = change
            if not self._whole:
                if changed:
                    return False
                changed = list(values)
        names = list(values)
        if (ones := one_nan(names)) is not names:
            values = dict(zip(ones, values.values(), strict=True))
        if changed_in == application_window:
            self._changed.append(one_nan(changed))
        found = [key for key in self._left if key in values]
        self._values |= {key: values[key] for key in found}
        self._left.difference_update(found)
        return True

    def put(self, cell: Any, application_window: int) -> None:
        """Bring the cell back."""
        changed = [key for keys in reversed(self._changed) for key in keys]
        cell.take_back(self._values, self._new, application_window, changed)


def _last(version: StateVersion) -> str:
    return state_files.covered(version[-1]) if version else ""


def _count(keys: Mapping[str, Collection[Any]]) -> int:
    return sum(map(len, keys.values())) + 1
