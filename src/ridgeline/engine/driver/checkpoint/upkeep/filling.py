"""Fills keyed states with rows that come in pieces: what is more than fits into memory goes to segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ridgeline.api.cells.timer_cell import TimerCell
from ridgeline.api.clock import Clock
from ridgeline.api.columns.nan import one_nan
from ridgeline.api.errors import StateError
from ridgeline.api.operator import operator_type
from ridgeline.api.state import KeyedCell, KeyedState, StateCell
from ridgeline.engine.state import state_files
from ridgeline.engine.state.keyed_moves import KeyedMove
from ridgeline.engine.state.keyed_segments import SEGMENT_KEYS, Segments, compact
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.plan.physical import PhysicalOperator

Pairs = Sequence[tuple[Any, Any]]
Cells = Sequence[dict[str, StateCell]]
_MOST_HELD = 400_000
"""Keys of all partitions together that are in memory before they become segments."""


class _Part:
    """The keys of one partition: segments, and what is beside them. Each key is given once."""

    def __init__(self, cell: KeyedCell[Any, Any], window: int, files: SegmentFiles, most: int) -> None:
        self._cell, self._window, self._files, self._most = cell, window, files, most
        self._base: Segments | None = None
        self._beside: dict[Any, Any] = {}

    def add(self, pairs: Iterable[tuple[Any, Any]], stem: Callable[[], str]) -> None:
        """Add keys. `stem`: gives a new prefix of names of state files."""
        self._beside.update(pairs)
        if len(self._beside) >= self._most:
            self._settle(stem)

    def _settle(self, stem: Callable[[], str]) -> None:
        """Write what is in memory as a segment. Keys that no segment can have stay in memory."""
        files = self._files

        def write(parts: Callable[[str], Iterable[bytes]]) -> str:
            name = f"{stem()}segment0"
            files.storage.write_parts(f"{state_files.FOLDER}/{name}", parts(name))
            return name

        before = set() if self._base is None else {one.name for one in self._base.segments}
        change = compact(self.filled(), write)
        if change is None:
            self._most = 2 * len(self._beside)
            return
        self._base, self._beside = Segments([files.open(name) for name in change.names]), {}
        gone = before - {one.name for one in self._base.segments}
        state_files.delete(files.storage, sorted(map(state_files.last_part, gone)))

    def filled(self) -> KeyedCell[Any, Any]:
        """The cell, with all that was added."""
        self._cell.reset()
        if self._base is None:
            self._cell.apply((True, self._window, self._beside, []))
        else:
            self._cell.attach(self._base, self._window, (), self._beside)
        return self._cell


class KeyedFill:
    """Fills one keyed state of all partitions of an operator. `held`: the cells of before."""

    def __init__(
        self,
        name: str,
        group: Sequence[PhysicalOperator],
        held: Cells,
        files: SegmentFiles,
        clock: Clock,
        stem: Callable[[int], str],
    ) -> None:
        """`stem`: gives a new prefix of names of state files, for an operator by its physical id."""
        self._name, self._group, self._held, self._files = name, group, held, files
        self._clock, self._stem = clock, stem
        declared: Any = operator_type(type(group[0].operator)).states[name]
        assert isinstance(declared, KeyedState)  # noqa: S101  of its kind
        self._declared: KeyedState[Any, Any] = declared
        self._most = max(SEGMENT_KEYS, _MOST_HELD // len(group))
        windows = [one[name].held(table=False).application_window for one in held]  # type: ignore[attr-defined]
        self._parts = [self._part(declared.cell(), window) for window in windows]
        self._move = KeyedMove(group[0], files, len(group), group, None)

    def _part(self, cell: Any, window: int) -> _Part:
        return _Part(cell, window, self._files, self._most)

    def fill(self, pieces: Iterator[Pairs]) -> None:
        """Replace what the cells hold by keys and values, each key once. Raises StateError, OSError."""
        if self._declared.moves_to is not None:  # it says itself which keys it has: of all of them at once
            pieces = iter([[pair for piece in pieces for pair in piece]])
        ends = _Ends(self._declared, self._held, self._clock) if self._declared.ttl_microseconds else None
        lifetimes = [] if ends is None else [self._part(cell, -1) for cell in ends.cells()]
        for piece in pieces:
            for number, pairs in enumerate(self._divided(piece)):
                if not pairs:
                    continue
                filled = self._declared.cell()
                filled.begin(-1)
                for key, value in pairs:
                    filled[key] = value  # checks its type
                stem = partial(self._stem, self._group[number].id)
                if ends is not None:
                    lifetimes[number].add(ends.of(list(filled)), stem)
                self._parts[number].add(filled.items(), stem)
        for number, part in enumerate(self._parts):
            self._held[number][self._name] = part.filled()
            if ends is not None:
                self._held[number][ends.name] = lifetimes[number].filled()

    def _divided(self, pairs: Pairs) -> Sequence[Pairs]:
        """The keys and values of each partition."""
        pairs = list(zip(one_nan([key for key, _ in pairs]), (value for _, value in pairs), strict=True))
        declared = self._declared
        if declared.moves_to is not None:
            parts = self._move.divide_whole(self._name, [dict(pairs)])
            return [list(dict(one).items()) for one in parts]
        if len(self._group) == 1:
            return [pairs]
        by = declared.moves_by or _itself
        return self._move.divide_items(self._name, pairs, lambda pair: by(pair[0]))


class _Ends:
    """When keys end: those that were there as before, new ones as the latest of them, or a `ttl` from now."""

    def __init__(self, declared: KeyedState[Any, Any], held: Cells, clock: Clock) -> None:
        """Raises StateError if no time of a record is known."""
        self.name = f"_{declared.name}_ends"
        self._declared = declared
        self._before: list[Any] = [one[self.name] for one in held]
        now = round(clock.wall() * 1_000_000) + declared.ttl_microseconds
        self._known = any(len(one) for one in self._before)
        self._latest, self._number = now, 0
        found = [pair for one in self._before for pair in [_latest_of(one.pairs())] if pair is not None]
        if found:
            self._latest = max(when for when, _ in found)
            self._number = max(number for _, number in found)

    def cells(self) -> list[Any]:
        """Empty cells for the ends of each partition."""
        return [TimerCell(self.name, object) for _ in self._before]

    def of(self, keys: Sequence[Any]) -> list[tuple[Any, tuple[int, int]]]:
        """Keys with their ends. Raises StateError."""
        if self._declared.ttl_by == "record" and not self._known:
            msg = f"`{self._declared.name}` lives by the time of records, and none has come yet: its keys "
            msg += "would have no end; let it run first"
            raise StateError(msg)
        ends = [self._latest] * len(keys)
        for cell in self._before:
            for place, end in enumerate(cell.peek_many(keys)):
                if end is not None:
                    ends[place] = end[0]
        numbers = range(self._number + 1, self._number + 1 + len(keys))
        self._number += len(keys)
        return [(key, (end, number)) for key, end, number in zip(keys, ends, numbers, strict=True)]


def _latest_of(pairs: Iterable[tuple[Any, tuple[int, int]]]) -> tuple[int, int] | None:
    """The latest time and the greatest number of timers; None without any."""
    when = number = None
    for _, (one, another) in pairs:
        when = one if when is None else max(when, one)
        number = another if number is None else max(number, another)
    return None if when is None or number is None else (when, number)


def _itself(key: Any) -> Any:
    return key


__all__ = ["KeyedFill"]
