"""Steps of the wall clock: it was set, or the machine slept. Times are given; no clock is read here."""

from __future__ import annotations

_LEAST_SECONDS = 2.0
_SLEWED = 0.001
"""Of the time since the last look: a time service may turn the clock by this much without a step."""


class ClockSteps:
    """Compares the wall clock with one that is never set."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._wall, self._monotonic = wall, monotonic

    def look(self, wall: float, monotonic: float) -> str:
        """A line about a step since the last look; empty if there was none.

        >>> steps = ClockSteps(1000.0, 0.0)
        >>> steps.look(1010.0, 10.1)
        ''
        >>> print(steps.look(951.0, 11.0))
        the clock of the driver's host was set back by 59.9 s; times and ages of windows under way \
are wrong by so much, durations are right: let a time service turn it slowly
        """
        passed = monotonic - self._monotonic
        step = wall - self._wall - passed
        self._wall, self._monotonic = wall, monotonic
        if abs(step) < _LEAST_SECONDS + _SLEWED * passed:
            return ""
        way = "back" if step < 0 else "forward, or the host slept,"
        wrong = "times and ages of windows under way are wrong by so much, durations are right"
        where = "the clock of the driver's host"
        return f"{where} was set {way} by {abs(step):.1f} s; {wrong}: let a time service turn it slowly"
