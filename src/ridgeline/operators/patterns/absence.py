"""A key that has fallen silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ridgeline.operators.patterns.pattern import NO_DEADLINE, Deadline, Found, Pattern, microseconds


@dataclass(frozen=True)
class Absence(Pattern):
    """See `absence`. Times are in microseconds."""

    gap: int
    by_clock: int | None
    cleared: bool = False

    def items(self, batch: pa.RecordBatch) -> Sequence[Any]:
        """Each record counts."""
        return [True] * len(batch)

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the time of the newest record, and 1 once the key was found absent."""
        if memory is None:
            return (time, 0)
        last, absent = memory
        if absent and self.cleared:
            found.append(Found("present", time))
        return (max(last, time), 0)

    def deadline(self, memory: Any) -> Deadline:
        """Once the time after the newest record is over."""
        return NO_DEADLINE if memory is None or memory[1] else Deadline(memory[0] + self.gap, self.by_clock)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """The key is absent."""
        found.append(Found("absent", memory[0]))
        return (memory[0], 1)


def absence(gap: float | str, *, by_clock: float | str | bool = True, cleared: bool = False) -> Absence:
    """A key that had records has none for `gap`. It is found once; the next record of the key ends it.

    It goes by the times of records: once the watermark is `gap` past the newest record of the key. It goes by
    the clock too, as no watermark comes where no record comes: once `by_clock` has passed since the newest
    record came. True: as long as `gap`; False: not by the clock. `cleared`: the next record is reported,
    too. Findings are "absent", since the newest record, and "present". At the end of the input nothing more
    is found. Raises ValueError for durations that are none.

    >>> absence("10s").gap
    10000000
    """
    found = microseconds(gap, "gap")
    clock = None if by_clock is False else found if by_clock is True else microseconds(by_clock, "by_clock")
    return Absence(found, clock, cleared)
