"""When it is to be said that something outside does not answer."""

from __future__ import annotations

from ridgeline.api.clock import Clock

_AGAIN_SECONDS = 60.0


class Outage:
    """The time in which something outside does not answer: it is said after a while, then once a minute.

    `since`: when it began, by the monotonic clock; None while all is well.
    """

    def __init__(self, clock: Clock, said_after: float = 0.0) -> None:
        self._clock, self._said_after = clock, said_after
        self.since: float | None = None
        self._said: float | None = None

    def goes_on(self, since: float) -> bool:
        """There was no answer, the first time at `since`. True if that is to be said now."""
        now = self._clock.monotonic()
        self.since = since if self.since is None else self.since
        if now < (self.since + self._said_after if self._said is None else self._said + _AGAIN_SECONDS):
            return False
        self._said = now
        return True

    def end(self) -> float | None:
        """It has answered. Returns how long it did not, in seconds, if that was said."""
        since, said, self.since, self._said = self.since, self._said, None, None
        return None if since is None or said is None else self._clock.monotonic() - since
