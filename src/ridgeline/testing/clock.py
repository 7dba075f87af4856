"""A clock that moves only when told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from ridgeline.api.clock import Clock


class SteppingClock(Clock):
    """Time stands still until `advance`.

    Operators reach it as `self.context.clock`; `wait` advances it and returns at once.

    `start` without a time zone is taken as UTC.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = (start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp()
        self._seconds = 0.0
        self._lock = threading.Lock()

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ValueError for a negative number."""
        if seconds < 0:
            msg = f"time cannot go back; got {seconds} seconds"
            raise ValueError(msg)
        with self._lock:
            self._seconds += seconds

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return self._start + self._seconds

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._seconds

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """Advance by `seconds`; not at all, and True, if `stop` is set."""
        if stop is not None and stop.is_set():
            return True
        self.advance(max(0.0, seconds))
        return False
