"""The network of real sockets: a poll loop for one thread, which never waits for a peer.

All input of strangers is bounded: their number, their bytes and their time. Refusals are counted.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from typing_extensions import Buffer

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange import tls
from ridgeline.engine.exchange.connection import Connection, EndedError, Outbox, ended
from ridgeline.engine.exchange.dialing import (
    SILENCE_SECONDS,
    TICK_SECONDS,
    Dialing,
    FarConnections,
    PolledTime,
    Unopened,
    UnreachableError,
)
from ridgeline.engine.exchange.frames import Frame, encode
from ridgeline.engine.exchange.limits import (
    PAUSE_SECONDS,
    Limits,
    Refusals,
    descriptors_are_few,
    share_of_descriptors,
)
from ridgeline.engine.exchange.listening import Listen, Listener, Reception, listeners
from ridgeline.engine.exchange.network import (
    CUT,
    LATE,
    NO_LISTENER,
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
from ridgeline.engine.exchange.poller import READ, WRITE, Poller
from ridgeline.engine.exchange.streams import PlainStream, Stream, TlsStream, prepare

_SCRATCH_BYTES = 64 << 10
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

    Raises RidgelineError if it cannot listen.
    """

    def __init__(self, me: Peer, listen: Listen, clock: Clock, limits: Limits = _LIMITS) -> None:
        self._me = me
        self._clock = clock
        self._limits = replace(limits, strangers=min(limits.strangers, share_of_descriptors(4)))
        self._peers: dict[Peer, Connection | Dialing] = {}
        self._connections: dict[Connection, int] = {}
        """The events that the selector waits for, for each."""
        self._unopened = Unopened()
        self._far = FarConnections(clock, limits.silent_seconds)
        self._time = PolledTime(clock)
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
        found = listeners(listen)  # first: it may raise
        self._caller_context = tls.contexts(listen.certificate).connects
        self._poller = Poller()
        self._reception = Reception(found, listen.certificate, self._poller, clock)
        _networks.add(self)

    @property
    def me(self) -> Peer:
        """As `Network.me`."""
        return self._me

    @property
    def address(self) -> str:
        """As `Network.address`."""
        return self._reception.address

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
            self._unopened.called[dialing] = None
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
        self._reception.close()
        for entry in self._unopened.all():
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
        elif self._reception.paused:
            seconds = min(seconds, PAUSE_SECONDS)
        elif self._unopened:
            seconds = min(seconds, TICK_SECONDS)
        elif self._far:
            seconds = min(seconds, SILENCE_SECONDS)
        unread, self._unread = self._unread, {}
        self._serve(seconds, unread)
        for connection in unread:
            if connection in self._connections:
                self._read(connection)
        if self._unopened or self._reception.paused:
            self._reception.resume()
            self._end_late()
        for connection, seconds in self._far.cut():
            self._lose(connection, CUT, f"its host has acknowledged nothing for {seconds:.0f} s")

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
        """As `Network.silent_seconds`."""
        return self._far.silent_seconds(self._peers.get(peer))

    def _read_noted(self) -> None:
        """Look after those whose outbox has something left, or has failed: that shows when they are read."""
        while self._noted:
            entry = self._peers.get(self._noted.popleft())
            if isinstance(entry, Connection) and entry.known:
                self._read(entry)

    def _read(self, connection: Connection) -> None:
        """Take what has come on a connection."""
        frames: list[Frame] = []
        end: RefusedError | EndedError | None = None
        try:
            connection.read(self._scratch, frames)
        except (RefusedError, EndedError) as error:
            end = error
        peer = connection.known
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
        if connection.known is not None:
            self._open(connection, connection.known)
        if connection.outbox.error is not None or connection.stream.writes_first:
            self._read(connection)
        else:
            self._settle(connection)

    def _open(self, connection: Connection, peer: Peer) -> None:
        """Both ends of a connection have said hello; reports it the first time."""
        if self._unopened.discard(connection):
            before = self._peers.get(peer)
            if before is not None and before is not connection:
                self._lose(before, REPLACED)
            self._peers[peer] = connection
            self._far.add(connection)
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
        self._unopened.discard(entry)
        if entry.peer is not None and self._peers.get(entry.peer) is entry:
            del self._peers[entry.peer]
        entry.outbox.drop()
        if isinstance(entry, Dialing):
            self._poller.forget(entry.socket)
            entry.close()
            return
        self._far.discard(entry)
        self._unread.pop(entry, None)
        if self._connections.pop(entry, None) is not None:
            self._poller.forget(entry.stream)
        entry.stream.close()

    # New connections ----------------------------------------------------------------------------------------

    def _accept(self, listener: Listener) -> None:
        """Take new connections. Where there are too many strangers, the oldest goes."""
        # A few at once, so that open connections are served in between.
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._refusals.too_fast:
                self._reception.pause()
                return
            try:
                accepted, address = listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptor is left, or the caller is gone: do not try again at once
                self._refusals.add(TOO_MANY, str(listener.way), str(error))
                self._reception.pause()
                return
            few = descriptors_are_few(accepted.fileno())
            strangers = self._unopened.strangers
            if strangers and (few or len(strangers) >= self._limits.strangers):
                self._end(next(iter(strangers)), RefusedError(TOO_MANY, "others have come since"))
            where = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(listener.way)
            try:
                prepare(accepted, self._limits.silent_seconds)
            except OSError as error:  # gone already
                accepted.close()
                self._refusals.add(UNAUTHENTICATED, where, str(error))
                continue
            connection = self._begin(self._reception.stream(accepted), Outbox(), where)
            self._unopened.strangers[connection] = None
            self._write(connection)

    def _dial(self, dialing: Dialing, failed: str = "") -> None:
        """Connect to a peer by the next way that it has."""
        self._poller.forget(dialing.socket)
        try:
            connected = dialing.next(self._time.seconds, failed)
        except UnreachableError as error:
            self._lose(dialing, NO_LISTENER if error.refused else UNREACHABLE, str(error))
            return
        if connected:
            self._dialed(dialing)
        elif not dialing.waits and dialing.socket is not None:
            self._poller.watch(dialing.socket, WRITE, dialing)

    def _dialed(self, dialing: Dialing) -> None:
        """The socket of a peer is connected, or it cannot be."""
        if dialing not in self._unopened.called:
            return
        self._poller.forget(dialing.socket)
        try:
            connected = dialing.connected()
        except OSError as error:
            self._dial(dialing, error.strerror or str(error))
            return
        self._unopened.discard(dialing)
        stream: Stream = (
            PlainStream(connected)
            if connected.family == socket.AF_UNIX
            else TlsStream(connected, self._caller_context, listens=False)
        )
        connection = self._begin(stream, dialing.outbox, dialing.where, dialing.peer)
        self._peers[dialing.peer] = connection
        self._unopened.called[connection] = None
        self._write(connection)

    def _begin(self, stream: Stream, outbox: Outbox, where: str, peer: Peer | None = None) -> Connection:
        """A socket is connected. `peer`: who should be there, if this end has called."""
        connection = Connection(
            stream,
            self._me,
            expected=peer,
            outbox=outbox,
            where=where,
            since=self._time.seconds,
            maximum_bytes=self._limits.frame_bytes,
        )
        self._connections[connection] = READ
        self._poller.watch(stream, READ, connection)
        return connection

    def _end_late(self) -> None:
        """Twice a second: end what takes too long to open; try again what was not possible."""
        if not self._time.due():
            return
        now, limits = self._time.seconds, self._limits
        for stranger in list(self._unopened.strangers):
            if now - stranger.since <= limits.hello_seconds:
                break
            self._end(stranger, RefusedError(LATE, f"no hello within {limits.hello_seconds:g} s"))
        for entry in list(self._unopened.called):
            passed = now - entry.since
            if isinstance(entry, Connection):
                if passed > limits.answer_seconds:
                    self._lose(entry, LATE, f"no hello within {limits.answer_seconds:g} s")
            elif passed > limits.connect_seconds:
                self._dial(entry, f"no answer within {limits.connect_seconds:g} s")
            elif entry.waits:
                self._dial(entry)
