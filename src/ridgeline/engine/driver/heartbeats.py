"""STRAM's half of heartbeats: the last one of each worker, and a bounded report of what is refused."""

from __future__ import annotations

import contextlib
import json
import math
import socket
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.clock import Clock
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.driver.watchdog import Worker
from ridgeline.engine.exchange.network import LATE, MALFORMED, REASONS, TOO_LARGE, TOO_MANY
from ridgeline.engine.process import stacks
from ridgeline.measure.encoding import from_dict
from ridgeline.measure.events import (
    ContainerHeartbeat,
    MessagesRefused,
    RunEvent,
    WindowCommitted,
)
from ridgeline.plan.execution import Plan

MAXIMUM_BYTES = 1 << 20
"""Of one heartbeat; workers send a quarter of it at most."""
_MOST_A_SECOND = 20
"""How many heartbeats of one worker count in a second, if its interval is not much shorter."""
_MOST_OF_ALL = 2_000
"""The most heartbeats a second of all workers together: each one costs the driver about 0.1 ms."""
_LEAST_IN_TIMEOUT = 4
"""The fewest heartbeats of a worker in `heartbeat_timeout`."""
_DEAF_SECONDS = 5.0
_KNOWN_WORKERS = 10_000
_LONGEST_WHOLE_NUMBER = 18
_REPORT_SECONDS = 1.0


def heartbeat_seconds(plan: Plan) -> float | None:
    """How often workers send heartbeats; None for never, at recording level OFF."""
    attributes = plan.logical.attributes
    if attributes["metrics_recording_level"] is RecordingLevel.OFF:
        return None
    return float(attributes["heartbeat_interval"])


def spaced_seconds(interval: float, timeout: float, workers: int) -> float:
    """How often each of many workers sends heartbeats: as often as `interval` says, or as the driver bears.

    With so many workers that they would be too many they come less often, but in time for the watchdog.
    """
    return max(interval, min(workers / _MOST_OF_ALL, timeout / _LEAST_IN_TIMEOUT))


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


class Heartbeats:
    """The last heartbeat of each worker that is connected.

    `observe` gets those that count, with `at` the time of receipt. It gets MessagesRefused for what does not
    count: malformed, too large, late (of a window that is committed) or too many. `log`: has what operators
    have said.
    The thread that reads the network calls `take`, `lost` and `all_read`; any thread calls the others.
    """

    def __init__(
        self,
        observe: Callable[[RunEvent], None],
        clock: Clock,
        most_a_second: int = _MOST_A_SECOND,
        log: OperatorLog | None = None,
    ) -> None:
        self.log = log or OperatorLog()
        self._observe = observe
        self._clock = clock
        self._refusals = RefusalReports(observe, clock)
        self._committed = -1
        self._lasts: dict[Hashable, tuple[float, ContainerHeartbeat]] = {}
        self._counts: dict[Hashable, tuple[int, int]] = {}
        """The last whole second in which a worker has sent heartbeats, and how many."""
        self._most_a_second = most_a_second
        self._processes: dict[tuple[str, int], None] = {}
        self._read = clock.monotonic()
        """When all that had come was read: the thread that reads may be busy for long."""

    @property
    def refused(self) -> Mapping[str, int]:
        """How much was refused so far, by reason."""
        return dict(self._refusals.totals)

    def expect(self, interval_seconds: float) -> None:
        """Workers send heartbeats so often."""
        self._most_a_second = max(_MOST_A_SECOND, math.ceil(4 / interval_seconds))

    def take(self, worker: Hashable, data: bytes) -> None:
        """Take a heartbeat of a worker in; what does not count is counted."""
        now, name = self._clock.monotonic(), str(worker)
        second, count = self._counts.get(worker, (0, 0))
        self._counts[worker] = (int(now), 1 if second != int(now) else count + 1)
        if second == int(now) and count >= self._most_a_second:
            self._refusals.add(TOO_MANY, name)
            return
        if len(data) > MAXIMUM_BYTES:
            self._refusals.add(TOO_LARGE, name)
            return
        beat = read_heartbeat(data)
        if beat is None:
            self._refusals.add(MALFORMED, name)
            return
        self._lasts[worker] = (now, beat)
        self._processes[beat.host, beat.pid] = None
        if len(self._processes) > _KNOWN_WORKERS:
            del self._processes[next(iter(self._processes))]
        at = self._clock.wall()
        if beat.container >= 0 and beat.window_id <= self._committed:
            self._refusals.add(LATE, name)
            beat = replace(beat, container=-1, window_id=-1, attempt=0, began=0.0, operators=(), stack="")
        with contextlib.suppress(Exception):
            self._observe(replace(beat, at=at))

    def take_said(self, worker: Hashable, data: bytes) -> None:
        """Take in what operators of a worker have said; what does not count is counted."""
        if len(data) > MAXIMUM_BYTES:
            self._refusals.add(TOO_LARGE, str(worker))
        elif not self.log.take(data):
            self._refusals.add(MALFORMED, str(worker))

    def lost(self, worker: Hashable) -> None:
        """The connection to a worker is lost."""
        self._lasts.pop(worker, None)
        self._counts.pop(worker, None)

    def all_read(self, refused: Mapping[str, int]) -> None:
        """All that had come is read. `refused`: by the network so far, by reason."""
        self._refusals.take(refused)
        self._refusals.report()
        self._read = self._clock.monotonic()

    def close(self) -> None:
        """Forget the workers, and report what was refused and not yet reported."""
        self._lasts.clear()
        self._refusals.report(last=True)

    # Any thread ---------------------------------------------------------------------------------------------

    def follow(self, event: RunEvent) -> None:
        """Take in an event of the run: heartbeats of windows up to a committed one are late."""
        if isinstance(event, WindowCommitted):
            self._committed = max(self._committed, event.window_id)

    def workers(self) -> list[Worker]:
        """The workers that are connected, each with its last heartbeat; none while others may be unread."""
        now = self._clock.monotonic()
        if now - self._read > _DEAF_SECONDS:
            return []
        return [Worker(now - when, beat) for when, beat in list(self._lasts.values())]

    def stack_of(self, host: str, pid: int) -> str | None:
        """The stacks of the threads of a worker on this host that has sent heartbeats; None for any other.

        Blocks for a second at most.
        """
        if host != socket.gethostname() or (host, pid) not in self._processes:
            return None
        return stacks.dump(pid, self._clock)


def read_heartbeat(data: bytes) -> ContainerHeartbeat | None:
    """A heartbeat as it came, None for what is none. Raises nothing."""
    try:
        found = from_dict(
            json.loads(data.decode(), parse_float=_finite, parse_int=_whole, parse_constant=_finite)
        )
    except Exception:  # noqa: BLE001  whatever it is, it is no heartbeat
        return None
    if not isinstance(found, ContainerHeartbeat):
        return None
    lines = tuple(
        replace(one, file=_printable(one.file), function=_printable(one.function), text=_printable(one.text))
        for one in found.lines
    )
    return replace(
        found,
        host=_printable(found.host),
        stack=_printable(found.stack),
        operators=tuple(
            replace(one, record=_printable(one.record)) if one.record else one for one in found.operators
        ),
        lines=lines,
    )


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
