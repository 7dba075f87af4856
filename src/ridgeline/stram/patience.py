"""How long what the cluster does is put up with: failures that are nobody's fault wait, longer each time.

No I/O, no clock of its own.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeline.api.errors import Failure

_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 10.0


def back_off(failures: int) -> float:
    """How long to wait after so many failures in a row: not after the first, then twice as long each time."""
    return 0.0 if failures < 2 else min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(failures - 2, 16))  # noqa: PLR2004


class Patience:
    """Failures of the cluster since a window ran: `seconds` long they count for nothing.

    `now` is the caller's monotonic clock.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.wait_until = 0.0
        """No attempt should begin before."""
        self._failures = 0
        self._since = 0.0

    def failed(self, failure: Failure, now: float) -> Failure:
        """A failure as STRAM is to hear of it: one of the cluster counts as an attempt after `seconds`."""
        if not failure.cluster:
            return failure
        self._since = self._since if self._failures else now
        self._failures += 1
        self.wait_until = now + back_off(self._failures)
        lasted = now - self._since
        if lasted < self.seconds or self._failures == 1:
            return failure
        what = f"{failure.error}; the cluster has failed so for {lasted:.0f} s, and no window ran meanwhile"
        return replace(failure, error=what, cluster=False)

    def went_on(self) -> None:
        """A window ran, or containers live elsewhere now: what follows is another matter."""
        self._failures, self.wait_until = 0, 0.0
