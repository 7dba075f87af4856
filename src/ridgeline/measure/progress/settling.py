"""When a run, or a plan, has just begun: samples of then say little of what follows."""

from __future__ import annotations

import math

_LEAST_SECONDS, _LEAST_WINDOWS = 2.0, 2
_MOST_SECONDS = 5.0
STUCK_SECONDS, STUCK_WINDOWS = 5.0, 2.0
"""Without a commit or any progress for the longer of both, windows are stuck."""


class Settling:
    """Settled is what has committed two windows and worked for two seconds, or has worked for five.

    It counts from the first window that is committed, or of which a heartbeat shows that it gets on.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        """The first window that counts; None before it is planned."""
        self._works_since = math.inf
        self._windows = 0
        self._over = False

    def begin(self) -> None:
        """A run or a plan begins with the next window."""
        self._first, self._works_since, self._windows, self._over = None, math.inf, 0, False

    def again(self, window_id: int) -> None:
        """From this window on all is done once more."""
        self.begin()
        self._first = window_id

    def planned(self, window_id: int) -> None:
        """A window begins."""
        if self._first is None:
            self._first = window_id

    def worked(self, window_id: int, at: float) -> bool:
        """A window gets on. True if it is the first to do so: earlier samples count no more."""
        if self._over or self._first is None or window_id < self._first or self._works_since < math.inf:
            return False
        self._works_since = at
        return True

    def committed(self, window_id: int, at: float) -> bool:
        """A window is committed. True as `worked`."""
        first = self.worked(window_id, at)
        self._windows += self._first is not None and window_id >= self._first
        return first

    @property
    def committed_any(self) -> bool:
        """True once a window of it is committed."""
        return self._windows > 0

    def settles(self, now: float) -> bool:
        """True as long as it is too early to say anything."""
        if not self._over:
            worked = now - self._works_since
            enough = worked >= _LEAST_SECONDS and self._windows >= _LEAST_WINDOWS
            self._over = enough or worked >= _MOST_SECONDS
        return not self._over
