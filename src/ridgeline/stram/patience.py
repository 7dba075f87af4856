"""Patience with the cluster: after failures that no operator is to blame for, with exponential back-off.

No I/O, no clock of its own: `now` is the caller's monotonic clock.
"""

from __future__ import annotations

from dataclasses import replace

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import EXCHANGE, STORE

_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 10.0
LONG_TASKS = "slots are tasks that last as long as the application: does the cluster end long tasks?"
"""The hint where Spark ends slots for a reason that is not ours."""
PORTS = "do the hosts of executors reach each other, see `spark.ridgeline.slots.ports`?"
"""The hint where slots have never reached each other."""
PATIENCES = 30
"""After so many times the patience without a core for any slot a run ends."""


def back_off(failures: int) -> float:
    """How long to wait after so many failures in a row: not after the first, then twice as long each time."""
    return 0.0 if failures < 2 else min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(failures - 2, 16))  # noqa: PLR2004


class Patience:
    """Failures of the cluster since a window ran: `seconds` long they count for nothing."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.wait_until = 0.0
        """No attempt should begin before."""
        self._failures = 0
        self._since = 0.0
        self._ran = False
        """Whether a window ever ran: then slots could reach each other."""

    def failed(self, failure: Failure, now: float) -> Failure:
        """A failure as it is reported to STRAM: one of the cluster counts as an attempt after `seconds`.

        A store that does not answer never counts. Slots that do not reach each other, as they did before,
        count after `PATIENCES` times that: the network is cut between some hosts.
        """
        if not failure.cluster:
            return failure
        self._since = self._since if self._failures else now
        self._failures += 1
        self.wait_until = now + back_off(self._failures)
        lasted = now - self._since
        between = failure.callback == EXCHANGE
        limit = self.seconds * (PATIENCES if between and self._ran else 1)
        if lasted < limit or self._failures == 1 or failure.callback == STORE:
            return failure
        what = f"{failure.error}; the cluster has failed so for {lasted:.0f} s, and no window ran meanwhile"
        return replace(failure, error=f"{what}; {PORTS if between else LONG_TASKS}", cluster=False)

    def window_ran(self) -> None:
        """A window ran: what follows is another matter."""
        self._ran = True
        self.moved()

    def moved(self) -> None:
        """Containers live elsewhere now: what follows is another matter, too."""
        self._failures, self.wait_until = 0, 0.0
