"""The worker's half of heartbeats: one thread a process reports what a container does in a long window.

On the wire a heartbeat is a 4-byte length (big endian) and JSON: `{"secret": ..., "version": 1, "heartbeat":
{...}}`, the heartbeat as `ridgeline.measure.encoding` writes a `ContainerHeartbeat`. Nothing is ever
answered.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  what connecting would import in the thread: a process forked at that moment could never connect
import json
import logging
import math
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from ridgeline.api.clock import Clock
from ridgeline.api.errors import described
from ridgeline.engine.worker import stacks
from ridgeline.measure.encoding import to_dict
from ridgeline.measure.events import ContainerHeartbeat, RunningOperator

_log = logging.getLogger(__name__)
VERSION = 1
MAXIMUM_BYTES = 256 * 1024
HEADER = struct.Struct(">I")
_TIMEOUT_SECONDS = 2.0
_GREATEST_PAUSE_SECONDS = 60.0
_HOST = socket.gethostname()


@dataclass(frozen=True, slots=True)
class HeartbeatAddress:
    """Where workers send heartbeats, the secret that each message must carry, and how often (seconds)."""

    host: str
    port: int
    secret: str = field(repr=False)
    interval_seconds: float


class Beating(Protocol):
    """What a heart beats for: a `Container`."""

    def heartbeat(self) -> ContainerHeartbeat | None:
        """What it is doing now, None if it runs no window."""


class Heart:
    """Sends the heartbeats of this process from a daemon thread; `failures` counts failed attempts.

    A container that works on its window for longer than the interval sends its running metrics. In shorter
    windows, and by an idle worker, only the clock is sent. So a worker that is silent is frozen or gone. Work
    never waits for it: a window costs an attribute.
    """

    def __init__(self, address: HeartbeatAddress, clock: Clock) -> None:
        self.failures = 0
        self.address = address
        self._clock = clock
        self._line = _Line(address.host, address.port, clock)
        self._work: tuple[Beating, int] | None = None
        self._stop = threading.Event()

    def start(self) -> None:
        """Beat from now on, for the first time at once."""
        threading.Thread(target=self._run, name="ridgeline-heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()

    @contextlib.contextmanager
    def working(self, container: Beating) -> Iterator[None]:
        """The calling thread runs a window of the container."""
        self._work = (container, threading.get_ident())
        try:
            yield
        finally:
            self._work = None

    def _run(self) -> None:
        """Send a heartbeat every interval until `stop`. Failures are counted, and logged once a series."""
        unsent = 0
        while True:
            try:
                beat = self._running() or ContainerHeartbeat(0.0, -1, _HOST, os.getpid(), 0.0)
                beat = replace(beat, unsent=unsent)
                if self._line.send(partial(encode, beat, self.address.secret, self._clock.wall)):
                    if unsent:
                        _log.info("connected to the driver again; %d heartbeats were not sent", unsent)
                    unsent = 0
                else:
                    unsent += 1
            except Exception as error:  # noqa: BLE001  no work may fail for figures
                self.failures += 1
                if not unsent:
                    _log.warning("heartbeats cannot be sent to %s: %s", self.address.host, described(error))
                unsent += 1
            if self._clock.wait(self.address.interval_seconds, self._stop):
                self._line.close()
                return

    def _running(self) -> ContainerHeartbeat | None:
        """The figures of the container that works on its window for longer than the interval."""
        work = self._work
        if work is None:
            return None
        container, thread = work
        beat = container.heartbeat()
        if beat is None or beat.sent - beat.began < self.address.interval_seconds:
            return None
        return replace(beat, stack=stacks.of_thread(thread))


class _Line:
    """The connection to STRAM.

    Connecting and sending end in time; after a failure it is left alone for a while, each time longer.
    """

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        self._address = (host, port)
        self._clock = clock
        self._socket: socket.socket | None = None
        self._pause = 0.0
        self._not_before = -math.inf

    def send(self, message: Callable[[], bytes]) -> bool:
        """Send what `message()` gives once the line is open; False while the line is left alone.

        Raises OSError.
        """
        now = self._clock.monotonic()
        if now < self._not_before:
            return False
        try:
            self._open().sendall(message())
        except OSError:
            self.close()
            self._pause = min(max(1.0, 2 * self._pause), _GREATEST_PAUSE_SECONDS)
            self._not_before = now + self._pause
            raise
        self._pause = 0.0
        return True

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        if self._socket is not None and _hung_up(self._socket):
            self.close()
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket


def _hung_up(line: socket.socket) -> bool:
    """True if the other end has closed; it never sends anything else."""
    try:
        line.settimeout(0)
        line.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        line.settimeout(_TIMEOUT_SECONDS)
    return True


def encode(beat: ContainerHeartbeat, secret: str, wall: Callable[[], float]) -> bytes:
    """A heartbeat on the wire, at most 256 KB: operators that do not fit are left out, running ones last.

    `wall` is read last: `sent`.
    """
    operators = tuple(replace(operator, work=_finite(operator.work)) for operator in beat.operators)
    body = _body(replace(beat, operators=operators), secret)
    if len(body) > MAXIMUM_BYTES:
        room = MAXIMUM_BYTES - len(_body(replace(beat, operators=()), secret))
        body = _body(replace(beat, operators=_fitting(operators, room)), secret)
    payload = f'{body[:-2]}, "sent": {wall()!r}}}}}'.encode()
    return HEADER.pack(len(payload)) + payload


def _body(beat: ContainerHeartbeat, secret: str) -> str:
    heartbeat = to_dict(beat)
    del heartbeat["sent"]
    return json.dumps({"secret": secret, "version": VERSION, "heartbeat": heartbeat}, allow_nan=False)


def _finite(work: tuple[float, float | None] | None) -> tuple[float, float | None] | None:
    """The work that an input operator reports, as plain numbers; None where it is none."""
    try:
        consumed, remaining = work  # type: ignore[misc]  # None is no pair either
        plain = (float(consumed), None if remaining is None else float(remaining))
    except (TypeError, ValueError):
        return None
    return plain if math.isfinite(plain[0]) and math.isfinite(plain[1] or 0.0) else None


def _fitting(operators: tuple[RunningOperator, ...], room: int) -> tuple[RunningOperator, ...]:
    kept = []
    for operator in sorted(operators, key=lambda operator: operator.state != "running"):
        room -= len(json.dumps(to_dict(operator))) + 2
        if room < 0:
            break
        kept.append(operator)
    return tuple(kept)


_heart: Heart | None = None


def working(
    address: HeartbeatAddress | None, container: Beating, clock: Clock
) -> contextlib.AbstractContextManager[Any]:
    """The calling thread runs a window of the container: its heart beats meanwhile.

    The first call in a process starts the thread.
    """
    global _heart  # noqa: PLW0603  one thread a process
    if address is None:
        return contextlib.nullcontext()
    if _heart is None or _heart.address != address:
        if _heart is not None:
            _heart.stop()
        _heart = Heart(address, clock)
        with contextlib.suppress(
            Exception
        ):  # no dumps then; in this thread, as other locks that a fork would copy
            stacks.register()
        try:
            _heart.start()
        except RuntimeError:  # the host has no thread to spare: no heartbeats, the work continues
            _heart.failures += 1
    return _heart.working(container)


def _forget() -> None:
    """A forked process has no thread of its parent."""
    global _heart  # noqa: PLW0603  as above
    _heart = None


os.register_at_fork(after_in_child=_forget)
