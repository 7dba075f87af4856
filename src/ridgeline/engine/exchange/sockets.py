"""The network of real sockets: a poll loop for one thread, which never waits for a peer.

All input of strangers is bounded: their number, their bytes and their time. What is refused is counted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from typing_extensions import Buffer

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange import tls
from ridgeline.engine.exchange.connection import Connection, EndedError, ended
from ridgeline.engine.exchange.dialing import Dialing, UnreachableError
from ridgeline.engine.exchange.frames import Frame, encode
from ridgeline.engine.exchange.handshake import NONCE_BYTES, Handshake
from ridgeline.engine.exchange.limits import (
    PAUSE_SECONDS,
    Limits,
    Refusals,
    descriptors_are_few,
    share_of_descriptors,
)
from ridgeline.engine.exchange.listening import Listen, Listener, listeners
from ridgeline.engine.exchange.network import (
    CUT,
    LATE,
    NOBODY,
    REPLACED,
    TOO_MANY,
    UNAUTHENTICATED,
    UNREACHABLE,
    Event,
    Lost,
    Opened,
    Peer,
    Received,
    RefusedError,
)
from ridgeline.engine.exchange.outbox import Outbox
from ridgeline.engine.exchange.poller import READ, WRITE, Poller
from ridgeline.engine.exchange.streams import PlainStream, Stream, TlsStream, idle_seconds, prepare

_SCRATCH_BYTES = 64 << 10
_TICK_SECONDS = 0.5
_SILENCE_SECONDS = 1.0
_ASKED_TWICE = 1.5
_ACCEPTED_AT_ONCE = 16
_LIMITS = Limits()


_networks: weakref.WeakSet[Sockets] = weakref.WeakSet()


def _abandon() -> None:
    """In a forked process, let go of the parent's connections: they end with the parent."""
    for network in list(_networks):
        network.abandon()


os.register_at_fork(after_in_child=_abandon)


class Sockets:
    """The network of this process; see `Network`. Of one thread, but for what says otherwise.

    `secret`: of the application, the same for all peers, at least 16 random bytes. Raises RidgelineError if
    it cannot listen.
    """

    def __init__(
        self, me: Peer, secret: bytes, listen: Listen, clock: Clock, limits: Limits = _LIMITS
    ) -> None:
        self._me = me
        self._secret = secret
        self._clock = clock
        self._limits = limits
        self._most_strangers = min(limits.strangers, share_of_descriptors(4))
        self._peers: dict[Peer, Connection | Dialing] = {}
        self._connections: dict[Connection, int] = {}
        """What the selector waits for, for each."""
        self._strangers: dict[Connection, None] = {}
        """Who has come in and has not proved anything yet, oldest first."""
        self._called: dict[Connection | Dialing, None] = {}
        """Whom this end has connected to, until they are there."""
        self._far: dict[Connection, None] = {}
        """Those to peers, by TCP: a network may be cut."""
        self._next_far_look = 0.0
        self._events: list[Event] = []
        self._unread: dict[Connection, None] = {}
        """There is more of them to read, of which the operating system does not know."""
        self._noted: deque[Peer] = deque()
        """Something is left in their outboxes."""
        self._refusals = Refusals(clock)
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._thread = threading.get_ident()
        self._asked = False
        """`wake` was called."""
        self._closed = False
        self._seconds = 0.0
        """Time as `_look` has it."""
        self._looked = clock.monotonic()
        self._next_look = 0.0
        self._deaf_until: float | None = None
        """Until when nobody new is let in; None: everybody is."""
        self._listeners = [*listeners(listen)]
        self._caller_context = tls.caller_context()
        self._listener_context = tls.listener_context(listen.certificate)
        self._poller = Poller()
        for listener in self._listeners:
            self._poller.watch(listener.socket, READ, listener)
        _networks.add(self)

    @property
    def me(self) -> Peer:
        """As `Network.me`."""
        return self._me

    @property
    def address(self) -> str:
        """As `Network.address`."""
        return ",".join(str(listener.way) for listener in self._listeners)

    @property
    def refused(self) -> Mapping[str, int]:
        """As `Network.refused`."""
        return MappingProxyType(self._refusals.totals)

    # Any thread ---------------------------------------------------------------------------------------------

    def send(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer] = ()) -> bool:
        """As `Network.send`."""
        entry = self._peers.get(peer)
        if entry is None:
            return False
        outbox = entry.outbox
        sent = outbox.put(encode(kind, head, buffers, self._limits.frame_bytes))
        if outbox.queued_bytes or outbox.error is not None:
            self._noted.append(peer)
            if threading.get_ident() != self._thread:
                self._poller.interrupt()
        return sent

    def queued_bytes(self, peer: Peer) -> int:
        """As `Network.queued_bytes`."""
        entry = self._peers.get(peer)
        return 0 if entry is None else entry.outbox.queued_bytes

    def wake(self) -> None:
        """As `Network.wake`."""
        self._asked = True
        self._poller.interrupt()

    # The polling thread -------------------------------------------------------------------------------------

    def connect(self, peer: Peer, address: str) -> None:
        """As `Network.connect`."""
        if peer not in self._peers:
            dialing = self._peers[peer] = Dialing(peer, address, self._limits.silent_seconds)
            self._called[dialing] = None
            self._dial(dialing)

    def poll(self, seconds: float) -> Sequence[Event]:
        """As `Network.poll`."""
        self._thread = threading.get_ident()
        deadline = self._clock.monotonic() + seconds
        left = seconds
        while True:
            self._turn(left)
            if self._events or self._asked or (left := deadline - self._clock.monotonic()) <= 0:
                break
        self._asked = False
        events, self._events = self._events, []
        return events

    def hang_up(self, peer: Peer) -> None:
        """As `Network.hang_up`."""
        entry = self._peers.get(peer)
        if entry is not None:
            self._remove(entry)
        self._events = [event for event in self._events if event.peer != peer]

    def close(self, seconds: float = 1.0) -> None:
        """As `Network.close`."""
        if self._closed:
            return
        self._closed = True
        self._deaf_until = None
        for listener in self._listeners:
            self._poller.forget(listener.socket)
            listener.close()
        for entry in [*self._strangers, *self._called]:
            self._remove(entry)
        unfinished = set(self._connections)
        for connection in unfinished:
            connection.outbox.end()
        deadline = self._clock.monotonic() + seconds
        while self._connections and (left := deadline - self._clock.monotonic()) > 0:
            for connection in unfinished & self._connections.keys():
                if not connection.outbox.queued_bytes:
                    unfinished.discard(connection)
                    with contextlib.suppress(OSError):
                        connection.stream.finish()
            self._turn(left)
            self._events.clear()
        for connection in list(self._connections):
            self._remove(connection)
        self._events.clear()
        self._poller.close()

    def abandon(self) -> None:
        """In a forked process: leave all of it to the parent."""
        self._closed = True
        self._peers = {}
        self._poller.abandon()

    def _turn(self, seconds: float) -> None:
        """Wait at most so long for something to do, and do it."""
        self._read_noted()
        if self._events or self._asked or self._unread:
            seconds = 0.0
        elif self._unopened():
            seconds = min(seconds, _TICK_SECONDS if self._deaf_until is None else PAUSE_SECONDS)
        elif self._far:
            seconds = min(seconds, _SILENCE_SECONDS)
        unread, self._unread = self._unread, {}
        self._serve(seconds, unread)
        for connection in unread:
            if connection in self._connections:
                self._read(connection)
        if self._unopened():
            self._resume()
            self._look()
        if self._far:
            self._look_at_far()

    def _serve(self, seconds: float, unread: dict[Connection, None]) -> None:
        """Wait at most so long for sockets; those that have something to read are added to `unread`."""
        for entry, ready in self._poller.ready(seconds):
            if isinstance(entry, Listener):
                self._accept(entry)
            elif isinstance(entry, Dialing):
                self._dialed(entry)
            elif entry in self._connections:
                if ready & WRITE:
                    self._write(entry)
                if ready & READ:
                    unread[entry] = None

    def silent_seconds(self, peer: Peer) -> float:
        """As `Network.silent_seconds`: a host is asked whether it is there if nothing else is sent."""
        entry = self._peers.get(peer)
        if not isinstance(entry, Connection) or entry not in self._far:
            return 0.0
        silent = entry.stream.silence().seconds
        return silent if silent > _ASKED_TWICE * idle_seconds(self._limits.silent_seconds) else 0.0

    def _look_at_far(self) -> None:
        """Once a second: end the connections to hosts that acknowledge nothing for long."""
        now = self._clock.monotonic()
        if now < self._next_far_look:
            return
        self._next_far_look = now + _SILENCE_SECONDS
        for connection in list(self._far):
            silence = connection.stream.silence()
            if silence.unanswered >= self._limits.silent_seconds:
                what = f"its host has acknowledged nothing for {silence.seconds:.0f} s"
                self._lose(connection, CUT, what)

    def _read_noted(self) -> None:
        """Look after those whose outbox has something left, or has failed: that shows when they are read."""
        while self._noted:
            entry = self._peers.get(self._noted.popleft())
            if isinstance(entry, Connection) and entry.proven:
                self._read(entry)

    def _read(self, connection: Connection) -> None:
        """Take what has come on a connection."""
        frames: list[Frame] = []
        end: RefusedError | EndedError | None = None
        try:
            connection.read(self._scratch, frames)
        except (RefusedError, EndedError) as error:
            end = error
        peer = connection.proven
        if peer is not None:
            self._open(connection, peer)
            self._events.extend([Received(peer, *frame) for frame in frames])
        if end is not None:
            self._end(connection, end)
        else:
            self._settle(connection)

    def _write(self, connection: Connection) -> None:
        """Send more on a connection."""
        try:
            connection.write()
        except (RefusedError, EndedError) as error:
            self._end(connection, error)
            return
        if connection.proven is not None:
            self._open(connection, connection.proven)
        if connection.outbox.error is not None or connection.stream.writes_first:
            self._read(connection)
        else:
            self._settle(connection)

    def _open(self, connection: Connection, peer: Peer) -> None:
        """The handshake of a connection is over; reports it the first time."""
        if connection in self._strangers or connection in self._called:
            self._strangers.pop(connection, None)
            self._called.pop(connection, None)
            before = self._peers.get(peer)
            if before is not None and before is not connection:
                self._lose(before, REPLACED)
            self._peers[peer] = connection
            if connection.stream.is_far:
                self._far[connection] = None
            self._events.append(Opened(peer))
            connection.outbox.open(connection.stream)

    def _settle(self, connection: Connection) -> None:
        """Have the selector wait for what the connection waits for."""
        error = connection.outbox.error
        if connection.more:
            self._unread[connection] = None
        elif error is not None:
            self._end(connection, ended(error))
            return
        interest = READ | WRITE if connection.wants_to_write() else READ
        if interest != self._connections[connection]:
            self._connections[connection] = interest
            self._poller.watch(connection.stream, interest, connection)

    def _end(self, connection: Connection, error: RefusedError | EndedError) -> None:
        """A connection is over."""
        if isinstance(error, RefusedError):
            self._refusals.add(error.reason, connection.where, str(error))
            self._lose(connection, error.reason, str(error))
        else:
            sent = connection.outbox.error
            if sent is not None and ended(sent).reason == CUT:
                error = ended(sent)
            self._lose(connection, error.reason, error.detail)

    def _lose(self, entry: Connection | Dialing, reason: str, detail: str = "") -> None:
        """End a connection, and report it if anybody knows of it."""
        self._remove(entry)
        if entry.peer is not None:
            self._events.append(Lost(entry.peer, reason, detail))

    def _remove(self, entry: Connection | Dialing) -> None:
        """End a connection, or what would become one; it is known no more."""
        self._called.pop(entry, None)
        if entry.peer is not None and self._peers.get(entry.peer) is entry:
            del self._peers[entry.peer]
        entry.outbox.drop()
        if isinstance(entry, Dialing):
            self._poller.forget(entry.socket)
            entry.close()
            return
        self._strangers.pop(entry, None)
        self._far.pop(entry, None)
        self._unread.pop(entry, None)
        if self._connections.pop(entry, None) is not None:
            self._poller.forget(entry.stream)
        entry.stream.close()

    # New connections ----------------------------------------------------------------------------------------

    def _accept(self, listener: Listener) -> None:
        """Take new connections. Where there are too many strangers, the oldest goes."""
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._refusals.too_fast:
                self._pause()
                return
            try:
                accepted, address = listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptor is left, or the caller is gone: do not try again at once
                self._refusals.add(TOO_MANY, str(listener.way), str(error))
                self._pause()
                return
            few = descriptors_are_few(accepted.fileno())
            if self._strangers and (few or len(self._strangers) >= self._most_strangers):
                oldest = next(iter(self._strangers))
                self._end(oldest, RefusedError(TOO_MANY, "others have come since"))
            where = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(listener.way)
            try:
                prepare(accepted, self._limits.silent_seconds)
            except OSError as error:  # gone already
                accepted.close()
                self._refusals.add(UNAUTHENTICATED, where, str(error))
                continue
            stream: Stream = PlainStream(accepted)
            if listener.certificate is not None:
                stream = TlsStream(accepted, self._listener_context, listener.certificate.digest)
            connection = self._begin(stream, Outbox(), where)
            self._strangers[connection] = None
            self._write(connection)

    def _pause(self) -> None:
        """Let nobody new in for a moment; who comes waits at the port."""
        self._deaf_until = self._clock.monotonic() + PAUSE_SECONDS
        for listener in self._listeners:
            self._poller.forget(listener.socket)

    def _resume(self) -> None:
        """Let others in again, once the pause is over."""
        if self._deaf_until is not None and self._clock.monotonic() >= self._deaf_until:
            self._deaf_until = None
            for listener in self._listeners:
                self._poller.watch(listener.socket, READ, listener)

    def _dial(self, dialing: Dialing, failed: str = "") -> None:
        """Connect to a peer by the next way that it has."""
        self._poller.forget(dialing.socket)
        try:
            connected = dialing.next(self._seconds, failed)
        except UnreachableError as error:
            self._lose(dialing, NOBODY if error.nobody else UNREACHABLE, str(error))
            return
        if connected:
            self._dialed(dialing)
        elif not dialing.waits and dialing.socket is not None:
            self._poller.watch(dialing.socket, WRITE, dialing)

    def _dialed(self, dialing: Dialing) -> None:
        """The socket of a peer is connected, or it cannot be."""
        if dialing not in self._called:
            return
        self._poller.forget(dialing.socket)
        try:
            connected = dialing.connected()
        except OSError as error:
            self._dial(dialing, error.strerror or str(error))
            return
        del self._called[dialing]
        stream = TlsStream(connected, self._caller_context) if dialing.tls else PlainStream(connected)
        connection = self._begin(stream, dialing.outbox, dialing.where, dialing.peer)
        self._peers[dialing.peer] = connection
        self._called[connection] = None
        self._write(connection)

    def _begin(self, stream: Stream, outbox: Outbox, where: str, peer: Peer | None = None) -> Connection:
        """A socket is connected. `peer`: who should be there, if this end has called."""
        connection = Connection(
            stream,
            lambda binding: Handshake(
                self._me, self._secret, secrets.token_bytes(NONCE_BYTES), peer, binding
            ),
            expected=peer,
            outbox=outbox,
            where=where,
            since=self._seconds,
            maximum_bytes=self._limits.frame_bytes,
        )
        self._connections[connection] = READ
        self._poller.watch(stream, READ, connection)
        return connection

    def _unopened(self) -> bool:
        """True if there is something that `_look` may have to end or to try again."""
        return bool(self._strangers or self._called or self._deaf_until is not None)

    def _look(self) -> None:
        """Twice a second: end what takes too long; try again what was not possible.

        While nobody polls, time stands still after a second: what others have sent was not read.
        """
        now = self._clock.monotonic()
        self._seconds += min(now - self._looked, 1.0)
        self._looked = now
        if self._seconds < self._next_look:
            return
        self._next_look = self._seconds + _TICK_SECONDS
        limits = self._limits
        for stranger in list(self._strangers):
            if self._seconds - stranger.since <= limits.handshake_seconds:
                break
            self._end(stranger, RefusedError(LATE, f"no proof within {limits.handshake_seconds:g} s"))
        for entry in list(self._called):
            passed = self._seconds - entry.since
            if isinstance(entry, Connection):
                if passed > limits.answer_seconds:
                    self._lose(entry, LATE, f"no proof within {limits.answer_seconds:g} s")
            elif passed > limits.connect_seconds:
                self._dial(entry, f"no answer within {limits.connect_seconds:g} s")
            elif entry.waits:
                self._dial(entry)
