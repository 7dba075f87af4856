"""What is true in a simulated world, noted beside it; every contradiction is a violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ridgeline.engine.state import state_files
from ridgeline.plan.protocol import StateVersion
from support.simulation.changing import Plans
from support.simulation.model import KEYS, Layout
from support.simulation.process import ViolationError

if TYPE_CHECKING:
    from support.simulation.readers import Readers


class Ledger:
    """Which values states have, which windows are committed, what readers see.

    `total`: how many numbers each source emits in all. `large`: how many changes of state go to files.
    """

    def __init__(self, layout: Layout, total: int, large: float) -> None:
        self.total = total
        self.large = large
        self.violation: ViolationError | None = None
        self._layout = layout
        keys = {operator.id: operator.state_key for operator in layout.plan.physical.operators}
        by_number = sorted(layout.sources.items(), key=lambda item: item[1])
        self._sources = [keys[one] for one, _ in by_number]
        """The keys of the sources' states, which no change moves."""
        self.plans = Plans(len(layout.sums), self.violate)
        self._tapped: int | None = None
        """What `Tap` has seen, None if there is none."""
        self._values: dict[tuple[str, str], Any] = {}
        """What an operator held after a change, by its name and the change's."""
        self.committed: dict[int, tuple[tuple[int, ...], Mapping[str, StateVersion]]] = {}
        """The windows that somebody took for committed: the sources' positions, and the states."""
        self.last = -1
        self.rewinds = 0
        self._before: dict[int, int] = {}
        """The last window of the commit before. One commit may cover several windows."""
        self.needed: set[str] = set()
        """The state files that the last committed window names."""
        self.published: dict[int, list[int]] = {}
        self._sums: dict[int, int] = {}
        self.readers: Readers | None = None
        """What readers see of files, if there are any."""

    def violate(self, what: str) -> NoReturn:
        """An invariant does not hold. The first one counts."""
        self.violation = self.violation or ViolationError(what)
        raise self.violation

    # States -------------------------------------------------------------------------------------------------

    def changed(self, operator: str, name: str, value: Any) -> None:
        """An operator holds this value after a change."""
        if (operator, name) in self._values:
            self.violate(f"two attempts wrote the same change `{name}` of {operator}")
        self._values[operator, name] = value

    def value(self, operator: str, version: StateVersion) -> Any:
        """What a version of an operator's state holds, None for nothing."""
        return self._values[operator, state_files.covered(version[-1])] if version else None

    def restored(self, operator: str, version: StateVersion, value: Any) -> None:
        """An operator has gone to a version and holds this now."""
        if version and "-moved" in version[-1]:
            self._values.setdefault(
                (operator, state_files.covered(version[-1])), value
            )  # the commit checks the sums
        wanted = self.value(operator, version) or ({} if isinstance(value, dict) else 0)
        if value is not None and value != wanted:
            self.violate(f"{operator} restored {value} from {version}, not {wanted}")

    # Commits ------------------------------------------------------------------------------------------------

    def commit(self, window_id: int, states: Mapping[str, StateVersion]) -> None:
        """A driver takes a window for committed."""
        states = {key: tuple(version) for key, version in states.items()}
        versions = {key: tuple(map(state_files.covered, version[-1:])) for key, version in states.items()}
        positions = tuple(self.value("source", versions.get(key, ())) or 0 for key in self._sources)
        if (known := self.committed.get(window_id)) is not None:
            if known != (positions, versions):
                self.violate(f"window {window_id} was committed twice: {known}, {(positions, versions)}")
        else:
            if window_id <= self.last:
                self.violate(f"window {window_id} was committed after {self.last}")
            self._before[window_id] = self.last
            self._check_sums(window_id, positions, versions)
            self.committed[window_id] = positions, versions
            self.last = window_id
        if window_id == self.last:
            self.needed = {name for version in states.values() for name in version}

    def rewound(self, window_id: int, back: int, states: Mapping[str, StateVersion]) -> None:
        """A driver has gone back to a window: what was committed since is void."""
        self.needed = {name for version in states.values() for name in version}
        if window_id in self.committed:
            return
        if window_id <= self.last:
            self.violate(f"window {self.last} was rewound to {back} under the number {window_id}")
        positions, versions = self.committed[back]
        if {key: tuple(map(state_files.covered, one[-1:])) for key, one in states.items()} != versions:
            self.violate(f"window {back} had the states {versions}, and has {states} after a rewind")
        self.rewinds += 1
        self.committed[window_id] = positions, versions
        self._before[window_id] = back
        self.last = window_id
        count = len(self._layout.sources)
        left = [number * count + source for source, end in enumerate(positions) for number in range(end)]
        self._sums = {}
        for number in left:
            self._sums[number % KEYS] = self._sums.get(number % KEYS, 0) + number + 1
        if self.readers is not None:
            self.readers.rewound(set(left))

    def _positions(self, window_id: int) -> tuple[int, ...]:
        known = self.committed.get(window_id)
        return known[0] if known else (0,) * len(self._layout.sources)

    def _numbers(self, window_id: int, positions: Sequence[int]) -> list[int]:
        """The numbers of a window, given the positions after it."""
        count, before = len(self._layout.sources), self._positions(self._before[window_id])
        return sorted(
            number * count + source
            for source, (begin, end) in enumerate(zip(before, positions, strict=True))
            for number in range(begin, end)
        )

    def _check_sums(
        self, window_id: int, positions: tuple[int, ...], versions: Mapping[str, StateVersion]
    ) -> None:
        """Each number must be in the sums exactly once."""
        numbers = self._numbers(window_id, positions)
        for number in numbers:
            self._sums[number % KEYS] = self._sums.get(number % KEYS, 0) + number + 1
        self._check_tap(window_id, numbers, versions)
        found: dict[int, int] = {}
        for key in versions:
            held = (self.value("sums", versions[key]) or {}) if key.startswith("sums/") else {}
            if twice := found.keys() & held.keys():
                self.violate(f"two partitions have sums of the keys {twice} in window {window_id}")
            found |= held
        if found != self._sums:
            self.violate(f"the sums of window {window_id} are {found}, not {self._sums}")

    def _check_tap(
        self, window_id: int, numbers: Sequence[int], versions: Mapping[str, StateVersion]
    ) -> None:
        """It has seen each number since it was added exactly once."""
        seen = (self._tapped or 0) + sum(number + 1 for number in numbers)
        self._tapped = seen if self.plans.now.tap else None
        held = self.value("tap", versions.get("tap/0/1", ())) or 0
        if held != (self._tapped or 0):
            self.violate(f"the tap has seen {held} in window {window_id}, not {self._tapped}")

    def found(self, window_id: int) -> None:
        """A driver that starts has found this as the last committed window."""
        if window_id < self.last:
            self.violate(f"window {self.last} was committed, a driver found {window_id} as the last")

    def told_committed(self, window_id: int) -> None:
        """A container was told that a window is committed."""
        if window_id > self.last:
            self.violate(f"`committed` was called for window {window_id} after {self.last}")

    # Outputs ------------------------------------------------------------------------------------------------

    def publish(self, window_id: int, values: Sequence[int]) -> None:
        """Readers see a window now."""
        if window_id not in self.committed:
            self.violate(f"window {window_id} was published before it was committed")
        if (before := self._before[window_id]) not in {-1, *self.published}:
            self.violate(f"window {window_id} was published, {before} was not")
        wanted = self._numbers(window_id, self._positions(window_id))
        if list(values) != wanted:
            self.violate(f"window {window_id} was published with {list(values)}, not {wanted}")
        self.published[window_id] = list(values)

    def check_file(self, name: str, first: int, last: int, numbers: Sequence[int]) -> None:
        """Readers see a file with these windows for the first time: they are committed, all are in it."""
        if last > self.last:
            self.violate(f"readers see `{name}`, the last committed window is {self.last}")
        end = min(window for window in self.committed if window >= last)
        begin = self._before[min(window for window in self.committed if window >= first)]
        low, high = self._positions(begin), self._positions(end)
        count = len(low)
        for number in numbers:
            place, source = divmod(number, count)
            if not low[source] <= place < high[source]:
                self.violate(f"readers see {number} in `{name}`; its windows have {low} to {high}")

    def check_end(self) -> None:
        """The application has ended: everything is there."""
        if self.readers is not None:
            self.readers.check_end(range(self.total * len(self._layout.sources)))
            return
        numbers = sorted(number for values in self.published.values() for number in values)
        if numbers != list(range(self.total * len(self._layout.sources))):
            self.violate(f"published at the end: {numbers}")
        if self.published.keys() != self.committed.keys():
            published, committed = sorted(self.published), sorted(self.committed)
            self.violate(f"windows {published} were published, {committed} were committed")

    # Files --------------------------------------------------------------------------------------------------

    def deleted(self, name: str, exists: Mapping[str, object]) -> None:
        """Somebody removes a file."""
        folder, _, last = name.rpartition("/")
        if folder == state_files.FOLDER:
            for needed in self.needed:
                place = state_files.slice_place(needed)
                only = place is None or state_files.segment_file(place[0]) not in exists
                if only and state_files.file_of(needed) == last:
                    self.violate(f"`{name}` was removed, which window {self.last} names")
        if folder == state_files.JOURNAL and last.isdecimal():
            for needed in self.needed:
                place = state_files.slice_place(needed)
                file = f"{state_files.FOLDER}/{state_files.file_of(needed)}"
                if place is not None and place[0] == int(last) and file not in exists:
                    self.violate(f"`{name}` was removed, in which `{needed}` lies")
