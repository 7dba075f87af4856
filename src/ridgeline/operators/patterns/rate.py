"""Too many records in a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeline.api.support.results import names_call
from ridgeline.operators.patterns.pattern import (
    NO_DEADLINE,
    Deadline,
    Found,
    Pattern,
    at_least,
    microseconds,
)


@dataclass(frozen=True)
class Rate(Pattern):
    """See `rate`. `within` is in microseconds."""

    count: int
    within: int

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is 1 while there are too many, then the times of the newest records, sorted."""
        active: int = memory[0] if memory else 0
        times: list[int] = list(memory[1:]) if memory else []
        if times and time < times[-1]:
            times = sorted((*times, time))
        else:
            times.append(time)
        times = [one for one in times[-self.count :] if one > times[-1] - self.within]
        many = len(times) >= self.count
        if many and not active:
            found.append(Found("rate", times[0], len(times)))
        return (int(many), *times)

    def deadline(self, memory: Any) -> Deadline:
        """Once the newest record is too old, the key is forgotten."""
        return NO_DEADLINE if memory is None else Deadline(memory[-1] + self.within)

    def expired(self, memory: Any, found: list[Found]) -> Any:
        """All records are too old."""
        return None


@names_call
def rate(count: int, within: float | str) -> Rate:
    """A key has `count` records within a time. It counts again once there were fewer.

    The finding is "rate", since the first of these records; its value is their number. Raises ValueError for
    a count less than 2, and for what is no duration.

    >>> rate(5, within="1m")
    Rate(count=5, within=60000000)
    """
    at_least(count, 2, "count")
    return Rate(count, microseconds(within, "within"))
