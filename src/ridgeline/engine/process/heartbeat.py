"""The worker's half of heartbeats: one thread a process reports what a container does in a long window.

A heartbeat is one message to STRAM, which is never answered; lines that operators have said are another.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, TypeAlias

from ridgeline.api.clock import Clock
from ridgeline.api.errors import described
from ridgeline.engine.process import stacks
from ridgeline.engine.process.line_sampler import LineSampler
from ridgeline.engine.process.said_lines import ProcessLines, said
from ridgeline.measure.events import (
    ContainerHeartbeat,
    LineTime,
    ProcessUsage,
    SourceTaken,
)

# The memory, processor time and collections of garbage of this process.

_STATM = "/proc/self/statm"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def read_usage() -> ProcessUsage | None:
    """The figures as of now; None where the system has no `/proc`."""
    try:
        with open(_STATM, "rb") as file:  # noqa: PTH123  once a second in each slot
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    times = os.times()
    return ProcessUsage(pages * _PAGE, times.user + times.system, gc.get_stats()[2]["collections"])


_log = logging.getLogger(__name__)
_LINES_SECONDS = 5.0
"""How often the time by line is sent: each time some kilobytes, which event logs keep."""
_MOST_SAID = 32 * 1024
"""Characters of operators' lines in one message: as much a second, where they say more."""
_HOST = socket.gethostname()
Send: TypeAlias = Callable[[Callable[[], ContainerHeartbeat | ProcessLines]], bool]
"""Sends what the argument returns, which is called once sending is possible; False if it is not now.

Raises OSError or RidgelineError.
"""


class Reporting(Protocol):
    """A source of heartbeats: a `Container`."""

    def heartbeat(self) -> ContainerHeartbeat | None:
        """Its progress now, None if it runs no window."""


class HeartbeatSender:
    """Sends the heartbeats of this process from a daemon thread; `failures` counts failed attempts.

    A container that works on its window for longer than the interval sends its running metrics. In shorter
    windows, and by an idle worker, the clock is sent. What `taken` says of its input operators comes with
    both: their reports may wait for a container that works. So a worker that is silent is frozen or gone.
    Work never waits for it: a window costs an attribute. What operators have printed and logged comes apart.
    """

    def __init__(
        self,
        send: Send,
        interval_seconds: float,
        clock: Clock,
        taken: Callable[[], tuple[SourceTaken, ...]] = tuple,
    ) -> None:
        self.failures = 0
        self._send = send
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._taken = taken
        self._work: tuple[Reporting, int] | None = None
        self._lines = LineSampler(clock)
        self._lines_sent = clock.monotonic()
        self._stop = threading.Event()

    def start(self) -> None:
        """Send from now on, for the first time at once."""
        with contextlib.suppress(Exception):  # no dumps of stacks then
            stacks.register()  # in this thread, as other locks that a fork would copy
        try:
            threading.Thread(target=self._run, name="ridgeline-heartbeat", daemon=True).start()
        except RuntimeError:  # the host has no thread to spare: no heartbeats, the work continues
            self.failures += 1
        else:
            self._lines.start()
            said.is_open = True

    def stop(self) -> None:
        """Send no more, but for what operators have said."""
        self._lines.stop()
        self._say_lines()
        said.is_open = False
        self._stop.set()

    @contextlib.contextmanager
    def working(self, container: Reporting) -> Iterator[None]:
        """The calling thread runs a window of the container."""
        self._work = (container, threading.get_ident())
        self._lines.begin()
        try:
            yield
        finally:
            self._lines.end()
            self._work = None

    def _run(self) -> None:
        """Send a heartbeat every interval until `stop`. Failures are counted, and logged once a series."""
        unsent = 0
        while True:
            try:
                beat = self._running() or self._idle()
                beat = replace(
                    beat,
                    usage=read_usage(),
                    unsent=unsent,
                    taken=self._taken(),
                    lines=self._new_lines(),
                    at_work=self._work is not None,
                )
                if self._send(lambda beat=beat: replace(beat, sent=self._clock.wall())):  # type: ignore[misc]
                    if unsent:
                        _log.info("the driver takes heartbeats again; %d were not sent", unsent)
                    unsent = 0
                else:
                    unsent += 1
            except Exception as error:  # noqa: BLE001  no work may fail for figures
                self.failures += 1
                if not unsent:
                    _log.warning("heartbeats cannot be sent to the driver: %s", described(error))
                unsent += 1
            self._say_lines()
            if self._clock.wait(self._interval_seconds, self._stop):
                return

    def _say_lines(self) -> None:
        """Send what operators have said since, if it can be sent now."""
        if not said.waits:
            return
        try:
            self._send(lambda: ProcessLines(_HOST, os.getpid(), said.take(_MOST_SAID)))
        except Exception:  # noqa: BLE001  as above; heartbeats say why
            self.failures += 1

    def _new_lines(self) -> tuple[LineTime, ...]:
        """The time by line, if it is due."""
        now = self._clock.monotonic()
        if now - self._lines_sent < _LINES_SECONDS:
            return ()
        self._lines_sent = now
        return self._lines.take()

    def _idle(self) -> ContainerHeartbeat:
        """The clock."""
        return ContainerHeartbeat(0.0, -1, _HOST, os.getpid(), 0.0)

    def _running(self) -> ContainerHeartbeat | None:
        """The figures of the container that works on its window for longer than the interval."""
        work = self._work
        if work is None:
            return None
        container, thread = work
        beat = container.heartbeat()
        if beat is None or beat.sent - beat.began < self._interval_seconds:
            return None
        return replace(beat, stack=stacks.of_thread(thread))
