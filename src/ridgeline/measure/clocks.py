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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import ContainerWindow, HostTime, OperatorWindow

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
Reported = TypeVar("Reported", ContainerWindow, OperatorWindow)
"""The events that a container fills in, with times of its host."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A clock's offset as a function of its time.

    Outside of `first` to `last` the line continues for the same length, then it is level.
    """

    at: float
    offset: float
    slope: float
    first: float
    last: float

    def value(self, at: float) -> float:
        span = self.last - self.first
        return self.offset + self.slope * (min(max(at, self.first - span), self.last + span) - self.at)


class ClockOffsets:
    """The clock offset of every host, from its last `samples` messages. One thread at a time.

    All offsets are seconds to add to the host's timestamps to get STRAM's time. `own_host` is where STRAM
    runs: one clock, so its offset is exactly 0 and its messages are no samples.
    """

    def __init__(self, samples: int = 100, own_host: str = "") -> None:
        self.own_host = own_host
        self._samples = samples
        self._points: dict[str, deque[Point]] = {}
        self._lines: dict[str, _Line] = {}

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

    def as_of_now(self) -> ClockOffsets:
        """The offsets of all hosts as they are now, which later messages do not change."""
        found = ClockOffsets(self._samples, self.own_host)
        found._lines = {host: line for host in self._points if (line := self._line(host)) is not None}
        return found

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

    def _line(self, host: str) -> _Line | None:
        """The line of a host's points; None without points."""
        line = self._lines.get(host)
        if line is None and (points := self._points.get(host)):
            line = self._lines[host] = _line_below(sorted(points))
        return line

    def all_corrected(self, events: Mapping[int, Reported]) -> Corrected[Reported]:
        """The events of a window with times on STRAM's clock, by the offsets as they are known now.

        Each time that a host read (`HostTime`) gets the offset at that time, since clocks drift within long
        windows. 0 (not known) stays. Where the clocks are one it is the event itself.
        """
        return Corrected(events, {host: self._line(host) for host in {one.host for one in events.values()}})

    def skew_ms(self) -> dict[str, float]:
        """By host, the offset as of its last message."""
        return {
            host: 1000 * self.offset(host, points[-1][0]) for host, points in sorted(self._points.items())
        }


class Corrected(Mapping[int, Reported], Generic[Reported]):
    """Events of a window with all times on STRAM's clock, as `ClockOffsets.all_corrected` makes them.

    An event is corrected when it is asked for: of most only some values are, of all of them at once.
    """

    def __init__(self, reported: Mapping[int, Reported], lines: Mapping[str, _Line | None]) -> None:
        self.reported: Mapping[int, Reported] = reported
        """The events as their hosts have filled them in."""
        self._lines = lines
        self._has_lines = any(lines.values())
        self._events: dict[int, Reported] = {}
        self._places: dict[int, int] = {}
        self._columns: dict[str, npt.NDArray[np.float64]] = {}
        self._of_lines: npt.NDArray[np.float64] | None = None

    def __getitem__(self, number: int) -> Reported:
        """The event of a host with its times by the driver's clock, corrected when it is first asked for."""
        if not self._has_lines:
            return self.reported[number]
        event = self._events.get(number)
        if event is None:
            event = self.reported[number]
            if not self._places:
                self._places = {one: place for place, one in enumerate(self.reported)}
            place = self._places[number]
            times: dict[str, Any] = {
                name: float(self.column(name)[place]) for name in _HOST_TIMES[type(event)]
            }
            event = self._events[number] = replace(event, **times)
        return event

    def __iter__(self) -> Iterator[int]:
        return iter(self.reported)

    def __len__(self) -> int:
        return len(self.reported)

    def __contains__(self, number: object) -> bool:
        return number in self.reported

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """A value of all events, in their order. Times that hosts read are on STRAM's clock."""
        found = self._columns.get(name)
        if found is None:
            value = attrgetter(name)
            found = np.array([value(event) for event in self.reported.values()], np.float64)
            if self._has_lines and any(name in names for names in _HOST_TIMES.values()):
                found = self._on_our_clock(found)
            self._columns[name] = found
        return found

    def _on_our_clock(self, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The times of all events on STRAM's clock; 0 (not known) stays."""
        if self._of_lines is None:
            numbers = {host: number for number, host in enumerate(self._lines)}
            rows = np.array([_values(line) for line in self._lines.values()])
            self._of_lines = rows[[numbers[event.host] for event in self.reported.values()]].T
        at, offset, slope, first, last = self._of_lines
        corrected = times + offset + slope * (np.clip(times, first, last) - at)
        return np.where(times == 0.0, times, corrected)


def corrected_events(events: Mapping[int, Reported]) -> Corrected[Reported]:
    """Events that are on STRAM's clock, with their columns."""
    return events if isinstance(events, Corrected) else Corrected(events, {})


def _values(line: _Line | None) -> tuple[float, float, float, float, float]:
    """The correction of a time: that of the line, its offset there, its slope, and how far it is followed."""
    if line is None:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    span = line.last - line.first
    return line.at, line.offset, line.slope, line.first - span, line.last + span


_HOST_TIMES: Mapping[type, tuple[str, ...]] = {
    kind: tuple(name for name, hint in get_type_hints(kind, include_extras=True).items() if hint == HostTime)
    for kind in (ContainerWindow, OperatorWindow)
}
"""The values that a host read from its clock."""


def _line_below(points: list[Point]) -> _Line:
    """The line below sorted points, level if there is no ground for a slope."""
    first, last = points[0][0], points[-1][0]
    lowest = min(difference for _, difference in points)
    level = _Line(first, lowest, 0.0, first, last)
    if len(points) < FEWEST_SAMPLES or last - first < SHORTEST_SECONDS:
        return level
    mean = first + math.fsum(time - first for time, _ in points) / len(points)
    hull = _lower_hull(points)
    right = next((number for number, (time, _) in enumerate(hull) if time >= mean and number), len(hull) - 1)
    (left_time, left), (right_time, height) = hull[right - 1], hull[right]
    slope = (height - left) / (right_time - left_time)
    return _Line(left_time, left, slope, first, last) if abs(slope) <= STEEPEST_SLOPE else level


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
