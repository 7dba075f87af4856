"""The driver's end of the connection to its supervisor, which has started it.

Both ends are a pair of sockets. The driver sends a JSON object a line: that it takes signals, that it runs,
how it failed, what it logs. The supervisor sends a line for each signal. If its end closes it has died.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import (
    ApplicationKilledError,
    CheckpointError,
    FencedError,
    NameTakenError,
    OperatorError,
    PackageError,
    RidgelineError,
    StateError,
    UntrustedError,
    ValidationError,
    described,
)
from ridgeline.api.support.masking import mask_text
from ridgeline.cli.errors import CommandError
from ridgeline.engine.files.folder_lock import FolderInUseError
from ridgeline.engine.process.log_channel import CHANNEL

VARIABLE = "RIDGELINE_SUPERVISOR"
"""The environment variable that has the driver's end, and what the supervisor knows, as JSON."""
READY, NAMED, RUNNING, FAILED, ENDED, LINE = "ready", "named", "running", "failed", "ended", "line"
WAITS = "waits"
"""As a standby."""
_LONGEST_LINE = 2_000
_LONGEST_TEXT = 10_000
"""Characters of a text in a report: an error may have a whole table in it."""
_SEND_SECONDS = 5.0
_CLOCK = SystemClock()


class Stops(Protocol):
    """The stopper of a run, as a supervisor uses it: `ridgeline.cli.running.stopping.Stopper`."""

    def stop(self, why: str) -> None:
        """End the run after its windows."""

    def passed_on(self, number: int, count: int) -> None:
        """Take a signal that the supervisor has got."""


@dataclass(slots=True)
class Link:
    """The connection to the supervisor.

    `restarts`: how often it has started a driver again. `reason`: why, the last time. `begun`: a driver
    before has run, so nothing is rewound or forgotten again. `checkpoint`, `attributes`: what a supervisor
    says beside the command. `by`: its process.
    """

    end: socket.socket
    restarts: int = 0
    reason: str = ""
    begun: bool = False
    checkpoint: str | None = None
    attributes: tuple[str, ...] = ()
    by: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cut: bool = False
    _followed: tuple[Stops, Callable[[], object]] | None = None
    _signal: tuple[int, int] | None = None
    """Number and count of the last signal of the supervisor."""
    _gone: bool = False

    def report(self, what: str, **more: Any) -> None:
        """Send a report as a whole line; texts are cut at 10,000 characters.

        A supervisor that is gone is no reason to fail. For one that does not read, lines of the log do not
        wait, and other reports wait for five seconds at most.
        """
        short = {key: one[:_LONGEST_TEXT] if isinstance(one, str) else one for key, one in more.items()}
        data = json.dumps({"what": what, **short}).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._send(data, 0.0 if what == LINE else _SEND_SECONDS)

    def _send(self, data: bytes, seconds: float) -> None:
        """Send all bytes, or give up after a time. A line that was cut is ended before the next one.

        The socket stays a blocking one: its reader has a duplicate, which shares that mode.
        """
        rest = b"\n" + data if self._cut else data
        whole, deadline = len(rest), _CLOCK.monotonic() + seconds
        ready = select.poll()
        ready.register(self.end, select.POLLOUT)
        while rest:
            try:
                rest = rest[self.end.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                left = deadline - _CLOCK.monotonic()
                if left <= 0:
                    break
                ready.poll(left * 1000)
        self._cut = bool(rest) and (self._cut or len(rest) < whole)

    def follow(self, stopper: Stops, gone: Callable[[], object]) -> None:
        """Take signals of the supervisor from now on, in a thread; `gone()` is called if it dies.

        Called again, the new `stopper` gets them, the last one of before included: it may have come between
        two stoppers.
        """
        begun, self._followed = self._followed is not None, (stopper, gone)
        if not begun:
            self.report(READY)
            threading.Thread(target=self._read, name="supervisor", daemon=True).start()
            return
        if self._signal is not None:
            stopper.passed_on(*self._signal)
        if self._gone:
            self._end()

    def _read(self) -> None:
        pieces = self.end.dup()
        with pieces, pieces.makefile("r", encoding="ascii") as lines:
            while line := _next(lines):
                number, _, count = line.partition(" ")
                self._signal = int(number), int(count)
                self._following[0].passed_on(*self._signal)
        self._gone = True
        self._end()

    def _end(self) -> None:
        """The supervisor is gone."""
        stopper, gone = self._following
        stopper.stop("the end of its supervisor")
        gone()

    @property
    def _following(self) -> tuple[Stops, Callable[[], object]]:
        assert self._followed is not None  # noqa: S101  the thread begins once it is there
        return self._followed

    @contextlib.contextmanager
    def logged(self) -> Iterator[None]:
        """While the block runs, send warnings that are logged: the last ones are shown if it gives up."""
        handler, channel = _Sender(self), logging.getLogger(CHANNEL)
        channel.addHandler(handler)
        try:
            yield
        finally:
            channel.removeHandler(handler)


def _next(lines: Any) -> str:
    try:
        return str(lines.readline())
    except OSError:
        return ""


class _Sender(logging.Handler):
    only_keeps = True

    def __init__(self, link: Link) -> None:
        super().__init__(logging.WARNING)
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line."""
        text = mask_text(
            f"{record.levelname} {record.name.removeprefix('ridgeline.')}: {record.getMessage()}"
        )
        self._link.report(LINE, text=text[:_LONGEST_LINE])


@cache
def link() -> Link | None:
    """The supervisor of this process, None without one. No process that it starts has the variable.

    Raises CommandError if the variable is not of a supervisor.
    """
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return None
    try:
        given = json.loads(text)
        end = socket.socket(fileno=given.pop("end"))
        end.set_inheritable(False)
        given["attributes"] = tuple(given.pop("attributes", ()))
        return Link(end, **given)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(
            f"the environment variable `{VARIABLE}` is not of a supervisor that runs; unset it"
        ) from error


def encode(end: socket.socket, given: Mapping[str, Any]) -> str:
    """The value of `VARIABLE` for a driver with this end of the connection."""
    return json.dumps({"end": end.fileno(), "by": os.getpid(), **given})


@contextlib.contextmanager
def failure_reported(
    asked_to_end: Callable[[], bool] = lambda: False, *, standby: bool = False
) -> Iterator[None]:
    """Report the error that ends the block to the supervisor, if there is one.

    `asked_to_end`: whether the run was to end anyway, so that no driver is to follow. `standby`: as of
    `mendable`.
    """
    supervisor = link()
    try:
        yield
    except Exception as error:
        if supervisor is not None:
            report = judged(error, begun=supervisor.begun, standby=standby)
            if asked_to_end():
                report["again"] = False
            supervisor.report(FAILED, **report)
        raise


def judged(error: Exception, *, begun: bool, standby: bool = False) -> dict[str, Any]:
    """The report of an error to a supervisor. `standby`: a driver that is started again waits for its turn.

    Returns:
        `error`: its text. `again`: a driver that is started again might get further. `same`: equal for faults
        that are the same at the same window; "" if unknown.
    """
    text = mask_text(str(error) if isinstance(error, RidgelineError) else described(error))
    same = ""
    if isinstance(error, OperatorError):
        failure = error.failure
        same = f"{failure.operator} {failure.partition} {failure.window_id} {failure.error.partition(':')[0]}"
    return {"error": text, "again": mendable(error, begun=begun, standby=standby), "same": same}


def mendable(error: Exception, *, begun: bool, standby: bool = False) -> bool:
    """Whether a driver that is started again might get further."""
    if isinstance(error, FencedError):
        return standby  # another one would take the folder from the driver that has taken it from this one
    if isinstance(error, FolderInUseError | NameTakenError):
        return begun
    if isinstance(error, CheckpointError):
        return isinstance(error.__cause__, OSError)
    final = ValidationError, CommandError, PackageError, UntrustedError, ApplicationKilledError, StateError
    return not isinstance(error, final)
