"""A clock that only moves when a test advances it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from ridgeline.api.clock import Clock


class SteppingClock(Clock):
    """A clock that stands still until `advance`.

    Operators read it as `self.context.clock`; its `wait` advances it and returns at once. `start` without a
    time zone is taken as UTC.

    Example:
        >>> clock = SteppingClock(datetime(2026, 1, 1))
        >>> clock.advance(90)
        >>> datetime.fromtimestamp(clock.wall(), UTC).isoformat()
        '2026-01-01T00:01:30+00:00'
        >>> clock.wait(30), clock.monotonic()
        (False, 120.0)
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = (start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp()
        self._seconds = 0.0
        self._lock = threading.Lock()

    def advance(self, seconds: float) -> None:
        """Advance the clock. Raises ValueError for a negative number."""
        if seconds < 0:
            raise ValueError(f"time cannot go back; got {seconds} seconds")
        with self._lock:
            self._seconds += seconds

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return self._start + self._seconds

    def monotonic(self) -> float:
        """Seconds since the clock was created."""
        return self._seconds

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Advance by `seconds` and return False; if `stop` is set, return True and do not advance."""
        if stop is not None and stop.is_set():
            return True
        self.advance(max(0.0, seconds))
        return False
