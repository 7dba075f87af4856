"""The one place where time comes from."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime


class Clock(ABC):
    """Where all times come from: durations from `monotonic`, timestamps from `wall`. Thread-safe."""

    @abstractmethod
    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    @abstractmethod
    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Block until `seconds` have passed or `stop` is set; True if it was set.

        `seconds` <= 0 returns at once.
        """

    def now(self) -> datetime:
        """The wall clock as an aware datetime in UTC."""
        return datetime.fromtimestamp(self.wall(), tz=UTC)


class Timeline:
    """Timestamps of one stretch of work: one reading of the wall clock, then the monotonic one, so that they never go back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.wall()
        self._start = clock.monotonic()

    def now(self) -> float:
        """Seconds since 1970-01-01 UTC; one clock reading."""
        return self._wall + (self._clock.monotonic() - self._start)


class SystemClock(Clock):
    """The machine's clocks."""

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    def monotonic(self) -> float:
        """`time.perf_counter()`."""
        return time.perf_counter()

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Block until `seconds` have passed or `stop` is set; True if it was set."""
        if stop is None:
            if seconds > 0:
                time.sleep(seconds)
            return False
        return stop.wait(max(0.0, seconds))
