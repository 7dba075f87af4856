"""Too many records in a time, and more than there were before."""

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


@dataclass(frozen=True)
class Burst(Pattern):
    """See `burst`. `within` is in microseconds; `before`: how many such times the comparison covers."""

    factor: float
    within: int
    before: int
    least: int

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the first slice of time, the newest one that was found, then (slice, count) pairs."""
        now = time // self.within
        first, reported, *flat = memory if memory is not None else (now, now - 1)
        counts = dict(zip(flat[::2], flat[1::2], strict=True))
        counts[now] = counts.get(now, 0) + 1
        newest = max(counts)
        if now == newest and reported < now and now - first >= self.before and counts[now] >= self.least:
            usual = sum(counts.get(slice_, 0) for slice_ in range(now - self.before, now)) / self.before
            if counts[now] > self.factor * usual:
                found.append(Found("burst", now * self.within, counts[now]))
                reported = now
        kept = sorted(pair for pair in counts.items() if pair[0] >= newest - self.before)
        return (min(first, now), reported, *(value for pair in kept for value in pair))


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


@names_call
def burst(factor: float, within: float | str, over: float | str, *, least: int = 10) -> Burst:
    """A key has more than `factor` times the records that are usual, in a slice of time as long as `within`.

    Usual is the mean of the slices of the time `over` before it, also of empty ones. Slices begin at
    multiples of `within`; one is found once. Nothing is found before a key is as old as `over`, nor with
    fewer than `least` records. The finding is "burst", since the slice began; its value is the number of
    records by then. Raises ValueError for what does not fit.

    >>> burst(3, within="1m", over="1h").before
    60
    """
    slice_, before = microseconds(within, "within"), microseconds(over, "over")
    if before < slice_ or before % slice_:
        raise ValueError(f"`over` must be a multiple of `within`; got {over!r} and {within!r}")
    at_least(factor, 1, "factor")
    at_least(least, 1, "least")
    return Burst(factor, slice_, before // slice_, least)
