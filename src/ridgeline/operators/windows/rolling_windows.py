"""Rolling windows: for each record those of its key before it, by time or by count.

Records wait until the watermark has passed them, in the state `waiting`: by key (times, parts of each), in
the order of times. Then `open` keeps those that later windows need. Windows by time have them by (start of a
piece of time, *key), windows by count by key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from ridgeline.api.times import EARLIEST
from ridgeline.operators._exact import Index
from ridgeline.operators.aggregate.rules import Bounds, Part, Rows, Rules
from ridgeline.operators.windows import RollingCount, RollingTime
from ridgeline.operators.windows.columns import (
    NEVER,
    Columns,
    Holder,
    Key,
    Parts,
    Records,
    Result,
    WindowKind,
)

_PIECES = 8
"""A window by time lies in so many pieces: a record changes only its own piece of state."""
Kept = tuple[tuple[int, ...], tuple[Parts, ...]]
"""Times, oldest first, and of each record its parts."""
_NONE: Kept = ((), ())


class RollingWindows(WindowKind):
    """A result for each record; see `RollingTime` and `RollingCount`."""

    def bounds(self, times: Index) -> tuple[Index, Index]:
        """Late once the watermark has passed the record."""
        return times, times + 1

    def add(self, records: Records) -> None:
        """Let records wait."""
        batch, times, _, codes, keys, *_ = records
        waiting = self.operator.waiting
        rows = np.lexsort((times, codes))
        parts = self.columns.parts(Rows(batch, rows, times[rows], np.arange(len(rows)), len(rows)))
        found = zip(codes[rows].tolist(), times[rows].tolist(), parts, strict=True)
        for code, own in groupby(found, key=itemgetter(0)):
            key = keys[code]
            waiting[key] = _sorted(waiting.get(key, _NONE), [(time, part) for _, time, part in own])
        self.operator.due = min(self.operator.due, int(times.min()) + 1)

    def close(self, closed: int) -> list[Result]:
        """The windows of records before `closed`. Records are kept for those from then on."""
        waiting, found, due = self.operator.waiting, list[Result](), NEVER
        for key, (times, parts) in list(waiting.items()):
            number = bisect_left(times, closed)
            if number:
                known, bounds = self._known(key, times[0]), list[tuple[int, int]]()
                all_times = (*known[0], *times[:number])
                all_parts = (*known[1], *parts[:number])
                bounds = list(self._bounds(all_times, len(known[0])))
                found += self._results(key, all_times, all_parts, bounds)
                self._keep(key, known, (times[:number], parts[:number]), closed)
                if number == len(times):
                    del waiting[key]
                else:
                    waiting[key] = (times[number:], parts[number:])
            if number < len(times):
                due = min(due, times[number] + 1)
        self.operator.due = min(due, self._forget(closed))
        return found

    def _results(
        self, key: Key, times: Sequence[int], parts: Sequence[Parts], bounds: Bounds
    ) -> Iterator[Result]:
        """The results of the last records, those of `bounds`."""
        first = len(times) - len(bounds)
        by_aggregate = [
            rolled(rules, column, bounds)
            for rules, column in zip(self.columns.rules, zip(*parts, strict=True), strict=True)
        ]
        rows = list(zip(*by_aggregate, strict=True))
        self.columns.check(rows, lambda _: key)
        for time, (low, _), own in zip(times[first:], bounds, rows, strict=True):
            yield Result(self._start(time, times[low]), time, key, own)

    def last_end(self) -> int:
        """Just after the newest record that waits."""
        return max((times[-1] + 1 for times, _ in self.operator.waiting.values()), default=EARLIEST)

    def _known(self, key: Key, time: int) -> Kept:
        """The records that windows of a record at this time may need."""
        raise NotImplementedError

    def _bounds(self, times: Sequence[int], first: int) -> Iterator[tuple[int, int]]:
        """The windows of the records from place `first` on."""
        raise NotImplementedError

    def _start(self, time: int, oldest: int) -> int:
        """When the window of a record begins, of a window whose oldest record is so old."""
        raise NotImplementedError

    def _keep(self, key: Key, known: Kept, new: Kept, closed: int) -> None:
        """Keep the records that windows of records from `closed` on may need."""
        raise NotImplementedError

    def _forget(self, closed: int) -> int:
        """Forget the records that no window needs any more; returns when to look again."""
        raise NotImplementedError


class RollingTimeWindows(RollingWindows):
    """For each record at time t the records of its key in (t - span, t]."""

    def __init__(self, operator: Holder, columns: Columns, windows: RollingTime) -> None:
        super().__init__(operator, columns, windows)
        self.span = windows.span
        self.piece = -(-self.span // _PIECES)

    def _known(self, key: Key, time: int) -> Kept:
        state, piece = self.operator.open, self.piece
        begin = (time - self.span) // piece * piece
        found = [state.get((start, *key), _NONE) for start in range(begin, time + 1, piece)]
        times = tuple(time for one in found for time in one[0])
        return times, tuple(part for one in found for part in one[1])

    def _bounds(self, times: Sequence[int], first: int) -> Iterator[tuple[int, int]]:
        for time in times[first:]:
            yield bisect_right(times, time - self.span), bisect_right(times, time)

    def _start(self, time: int, oldest: int) -> int:
        return time - self.span

    def _keep(self, key: Key, known: Kept, new: Kept, closed: int) -> None:
        state, piece = self.operator.open, self.piece
        for start, own in groupby(zip(*new, strict=True), key=lambda one: one[0] // piece * piece):
            if start + piece + self.span > closed:
                added = list(own)
                times, parts = state.get((start, *key), _NONE)
                state[start, *key] = (
                    (*times, *[time for time, _ in added]),
                    (*parts, *[part for _, part in added]),
                )

    def _forget(self, closed: int) -> int:
        state = self.operator.open
        for name in [name for name in state if name[0] + self.piece + self.span <= closed]:
            del state[name]
        if not len(state):
            return NEVER
        return (closed // self.piece + 1) * self.piece


class RollingCountWindows(RollingWindows):
    """For each record the last `records` of its key, it included; of those of one time, as they came."""

    windows: RollingCount

    def _known(self, key: Key, time: int) -> Kept:
        known: Kept = self.operator.open.get(key, _NONE)
        return known

    def _bounds(self, times: Sequence[int], first: int) -> Iterator[tuple[int, int]]:
        for place in range(first + 1, len(times) + 1):
            yield max(0, place - self.windows.records), place

    def _start(self, time: int, oldest: int) -> int:
        return oldest

    def _keep(self, key: Key, known: Kept, new: Kept, closed: int) -> None:
        if self.windows.records > 1:
            last = slice(1 - self.windows.records, None)
            self.operator.open[key] = ((*known[0], *new[0])[last], (*known[1], *new[1])[last])

    def _forget(self, closed: int) -> int:
        return NEVER


def rolled(rules: Rules, parts: Sequence[Part], bounds: Bounds) -> list[Part]:
    """The parts of windows over the parts of records."""
    found = rules.rolled(parts, bounds)
    if found is not None:
        return found
    if rules.sequential:
        return [reduce(rules.merged, parts[low:high]) for low, high in bounds]
    return _retracted(rules, parts, bounds) if type(rules).retract else _two_stacks(rules, parts, bounds)


def _retracted(rules: Rules, parts: Sequence[Part], bounds: Bounds) -> list[Part]:
    """Each part is merged once and taken away once."""
    found, whole = list[Part](), None
    begin = end = bounds[0][0] if bounds else 0
    members = 0
    retract: Any = rules.retract
    for low, high in bounds:
        for part in parts[end:high]:
            if part is not None:
                whole, members = part if not members else rules.merge(whole, part), members + 1
        for part in parts[begin:low]:
            if part is not None:
                whole, members = retract(whole, part), members - 1
        begin, end = low, high
        found.append(whole if members else None)
    return found


def _two_stacks(rules: Rules, parts: Sequence[Part], bounds: Bounds) -> list[Part]:
    """Each part is merged three times at most, whatever a window holds.

    `heads`: of each place before `middle` the part from there to `middle`. `tail`: that from there on.
    """
    found, merged = list[Part](), rules.merged
    heads: dict[int, Part] = {}
    middle = end = 0
    tail: Part = None
    for low, high in bounds:
        for part in parts[max(end, middle) : high]:
            tail = merged(tail, part)
        end = high
        if low >= middle:
            heads, middle, tail, head = {}, high, None, None
            for place in range(high - 1, low - 1, -1):
                heads[place] = head = merged(parts[place], head)
        found.append(merged(heads.get(low), tail))
    return found


def _sorted(known: Kept, new: list[tuple[int, Parts]]) -> Kept:
    """Records by time; of one time, the known ones first."""
    if known[0] and known[0][-1] > new[0][0]:
        new = sorted([*zip(*known, strict=True), *new], key=itemgetter(0))
        known = _NONE
    return (*known[0], *[time for time, _ in new]), (*known[1], *[part for _, part in new])
