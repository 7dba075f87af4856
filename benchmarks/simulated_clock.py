"""Simulated time for a driver that runs as it is: it passes while the driver works, and while it waits.

The driver's own processor time moves the clock, that of the simulation does not. Where the driver waits the
clock goes on to what happens next. So an hour of a cluster takes as long as the driver works in it.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from ridgeline.api.clock import Clock

START = 1_767_225_600.0
"""2026-01-01 UTC, by the wall clock."""
_LOOK_SECONDS = 0.01


class SimulatedClock(Clock):
    """The clock of a simulated cluster. The thread that makes it is the driver's.

    `works`: the driver's processor time moves it, times this factor; 0: nothing but `advance` does, so that
    two runs are the same. Other threads see the time as of the driver's last step, and wait for it.
    """

    def __init__(self, works: float = 1.0) -> None:
        self.apart_seconds = 0.0
        """Processor seconds of the driver's thread that were the simulation's."""
        self._works = works
        self._driver = threading.get_ident()
        self._seconds = 0.0
        self._mark = time.thread_time()
        self._pause = _Apart(self)

    def wall(self) -> float:
        """Seconds since 1970."""
        return START + self.monotonic()

    def monotonic(self) -> float:
        """Simulated seconds since the start."""
        if self._works and not self._pause.is_open and threading.get_ident() == self._driver:
            self.note()
        return self._seconds

    def note(self) -> float:
        """The time goes on by what the driver has worked until now, which is returned: processor seconds."""
        now = time.thread_time()
        self._seconds += self._works * (now - self._mark)
        self._mark = now
        return now

    def skip(self, began: float) -> None:
        """What this thread has worked since then was the simulation's."""
        self._mark = time.thread_time()
        self.apart_seconds += self._mark - began

    def cpu(self) -> float:
        """Processor seconds of the calling thread."""
        return time.thread_time()

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """In the driver's thread the time passes at once; other threads wait until the driver is there."""
        if threading.get_ident() == self._driver:
            if stop is not None and stop.is_set():
                return True
            self.advance(self.monotonic() + seconds)
            return False
        stop = stop or threading.Event()
        until = self._seconds + seconds
        while not stop.wait(_LOOK_SECONDS):
            if self._seconds >= until:
                return False
        return True

    def advance(self, until: float) -> None:
        """Let the time pass up to this one; does nothing if it has."""
        self._seconds = max(self.monotonic(), until)

    def apart(self) -> _Apart:
        """Within the block the simulation works: no time passes."""
        return self._pause


class _Apart:
    """The block of `SimulatedClock.apart`. Blocks may lie in each other; the outermost counts.

    It is entered for each message, so it is made once.
    """

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._depth = 0
        self._began = 0.0

    @property
    def is_open(self) -> bool:
        """True within a block."""
        return self._depth > 0

    def __enter__(self) -> None:
        if not self._depth:
            self._began = self._clock.note()
        self._depth += 1

    def __exit__(self, *_error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._clock.skip(self._began)


class Agenda:
    """What happens later in a simulation, in order of time."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something so much later."""
        self.at(self.clock.monotonic() + seconds, do)

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Do something at this time, by the monotonic clock."""
        heapq.heappush(self._entries, (when, next(self._numbers), do))

    def go_on(self, until: float, enough: Callable[[], bool]) -> None:
        """Do what is due; let the time pass, up to `until`, until something has happened that is enough."""
        while True:
            now = self.clock.monotonic()
            while self._entries and self._entries[0][0] <= now:
                heapq.heappop(self._entries)[2]()
            if enough() or now >= until:
                return
            self.clock.advance(min(until, self._entries[0][0]) if self._entries else until)
