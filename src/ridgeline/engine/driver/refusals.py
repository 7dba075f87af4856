"""What STRAM refused of what has come in, reported at a bounded rate."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange.network import REASONS
from ridgeline.measure.events import MessagesRefused, RunEvent

_REPORT_SECONDS = 1.0


class RefusalReports:
    """Counts what is refused, and reports it to `observe`: one event a second and reason at most.

    Of one thread, but for `totals`.
    """

    def __init__(self, observe: Callable[[RunEvent], None], clock: Clock) -> None:
        self.totals = dict.fromkeys(REASONS, 0)
        self._observe = observe
        self._clock = clock
        self._network: dict[str, int] = {}
        self._pending: dict[str, tuple[int, str]] = {}
        self._reported: dict[str, float] = {}

    def add(self, reason: str, peer: str, count: int = 1) -> None:
        """Something was refused."""
        self.totals[reason] += count
        self._pending[reason] = (self._pending.get(reason, (0, ""))[0] + count, peer)

    def take(self, totals: Mapping[str, int]) -> None:
        """Take in what a network has refused in all."""
        if totals != self._network:
            for reason, total in totals.items():
                if more := total - self._network.get(reason, 0):
                    self.add(reason, "", more)
            self._network = dict(totals)

    def report(self, *, last: bool = False) -> None:
        """Report the reasons that are due; all that are left if it is the `last` time."""
        if not self._pending:
            return
        now = self._clock.monotonic()
        for reason, (count, peer) in list(self._pending.items()):
            if last or now - self._reported.get(reason, -math.inf) >= _REPORT_SECONDS:
                self._reported[reason] = now
                del self._pending[reason]
                with contextlib.suppress(Exception):
                    self._observe(MessagesRefused(self._clock.wall(), reason, peer, count))
