"""Reasons to wait with the next window: streams between containers are full, or no input has tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ridgeline.plan.protocol import WindowReport
from ridgeline.stram.windows import InFlightWindow


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that may wait between containers: `limit` tuples of `sources`, or bytes of their containers.

    `sources`: (physical operator, output port). `producers` and `consumers`: the containers on both sides.
    """

    limit: int
    in_bytes: bool
    sources: frozenset[tuple[int, str]]
    producers: frozenset[int]
    consumers: frozenset[int]

    def waiting(self, window: InFlightWindow) -> int:
        """Tuples or bytes that were sent in a window, and that not all consumers have processed."""
        if window.reports.keys() >= self.consumers:
            return 0
        sent = [window.reports[one] for one in self.producers if one in window.reports]
        if self.in_bytes:
            return sum(report.window.bytes_out for report in sent)
        return sum(
            count
            for report in sent
            for one in report.operators
            for port, count in one.window.tuples_out.items()
            if (one.window.operator, port) in self.sources
        )


class Waiting:
    """The bounds that `queue_capacity` and `buffer_memory_mb` set; none where neither is given."""

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._bounds = bounds

    def full(self, windows: Iterable[InFlightWindow]) -> bool:
        """True if a stream has no room for what a further window may send."""
        if not self._bounds:
            return False
        running = [window for window in windows if window.valid]
        return any(sum(map(bound.waiting, running)) >= bound.limit for bound in self._bounds)


class IdleInputs:
    """The inputs that wait for their tuples, as far as they have reported."""

    def __init__(self, *, tracked: bool) -> None:
        """`tracked`: an input of the plan may say that it is idle; else reports are not looked at."""
        self._tracked = tracked
        self._idle: set[int] = set()
        self.delays = False
        """Whether delay operators have tuples for the next window, as far as is known."""

    def report(self, report: WindowReport) -> None:
        """Take in which operators of a container had no tuples in the last window that they reported."""
        if self._tracked:
            for one in report.operators:
                if one.idle:
                    self._idle.add(one.window.operator)
                else:
                    self._idle.discard(one.window.operator)

    def wake(self) -> None:
        """Inputs may have tuples from now on."""
        self._idle.clear()

    def all_of(self, inputs: frozenset[int]) -> bool:
        """True if all these inputs wait for their tuples, and nothing else has any for the next window."""
        return bool(self._idle) and self._idle >= inputs and not self.delays
