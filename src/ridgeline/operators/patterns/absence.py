"""A key that has fallen silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeline.api.support.results import names_call
from ridgeline.operators.patterns.pattern import NO_DEADLINE, Deadline, Found, Pattern, microseconds


@dataclass(frozen=True)
class Absence(Pattern):
    """See `absence`. Times are in microseconds."""

    gap: int
    by_clock: int | None
    cleared: bool = False

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the newest record that gaps were looked for at, 1 once the key was absent, and runs.

        A run is the first and the last of records that are nearer to each other than the gap. Runs lie after
        that record, so a gap is before each. They wait for the watermark: older records may still come.
        """
        if memory is None:
            return (time, 0)
        last, absent, *runs = memory
        if not runs and not (time - last >= self.gap and not absent):
            if absent and self.cleared:
                found.append(Found("present", time))
            return (max(last, time), 0)
        return self._settled(last, absent, [*runs, (time, time)])

    def _settled(self, last: int, absent: int, runs: list[tuple[int, int]]) -> tuple[Any, ...]:
        """The memory with runs that are nearer than the gap made one."""
        merged = [(last, last)]
        for first, newest in sorted(runs):
            before = merged[-1]
            if newest <= last:
                continue
            if first - before[1] < self.gap and not (absent and len(merged) == 1):
                merged[-1] = (before[0], max(before[1], newest))
            else:
                merged.append((first, newest))
        return (merged[0][1], absent, *merged[1:])

    def deadline(self, memory: Any) -> Deadline:
        """Once the time after the newest record is over; once a key that is absent has its next record."""
        if memory is None:
            return NO_DEADLINE
        last, absent, *runs = memory
        if runs:
            return Deadline(runs[0][0] if absent else last + self.gap, self.by_clock)
        return NO_DEADLINE if absent else Deadline(last + self.gap, self.by_clock)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """The key is absent, or has records again."""
        last, absent, *runs = memory
        if not absent:
            found.append(Found("absent", last))
            return (last, 1, *runs)
        first, newest = runs.pop(0)
        if self.cleared:
            found.append(Found("present", first))
        return (newest, 0, *runs)

    def expired_by_clock(self, memory: Any, found: list[Found]) -> Any:
        """No older record is awaited: all gaps hold, and the key is absent since its newest record."""
        while self.deadline(memory) != NO_DEADLINE:
            memory = self.expired(memory, found)
        return memory

    def ended(self, memory: Any, found: list[Found]) -> Any:
        """All gaps between records hold; the time after the newest one says nothing."""
        while memory[2:]:  # runs that are left
            memory = self.expired(memory, found)
        return memory


@names_call
def absence(gap: float | str, *, by_clock: float | str | bool = True, cleared: bool = False) -> Absence:
    """A key that had records has none for `gap`. It is found once; the next record of the key ends it.

    It goes by the times of records: once the watermark is `gap` past the newest record of the key. It goes by
    the clock too, as no watermark comes where no record comes: once `by_clock` has passed since the newest
    record came. True: as long as `gap`; False: not by the clock. `cleared`: the next record is reported,
    too. Findings are "absent", since the newest record, and "present". A gap between two records counts,
    also if they came in one window. It waits for the watermark, as an older record may still fill it. At the
    end of the input all gaps between two records are found; the time after the newest one is no gap. Raises
    ValueError for durations that are none.

    >>> absence("10s").gap
    10000000
    """
    found = microseconds(gap, "gap")
    clock = None if by_clock is False else found if by_clock is True else microseconds(by_clock, "by_clock")
    return Absence(found, clock, cleared)
