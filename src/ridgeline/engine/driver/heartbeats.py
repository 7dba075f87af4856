"""STRAM's half of heartbeats: the last one of each worker, and a bounded report of what is refused.

They come on connections of the application, as reports do, so they are not checked.
"""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.clock import Clock
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.process import stacks
from ridgeline.engine.process.said_lines import ProcessLines
from ridgeline.measure.events import (
    ContainerHeartbeat,
    MessagesRefused,
    RunEvent,
    WindowCommitted,
)
from ridgeline.plan.execution import Plan

_MOST_OF_ALL = 2_000
"""The most heartbeats a second of all workers together: each one costs the driver about 0.1 ms."""
_LEAST_IN_TIMEOUT = 4
"""The fewest heartbeats of a worker in `heartbeat_timeout`."""
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


Process = tuple[str, int]
"""Host and process id."""


class Worker(NamedTuple):
    """A worker process that is connected to STRAM: how long it has been silent, and its last heartbeat."""

    silent_seconds: float
    beat: ContainerHeartbeat


class Heartbeats:
    """The last heartbeat of each worker that is connected.

    `observe` gets them, with `at` the time of receipt; of those of a committed window, which are late, the
    clock. It gets MessagesRefused for what the network has refused, one a second and reason at most.
    `log` has what operators have said.
    The thread that reads the network calls it; any thread `follow` and `stack_of`.
    """

    def __init__(
        self,
        observe: Callable[[RunEvent], None],
        clock: Clock,
        log: OperatorLog | None = None,
    ) -> None:
        self.log = log or OperatorLog()
        self._observe = observe
        self._clock = clock
        self._refused: Mapping[str, int] = {}
        """By the network so far, by reason."""
        self._reported: Mapping[str, int] = {}
        self._report_at = -math.inf
        self._committed = -1
        self._lasts: dict[Hashable, tuple[float, ContainerHeartbeat]] = {}

    def take(self, worker: Hashable, figures: ContainerHeartbeat | ProcessLines) -> None:
        """Take in a heartbeat of a worker, or what its operators have said."""
        if isinstance(figures, ProcessLines):
            for (operator, partition), left_out, lines in figures.operators:
                self.log.add(operator, partition, lines, figures.host, figures.pid, left_out)
            return
        beat = _shown(figures)
        self._lasts[worker] = (self._clock.monotonic(), beat)
        at = self._clock.wall()
        if beat.container >= 0 and beat.window_id <= self._committed:
            beat = replace(beat, container=-1, window_id=-1, attempt=0, began=0.0, operators=(), stack="")
        with contextlib.suppress(Exception):
            self._observe(replace(beat, at=at))

    def lost(self, worker: Hashable) -> None:
        """The connection to a worker is lost."""
        self._lasts.pop(worker, None)

    def report(self, refused: Mapping[str, int]) -> None:
        """Report what the network has refused, once a second. `refused`: so far, by reason."""
        self._refused = refused
        if self._clock.monotonic() >= self._report_at:
            self._report()

    def close(self) -> None:
        """Forget the workers, and report what was refused and not yet reported."""
        self._lasts.clear()
        self._report()

    def _report(self) -> None:
        """Report what the network has refused since the last time."""
        if self._refused == self._reported:
            return
        before, self._reported = self._reported, dict(self._refused)
        self._report_at = self._clock.monotonic() + _REPORT_SECONDS
        for reason, total in self._reported.items():
            if more := total - before.get(reason, 0):
                with contextlib.suppress(Exception):
                    self._observe(MessagesRefused(self._clock.wall(), reason, count=more))

    def workers(self) -> list[Worker]:
        """The workers that are connected, each with its last heartbeat."""
        now = self._clock.monotonic()
        return [Worker(now - when, beat) for when, beat in self._lasts.values()]

    # Any thread ---------------------------------------------------------------------------------------------

    def follow(self, event: RunEvent) -> None:
        """Take in an event of the run: heartbeats of windows up to a committed one are late."""
        if isinstance(event, WindowCommitted):
            self._committed = max(self._committed, event.window_id)

    def stack_of(self, host: str, pid: int) -> str | None:
        """The stacks of the threads of a worker on this host that is connected; None of any other process.

        Blocks for a second at most.
        """
        connected = {(beat.host, beat.pid) for _, beat in list(self._lasts.values())}
        known = host == socket.gethostname() and (host, pid) in connected
        return stacks.dump(pid, self._clock) if known else None


def _shown(beat: ContainerHeartbeat) -> ContainerHeartbeat:
    """A heartbeat whose texts can be written as UTF-8: paths of users may have half a character."""
    lines = tuple(
        replace(one, file=_printable(one.file), function=_printable(one.function), text=_printable(one.text))
        for one in beat.lines
    )
    operators = tuple(
        replace(one, record=_printable(one.record)) if one.record else one for one in beat.operators
    )
    host, stack = _printable(beat.host), _printable(beat.stack)
    return replace(beat, host=host, stack=stack, operators=operators, lines=lines)


def _printable(text: str) -> str:
    """A text that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
