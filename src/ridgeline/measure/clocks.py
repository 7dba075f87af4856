"""How far the hosts' clocks are from STRAM's, from messages that go one way.

Each message gives r - s = offset + delay: it was sent at s (the host's clock) and received at r (STRAM's). A
delay is never negative.

The average of that over the last messages is Apex's estimate: it counts the mean delay as a part of the
offset. The minimum-delay estimate draws a line below all points (s, r - s), as near to them as possible. Its
height is the offset plus the smallest delay, its slope the drift. See V. Paxson, "On Calibrating Measurements
of Packet Transit Times", 1998. See also S. Moon, P. Skelly, D. Towsley, "Estimation and Removal of Clock Skew
from Network Delay Measurements", 1999.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from ridgeline.measure.events import WindowReported

STEEPEST_SLOPE = 1e-2
"""The greatest drift that is believed: 10 ms per second.

A quartz drifts by less than 0.1 ms per second. NTP slews by at most 0.5, virtual machines by some more. Twice
5 ms per second passes. A steeper line is caused by delays, or by a clock that was set, and would be far off
where there are no points.
"""
FEWEST_SAMPLES = 5
SHORTEST_SECONDS = 2.0
"""Fewer samples, or samples within less time, give no slope: the plain minimum is taken.

Delays would look like drift, and no clock drifts far in that time.
"""
_FARTHEST_SECONDS = 1e11  # 3,000 years: no clock, but a broken message

Point = tuple[float, float]
_NO_CORRECTION = (0.0, 0.0, 0.0, 0.0, 0.0)
"""`Line.values` of a clock that is STRAM's, or of which nothing is known."""
_OF_CONTAINERS = ("began", "restored", "ran", "written", "sent", "ready")
_OF_OPERATORS = ("began", "ended", "state_written")
"""The columns of reports that are times of the host's clock."""


@dataclass(frozen=True, slots=True)
class Line:
    """A clock's offset as a function of its time.

    Outside of `first` to `last` the line continues for the same length, then it is level.
    """

    at: float
    offset: float
    slope: float
    first: float
    last: float

    @property
    def values(self) -> tuple[float, float, float, float, float]:
        """A time, the offset at it, the slope, and from when to when that is followed."""
        span = self.last - self.first
        return self.at, self.offset, self.slope, self.first - span, self.last + span

    def value(self, at: float) -> float:
        """The offset at a time of the clock."""
        begin, offset, slope, first, last = self.values
        return offset + slope * (min(max(at, first), last) - begin)


class ClockOffsets:
    """The clock offset of every host, from its last `samples` messages. One thread at a time.

    All offsets are seconds to add to the host's timestamps to get STRAM's time. `own_host` is where STRAM
    runs: one clock, so its offset is exactly 0 and its messages are no samples.
    """

    def __init__(self, samples: int = 100, own_host: str = "") -> None:
        self.own_host = own_host
        self._samples = samples
        self._points: dict[str, deque[Point]] = {}
        self._lines: dict[str, Line] = {}

    def add(self, host: str, sent: float, received: float) -> None:
        """Note a message: `sent` on the host's clock, `received` on STRAM's, seconds.

        Times that cannot be are left out.
        """
        if host == self.own_host or not abs(received - sent) < _FARTHEST_SECONDS:  # nor is NaN
            return
        points = self._points.get(host)
        if points is None:
            points = self._points[host] = deque(maxlen=self._samples)
        points.append((sent, received - sent))
        self._lines.pop(host, None)

    def add_reports(self, event: WindowReported) -> None:
        """Note the messages by which containers have reported a window."""
        own = event.containers
        for number, host in enumerate(event.hosts):
            if host != self.own_host:
                sent = own[own["host"] == number][-self._samples :]
                for at, received in zip(sent["written"].tolist(), sent["received"].tolist(), strict=True):
                    self.add(host, at, received)

    def offset(self, host: str, at: float) -> float:
        """The minimum-delay estimate when the host's clock showed `at`; 0 for an unknown host.

        It contains the smallest delay.

        The line is the edge of the points' lower convex hull that spans their mean time. Of all lines below
        the points it has the least sum of distances. It is followed beyond the samples for no longer than
        they span. Where it cannot be trusted (`FEWEST_SAMPLES`, `SHORTEST_SECONDS`, `STEEPEST_SLOPE`), it is
        level through the lowest point.

        Limits: a delay that all messages share counts as offset; that can only be distinguished by an
        answer. Of a clock that was set back, the old samples have to go first.
        """
        line = self._line(host)
        return 0.0 if line is None else line.value(at)

    def _line(self, host: str) -> Line | None:
        """The line of a host's points; None without points."""
        line = self._lines.get(host)
        if line is None and (points := self._points.get(host)):
            line = self._lines[host] = _line_below(sorted(points))
        return line

    def lines(self) -> Mapping[str, Line]:
        """By host, the line of its clock's offset as it is known now; without those that have none."""
        return {host: line for host in self._points if (line := self._line(host)) is not None}

    def skew_ms(self) -> dict[str, float]:
        """By host, the offset as of its last message."""
        return {
            host: 1000 * self.offset(host, points[-1][0]) for host, points in sorted(self._points.items())
        }


def on_our_clock(event: WindowReported, lines: Mapping[str, Line]) -> WindowReported:
    """The reports of a window with all times on STRAM's clock; 0 (not known) stays.

    `lines`: by host; where one is missing it is STRAM's own. Each time is corrected by the offset at that
    time, since clocks drift within long windows.
    """
    if lines.keys().isdisjoint(event.hosts):
        return event
    of_hosts = np.array([lines[host].values if host in lines else _NO_CORRECTION for host in event.hosts])
    tables = event.containers.copy(), event.operators.copy()
    for table, names in zip(tables, (_OF_CONTAINERS, _OF_OPERATORS), strict=True):
        at, offset, slope, first, last = of_hosts[table["host"]].T
        times = np.array([table[name] for name in names])
        found = times + offset + slope * (np.clip(times, first, last) - at)
        for name, own in zip(names, np.where(times == 0.0, times, found), strict=True):
            table[name] = own
    return replace(event, containers=tables[0], operators=tables[1])


def _line_below(points: list[Point]) -> Line:
    """The line below sorted points, level if there is no ground for a slope."""
    first, last = points[0][0], points[-1][0]
    lowest = min(map(itemgetter(1), points))
    level = Line(first, lowest, 0.0, first, last)
    if len(points) < FEWEST_SAMPLES or last - first < SHORTEST_SECONDS:
        return level
    mean = math.fsum(map(itemgetter(0), points)) / len(points)
    hull = _lower_hull(points)
    right = next((number for number, (time, _) in enumerate(hull) if time >= mean and number), len(hull) - 1)
    (left_time, left), (right_time, height) = hull[right - 1], hull[right]
    slope = (height - left) / (right_time - left_time)
    return Line(left_time, left, slope, first, last) if abs(slope) <= STEEPEST_SLOPE else level


def _lower_hull(points: list[Point]) -> list[Point]:
    """The lower convex hull of sorted points, from left to right (A.

    M. Andrew's monotone chain, 1979); each time occurs once.
    """
    hull: list[Point] = []
    for time, height in points:
        if hull and hull[-1][0] == time:
            continue  # the lower one came first
        while len(hull) > 1:
            (before, base), (middle, top) = hull[-2:]
            if (top - base) * (time - before) < (height - base) * (middle - before):
                break
            hull.pop()
        hull.append((time, height))
    return hull
