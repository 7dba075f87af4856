"""The one module that reads the machine's clocks; all other code asks a `Clock`."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime


class Clock(ABC):
    """Source of all times: durations come from `monotonic`, timestamps from `wall`. Thread-safe.

    Operators read `self.context.clock`. Tests give a `SteppingClock`.

    Example:
        >>> from ridgeline import Clock
        >>> class NoonClock(Clock):
        ...     def wall(self) -> float:
        ...         return 43_200.0
        ...
        ...     def monotonic(self) -> float:
        ...         return 0.0
        ...
        ...     def wait(self, seconds, stop=None) -> bool:
        ...         return stop is not None and stop.is_set()
        >>> NoonClock().now().isoformat()
        '1970-01-01T12:00:00+00:00'
    """

    @abstractmethod
    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some fixed moment; never decreases."""

    @abstractmethod
    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Block until `seconds` have passed or `stop` is set; return True if it was set.

        Returns at once if `seconds` <= 0.
        """

    def cpu(self) -> float:
        """Processor seconds of the calling thread. A clock without such a reading takes all time for them."""
        return self.monotonic()

    def now(self) -> datetime:
        """The wall clock as an aware datetime in UTC."""
        return datetime.fromtimestamp(self.wall(), tz=UTC)


_STEP_SECONDS = 1.0


class SteadyTime:
    """The wall clock without its steps back: it goes on by the monotonic clock, and never stands still.

    A host's clock is set back by NTP, or when a virtual machine is resumed. What waits for a time would wait
    for so much longer. Once the clock is set forward again, it is followed again.

    >>> from ridgeline.testing import SteppingClock
    >>> clock = SteppingClock()
    >>> steady = SteadyTime(clock)
    >>> before = steady.now()
    >>> clock.advance(2.0)
    >>> steady.now() - before
    2.0
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0
        """How far the wall clock was set back."""
        self._last, self._at = clock.wall(), clock.monotonic()

    def now(self) -> float:
        """Seconds since 1970."""
        at, wall = self._clock.monotonic(), self._clock.wall()
        step = wall + self._ahead - (self._last + at - self._at)
        if step < -_STEP_SECONDS:
            self._ahead -= step
        elif step > _STEP_SECONDS:
            self._ahead = max(0.0, self._ahead - step)
        self._last, self._at = max(self._last, wall + self._ahead), at
        return self._last


class Timeline:
    """Timestamps that never decrease, for one stretch of work.

    Reads the wall clock once, then adds what the monotonic clock measures.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.wall()
        self._start = clock.monotonic()

    def now(self) -> float:
        """Seconds since 1970-01-01 UTC; reads one clock."""
        return self._wall + (self._clock.monotonic() - self._start)


class SystemClock(Clock):
    """The machine's clocks.

    Example:
        >>> from ridgeline import SystemClock
        >>> clock = SystemClock()
        >>> before = clock.monotonic()
        >>> clock.wait(0.001), clock.monotonic() > before
        (False, True)
    """

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    def monotonic(self) -> float:
        """`time.perf_counter()`."""
        return time.perf_counter()

    def cpu(self) -> float:
        """`time.thread_time()`."""
        return time.thread_time()

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Block until `seconds` have passed or `stop` is set; return True if it was set."""
        if stop is None:
            if seconds > 0:
                time.sleep(seconds)
            return False
        return stop.wait(max(0.0, seconds))
