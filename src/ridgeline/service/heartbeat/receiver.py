"""STRAM's half of heartbeats: a port that takes them from workers, and from nobody else.

All input is bounded: messages, connections, their buffers and durations. So are the events that report what
was refused. Wire format: `ridgeline.engine.worker.heartbeat`.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ridgeline.api.clock import SystemClock
from ridgeline.engine.driver.watchdog import Worker
from ridgeline.engine.exchange.limits import half_the_descriptors
from ridgeline.engine.exchange.network import LATE, MALFORMED, TOO_LARGE, TOO_MANY, UNAUTHENTICATED
from ridgeline.engine.worker import stacks
from ridgeline.engine.worker.heartbeat import HEADER, HeartbeatAddress
from ridgeline.measure.events import ContainerHeartbeat, RunEvent, WindowCommitted
from ridgeline.service.heartbeat.messages import RejectedError, Rejections, read_message

_CLOCK = SystemClock()
_TICK_SECONDS = 0.5
_DEAF_SECONDS = 5.0
_READ_BYTES = 1 << 16
_BUFFERED_MESSAGES = 16
"""Unfinished messages may hold this many times the greatest message's bytes, all together."""
_ACCEPTED_AT_ONCE = 64
_KNOWN_WORKERS = 10_000


@dataclass(eq=False, slots=True)
class _Connection:
    """`trusted`: it has sent the secret.

    `since` (monotonic): when its current message was due, or its first byte arrived.

    `last`: its last heartbeat, and when that came (monotonic).
    """

    socket: socket.socket
    peer: str
    since: float
    buffer: bytearray = field(default_factory=bytearray)
    trusted: bool = False
    last: tuple[float, ContainerHeartbeat] | None = None


class HeartbeatReceiver:
    """Takes heartbeats from workers from its making until `close`, in a daemon thread.

    `observe` gets them there, with `at` the time of receipt.

    `now`: STRAM's wall clock. `host` is what the port is bound to (a free one, or `port`), `advertised` what
    workers connect to (default: `host`); see `heartbeat_host`. Every message must carry `secret` (default: a
    new one). A message ends its connection if it has more than `maximum_bytes`, is not complete within
    `message_seconds`, or cannot be read. So does silence of `idle_seconds`. Of connections above
    `maximum_connections` those that have not sent the secret go first. What is refused is reported as
    HeartbeatRejected, in one event a second and reason. Nothing that comes in or that `observe` raises ends
    it. Raises OSError if the port cannot be bound.
    """

    def __init__(  # noqa: PLR0913  limits with defaults
        self,
        observe: Callable[[RunEvent], None],
        now: Callable[[], float],
        *,
        host: str = "127.0.0.1",
        advertised: str | None = None,
        port: int = 0,
        secret: str | None = None,
        maximum_bytes: int = 1 << 20,
        maximum_connections: int = 1024,
        message_seconds: float = 10.0,
        idle_seconds: float = 600.0,
    ) -> None:
        self.secret = secret or secrets.token_hex(32)
        self._observe = observe
        self._now = now
        self._maximum_bytes = maximum_bytes
        self._maximum_connections = min(maximum_connections, half_the_descriptors())
        self._message_seconds = message_seconds
        self._idle_seconds = idle_seconds
        self._committed = -1
        self._rejections = Rejections(observe, now)
        self._workers: dict[tuple[str, int], None] = {}
        self._connections: dict[_Connection, None] = {}
        self._buffered = 0
        self._closing = False
        self._deaf_until = 0.0
        self._read_all = _CLOCK.monotonic()
        """When all that had come was read: `observe` may have been slow."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=256)
        self._listener.setblocking(False)  # noqa: FBT003
        self.address: tuple[str, int] = (advertised or host, self._listener.getsockname()[1])
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="ridgeline-heartbeats", daemon=True)
        self._thread.start()

    @property
    def rejected(self) -> Mapping[str, int]:
        """How many messages and connections were refused so far, by reason."""
        return dict(self._rejections.totals)

    def for_workers(self, interval_seconds: float) -> HeartbeatAddress:
        """What `launch` gives to the workers."""
        return HeartbeatAddress(*self.address, self.secret, interval_seconds)

    def committed(self, window_id: int) -> None:
        """A window is committed: heartbeats of it and of earlier ones are late. From any thread."""
        self._committed = max(self._committed, window_id)

    def follow(self, event: RunEvent) -> None:
        """As `committed`, from the events of a run."""
        if isinstance(event, WindowCommitted):
            self.committed(event.window_id)

    def workers(self) -> list[Worker]:
        """The workers whose connections are open, each with its last heartbeat; from any thread.

        None while this end has something unread.
        """
        now = _CLOCK.monotonic()
        if now - self._read_all > _DEAF_SECONDS:
            return []
        lasts = [connection.last for connection in list(self._connections)]
        return [Worker(now - last[0], last[1]) for last in lasts if last is not None]

    def stack_of(self, host: str, pid: int) -> str | None:
        """The stacks of the threads of a worker on this host that has sent heartbeats; None for any other.

        Blocks for a second at most.
        """
        if host != socket.gethostname() or (host, pid) not in self._workers:
            return None
        return stacks.dump(pid, _CLOCK)

    def close(self) -> None:
        """Stop listening and hang up all connections. May be called again, and from any thread."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5.0)

    # The thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """The thread's loop: take what comes, look at slow connections twice a second, until `close`."""
        next_look = 0.0
        while not self._closing:
            for key, _ in self._selector.select(_TICK_SECONDS):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._receive(key.data)
            self._read_all = _CLOCK.monotonic()
            if (now := _CLOCK.monotonic()) >= next_look:
                next_look = now + _TICK_SECONDS
                self._hang_up_slow(now)
                self._rejections.report(now)
                if self._deaf_until and now >= self._deaf_until:
                    self._deaf_until = 0.0
                    self._selector.register(self._listener, selectors.EVENT_READ)
        self._rejections.report()
        for connection in list(self._connections):
            self._hang_up(connection)
        self._selector.close()
        for end in (self._listener, self._wake, self._woken):
            end.close()

    def _accept(self) -> None:
        """Take new connections. Where there are too many, strangers go first."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no file descriptor is left, or the caller is gone: do not try again at once
                self._rejections.add(TOO_MANY, "")
                self._selector.unregister(self._listener)
                self._deaf_until = _CLOCK.monotonic() + _TICK_SECONDS
                return
            connection = _Connection(accepted, f"{address[0]}:{address[1]}", _CLOCK.monotonic())
            if len(self._connections) >= self._maximum_connections:
                stranger = next((other for other in self._connections if not other.trusted), None)
                self._rejections.add(TOO_MANY, (stranger or connection).peer)
                if stranger is None:
                    accepted.close()
                    continue
                self._hang_up(stranger)
            accepted.setblocking(False)  # noqa: FBT003
            self._connections[connection] = None
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _receive(self, connection: _Connection) -> None:
        """Read what a connection has sent, and take whole messages out of it."""
        if connection not in self._connections:  # hung up since the selector looked
            return
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        at = self._now()
        if not data:
            self._hang_up(connection, MALFORMED if connection.buffer else "")
            return
        if not connection.buffer:
            connection.since = _CLOCK.monotonic()
        connection.buffer += data
        self._buffered += len(data)
        while self._take(connection, at):
            pass
        if self._buffered > _BUFFERED_MESSAGES * self._maximum_bytes:
            self._hang_up(
                max(self._connections, key=lambda other: (not other.trusted, len(other.buffer))), TOO_MANY
            )

    def _take(self, connection: _Connection, at: float) -> bool:
        """Take one whole message out of the buffer; False if there is none, or the connection is no more."""
        if len(connection.buffer) < HEADER.size:
            return False
        size = HEADER.size + HEADER.unpack_from(connection.buffer)[0]
        if size > HEADER.size + self._maximum_bytes:
            self._hang_up(connection, TOO_LARGE)
            return False
        if len(connection.buffer) < size:
            return False
        body = bytes(connection.buffer[HEADER.size : size])
        del connection.buffer[:size]
        self._buffered -= size
        connection.since = _CLOCK.monotonic()
        try:
            beat = read_message(body, self.secret)
        except RejectedError as error:
            self._hang_up(connection, error.reason)
            return False
        connection.trusted = True
        connection.last = (connection.since, beat)
        self._report(replace(beat, at=at), connection.peer)
        return True

    def _report(self, beat: ContainerHeartbeat, peer: str) -> None:
        self._workers[beat.host, beat.pid] = None
        if len(self._workers) > _KNOWN_WORKERS:
            del self._workers[next(iter(self._workers))]
        if beat.container >= 0 and beat.window_id <= self._committed:
            self._rejections.add(LATE, peer)
            beat = ContainerHeartbeat(beat.at, -1, beat.host, beat.pid, beat.sent)
        with contextlib.suppress(Exception):
            self._observe(beat)

    def _hang_up_slow(self, now: float) -> None:
        for connection in list(self._connections):
            if connection.buffer or not connection.trusted:
                if now - connection.since > self._message_seconds:
                    self._hang_up(connection, MALFORMED if connection.buffer else UNAUTHENTICATED)
            elif now - connection.since > self._idle_seconds:
                self._hang_up(connection)

    def _hang_up(self, connection: _Connection, reason: str = "") -> None:
        """Close a connection; `reason`: what it did not do well."""
        if reason:
            self._rejections.add(reason, connection.peer)
        self._buffered -= len(connection.buffer)
        del self._connections[connection]
        self._selector.unregister(connection.socket)
        connection.socket.close()
