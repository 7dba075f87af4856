"""Reading what comes to the heartbeat port, and reporting what was refused at a bounded rate."""

from __future__ import annotations

import contextlib
import hmac
import json
import math
from collections.abc import Callable
from dataclasses import replace

from ridgeline.engine.exchange.network import MALFORMED, REASONS, UNAUTHENTICATED
from ridgeline.engine.worker.heartbeat import VERSION
from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import ContainerHeartbeat, HeartbeatRejected, RunEvent

_LONGEST_WHOLE_NUMBER = 18
_REPORT_SECONDS = 1.0


class RejectedError(Exception):
    """A message does not count; `reason` is one of REASONS."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def read_message(body: bytes, secret: str) -> ContainerHeartbeat:
    """The heartbeat in a message, `at` as its sender had it. Raises RejectedError, and nothing else."""
    try:
        message = json.loads(body.decode(), parse_float=_finite, parse_int=_whole, parse_constant=_finite)
        given = message.get("secret")
        known = isinstance(given, str) and hmac.compare_digest(
            given.encode("utf-8", "replace"), secret.encode()
        )
    except Exception as error:
        raise RejectedError(MALFORMED) from error
    if not known:
        raise RejectedError(UNAUTHENTICATED)
    try:
        beat = from_dict(message["heartbeat"])
    except Exception as error:
        raise RejectedError(MALFORMED) from error
    if not isinstance(beat, ContainerHeartbeat) or message.get("version") != VERSION:
        raise RejectedError(MALFORMED)
    return replace(beat, host=_printable(beat.host), stack=_printable(beat.stack))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _whole(text: str) -> int:
    if len(text) > _LONGEST_WHOLE_NUMBER:
        raise ValueError(text)
    return int(text)


def _printable(text: str) -> str:
    """A text that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()


class Rejections:
    """Counts what is refused, and reports it to `observe`: one event a second and reason at most.

    Of one thread, but for `totals`.
    """

    def __init__(self, observe: Callable[[RunEvent], None], now: Callable[[], float]) -> None:
        self.totals = dict.fromkeys(REASONS, 0)
        self._observe = observe
        self._now = now
        self._pending: dict[str, tuple[int, str]] = {}
        self._reported: dict[str, float] = {}

    def add(self, reason: str, peer: str) -> None:
        """Something was refused."""
        self.totals[reason] += 1
        self._pending[reason] = (self._pending.get(reason, (0, ""))[0] + 1, peer)

    def report(self, monotonic: float = math.inf) -> None:
        """Report the reasons that are due; all by default."""
        for reason, (count, peer) in list(self._pending.items()):
            if monotonic - self._reported.get(reason, -math.inf) >= _REPORT_SECONDS:
                self._reported[reason] = monotonic
                del self._pending[reason]
                with contextlib.suppress(Exception):
                    self._observe(HeartbeatRejected(self._now(), reason, peer, count))
