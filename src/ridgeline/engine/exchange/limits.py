"""The limits of a network, and the count of what it refused."""

from __future__ import annotations

import logging
import math
import resource
import sys
from dataclasses import dataclass

from ridgeline.api.clock import Clock
from ridgeline.api.support.masking import printable
from ridgeline.engine.exchange.frames import MAXIMUM_BYTES
from ridgeline.engine.exchange.network import REASONS
from ridgeline.engine.exchange.streams import SILENT_SECONDS

_log = logging.getLogger(__name__)
_REPORT_SECONDS = 1.0
PAUSE_SECONDS = 0.1
"""How long no connection is taken in after strangers have come too fast."""
_MOST_REFUSALS = 10
"""Connections refused in `PAUSE_SECONDS`: about a millisecond of work."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a network.

    `frame_bytes`: of one frame. `strangers`: connections whose other end has not said hello; the oldest goes
    first. `hello_seconds`: for TLS and that hello. `connect_seconds`: until a host that this end connects to
    answers. `answer_seconds`: for the hello from there, where a callback may be running.
    `silent_seconds`: a host that acknowledges nothing for so long is cut off.
    """

    frame_bytes: int = MAXIMUM_BYTES
    strangers: int = 1024
    hello_seconds: float = 10.0
    connect_seconds: float = 20.0
    answer_seconds: float = 120.0
    silent_seconds: float = SILENT_SECONDS


def share_of_descriptors(parts: int) -> int:
    """One of so many equal parts of the files that this process may open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // parts


def descriptors_are_few(newest: int) -> bool:
    """True if a descriptor just opened, which has the lowest free number, is one of the last eighth.

    Those are for the journal, the state and Spark: no stranger gets them.
    """
    return newest >= share_of_descriptors(8) * 7


class Refusals:
    """Counts what is refused, by reason; logs it, one line a second and reason at most."""

    def __init__(self, clock: Clock) -> None:
        self.totals = dict.fromkeys(REASONS, 0)
        self._clock = clock
        self._logged: dict[str, float] = {}
        self._counted_from = -math.inf
        self._counted = 0

    @property
    def too_fast(self) -> bool:
        """True if so much was refused just now that the next connection has to wait for `PAUSE_SECONDS`.

        A peer that connects again and again takes no more than that share of the time.
        """
        recent = self._clock.monotonic() - self._counted_from < PAUSE_SECONDS
        return recent and self._counted >= _MOST_REFUSALS

    def add(self, reason: str, where: str, detail: str) -> None:
        """A connection from `where` was refused."""
        self.totals[reason] += 1
        now = self._clock.monotonic()
        if now - self._counted_from >= PAUSE_SECONDS:
            self._counted_from, self._counted = now, 0
        self._counted += 1
        if now - self._logged.get(reason, -math.inf) >= _REPORT_SECONDS:
            self._logged[reason] = now
            total = self.totals[reason]
            _log.warning(
                "a connection from %s was refused: %s (%s); %d so far",
                where, reason, printable(detail), total,
            )  # fmt: skip
