"""The records that a Python input has taken, those that wait, and those that windows in flight hold.

An input is ahead of what is committed: each window in flight has taken something. Its containers say so when
they report, or by heartbeats. Between two windows it is asked what waits by now. One that answers the same
between its windows does not look meanwhile: then what arrives is assumed to come as it did before. The same
answer at the end of a window says that nothing has arrived.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ridgeline.measure.progress.estimate import UNKNOWN, Basis, Estimate, total

_KEPT_ANSWERS = 64
_FEWEST = 2
_CLOSE_SECONDS = 0.25
_LEAST_SPAN_SECONDS = 1.0
"""Answers may come late, as when a process starts: no rate is taken of closer ones."""


@dataclass(slots=True)
class _Partition:
    """One partition of an input: amounts are cumulative, times are STRAM's clock."""

    committed: float | None = None
    taken: dict[int, float] = field(default_factory=dict)
    """By window in flight, what it has taken by its end."""
    at: float = -math.inf
    consumed: float | None = None
    remaining: float | None = None
    polls: bool = False
    """It was seen to know of arrivals between its windows."""
    totals: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_KEPT_ANSWERS))
    """When it looked, and all that had arrived by then."""

    def answer(self, at: float, consumed: float | None, remaining: float | None, *, looked: bool) -> None:
        """It was asked. An answer that is older than the last one is left out.

        `looked`: it has had a window since, so an equal answer says that nothing has arrived.
        """
        if at < self.at:
            return
        arrived = _sum(consumed, remaining)
        if consumed == self.consumed and remaining == self.remaining and arrived is not None:
            if self.polls or looked:
                self.at = at
                self._note(at, arrived)
            return
        if self.consumed is not None and consumed == self.consumed and arrived is not None:
            self.polls = True
        self.at, self.consumed, self.remaining = at, consumed, remaining
        if arrived is not None:
            if self.totals and arrived < self.totals[-1][1]:
                self.totals.clear()
            self._note(at, arrived)

    def _note(self, at: float, arrived: float) -> None:
        """Keep a total; of those that follow each other closely only the last."""
        if len(self.totals) >= _FEWEST and at - self.totals[-2][0] < _CLOSE_SECONDS:
            self.totals.pop()
        self.totals.append((at, arrived))

    def arrived(self, now: float | None, seconds: float) -> Estimate:
        """All that has arrived by `now`; None: by the last answer, so that it is exact.

        `seconds`: over how long the rate is taken, if it has to be.
        """
        amount = _sum(self.consumed, self.remaining)
        if amount is None or math.isinf(amount):
            return Estimate(amount)
        since = 0.0 if now is None else now - self.at
        rate = self._rate(seconds) if since > 0 else 0.0
        if rate is None:
            return Estimate(amount, Basis.LOWER_BOUND if since > seconds else Basis.ESTIMATED)
        if not rate:
            return Estimate(amount)
        return Estimate(amount + rate * since, Basis.ESTIMATED)

    def _rate(self, seconds: float) -> float | None:
        """Arrivals per second as it was last known; None before two answers that are far enough apart."""
        if len(self.totals) < _FEWEST:
            return None
        end, last = self.totals[-1]
        first = next(
            (
                one
                for number, one in enumerate(self.totals)
                if one[0] >= end - seconds or number == len(self.totals) - _FEWEST
            )
        )
        span = end - first[0]
        return (last - first[1]) / span if span >= _LEAST_SPAN_SECONDS else None


class Ledger:
    """Keeps the books of one Python input over all its partitions."""

    def __init__(self) -> None:
        self._partitions: dict[int, _Partition] = {}

    def repartition(self, partitions: Collection[int]) -> None:
        """Others report from now on."""
        self._partitions = {one: kept for one, kept in self._partitions.items() if one in partitions}

    def answer(
        self,
        partition: int,
        at: float,
        consumed: float | None,
        remaining: float | None,
        *,
        looked: bool = False,
    ) -> None:
        """A partition was asked at a time. `looked`: at the end of a window, in which it looks."""
        self._of(partition).answer(at, consumed, remaining, looked=looked)

    def taken(
        self, window_id: int, partition: int, consumed: float | None, before: float | None = None
    ) -> None:
        """The records that a partition has taken by the end of a window in flight.

        `before`: by its begin, where that is known. All of it was committed by a run before.
        """
        one = self._of(partition)
        if consumed is not None:
            one.taken[window_id] = consumed
            if one.committed is None:
                one.committed = before

    @property
    def known(self) -> bool:
        """True if a window in flight or committed was reported."""
        return any(one.taken or one.committed is not None for one in self._partitions.values())

    def committed(self, window_id: int, partition: int, consumed: float | None) -> None:
        """A window is committed with what a partition has taken by its end."""
        one = self._of(partition)
        one.committed = consumed
        one.taken = {number: taken for number, taken in one.taken.items() if number > window_id}

    def void(self, first: int) -> None:
        """Windows from this one on begin again: reports of them do not count."""
        for one in self._partitions.values():
            one.taken = {number: taken for number, taken in one.taken.items() if number < first}

    def consumed(self, partitions: Collection[int], done: Mapping[int, float]) -> tuple[float | None, bool]:
        """The records processed, and whether that is counted.

        `done`: by window in flight, which part of what it holds is processed.
        """
        amount, counted = 0.0, True
        for partition in partitions:
            one = self._partitions.get(partition)
            before = None if one is None else one.committed
            if one is None or (before is None and not one.taken):
                return None, False
            before = before or 0.0
            amount += before
            for window_id, taken in sorted(one.taken.items()):
                held, before = max(0.0, taken - before), max(before, taken)
                counted = counted and not held
                amount += held * done.get(window_id, 0.0)
        return amount, counted

    def knows(self, partitions: Collection[int], window_id: int) -> bool:
        """True if all partitions have said what a window holds."""
        known = (self._partitions.get(partition) for partition in partitions)
        return all(one is not None and window_id in one.taken for one in known)

    def held(self, partitions: Collection[int], window_id: int) -> float:
        """The records that a window in flight holds."""
        found = 0.0
        for partition in partitions:
            one = self._partitions.get(partition)
            if one is not None and window_id in one.taken:
                before = max(
                    (taken for number, taken in one.taken.items() if number < window_id),
                    default=one.committed or 0.0,
                )
                found += max(0.0, one.taken[window_id] - before)
        return found

    def taken_ahead(self, partitions: Collection[int]) -> float:
        """The records that windows in flight hold, processed or not."""
        ahead = 0.0
        for partition in partitions:
            one = self._partitions.get(partition)
            if one is not None and one.taken:
                ahead += max(0.0, max(one.taken.values()) - (one.committed or 0.0))
        return ahead

    def arrived(self, partitions: Collection[int], now: float | None, seconds: float) -> Estimate:
        """All that has arrived, of all partitions."""
        return total(
            UNKNOWN if (one := self._partitions.get(partition)) is None else one.arrived(now, seconds)
            for partition in partitions
        )

    def as_of(self, partitions: Collection[int]) -> float:
        """When the partition was asked that was not asked for longest."""
        return min(
            (self._partitions[one].at for one in partitions if one in self._partitions), default=-math.inf
        )

    def _of(self, partition: int) -> _Partition:
        return self._partitions.setdefault(partition, _Partition())


def _sum(consumed: float | None, remaining: float | None) -> float | None:
    """The records that have arrived; negative `remaining` is infinite."""
    if consumed is None or remaining is None or math.isnan(remaining) or math.isnan(consumed):
        return None
    return math.inf if remaining < 0 else consumed + remaining
