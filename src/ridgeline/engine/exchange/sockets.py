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
from ridgeline.engine.exchange.address import Dialing
from ridgeline.engine.exchange.connection import Connection, ended
from ridgeline.engine.exchange.frames import Frame, encode
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
    REPLACED,
    TOO_MANY,
    UNAUTHENTICATED,
    EndedError,
    Event,
    Lost,
    Opened,
    Peer,
    Received,
    RefusedError,
)
from ridgeline.engine.exchange.poller import READ, WRITE, Poller
from ridgeline.engine.exchange.streams import Stream, TlsStream, idle_seconds, prepare

_SCRATCH_BYTES = 64 << 10
_ACCEPTED_AT_ONCE = 16
_LIMITS = Limits()
_LOOK_SECONDS = 0.5
"""How often connections are looked at that are not open yet, or whose hosts may be silent."""
_ASKED_TWICE = 1.5
"""An idle host that is silent for so many times the seconds until it is asked has not answered twice."""
_networks: weakref.WeakSet[Sockets] = weakref.WeakSet()


def _abandon() -> None:
    """In a forked process, let go of the parent's connections: they end with the parent."""
    for network in list(_networks):
        network.abandon()


os.register_at_fork(after_in_child=_abandon)


class _PolledTime:
    """The seconds in which this end has polled: while it does not, nothing is read, so nobody is late."""

    def __init__(self, clock: Clock) -> None:
        self.seconds = 0.0
        self.looked = clock.monotonic()
        self._clock = clock
        self._next = 0.0

    def due(self) -> bool:
        """Read the clock; True once each `_LOOK_SECONDS`."""
        now = self._clock.monotonic()
        self.seconds += min(now - self.looked, 1.0)
        self.looked = now
        if self.seconds < self._next:
            return False
        self._next = self.seconds + _LOOK_SECONDS
        return True


class Sockets:
    """The network of this process; see `Network`. Of one thread, but for what says otherwise.

    Raises RidgelineError if it cannot listen.
    """

    def __init__(self, me: Peer, listen: Listen, clock: Clock, limits: Limits = _LIMITS) -> None:
        self._me = me
        self._clock = clock
        self._limits = replace(limits, strangers=min(limits.strangers, share_of_descriptors(4)))
        self._listeners = listeners(listen)  # first: it may raise
        self._contexts = tls.contexts(listen.certificate)
        self._poller = Poller()
        self._peers: dict[Peer, Connection] = {}
        """By who is at the other end, or is called there."""
        self._strangers: dict[Connection, None] = {}
        """Those that came in and have not said hello, oldest first."""
        self._called: dict[Connection, None] = {}
        """Those that this end makes, until the other end has said hello."""
        self._far: dict[Connection, None] = {}
        """Open ones to other hosts: the network between may be cut."""
        self._noted: deque[Peer] = deque()
        """Something is left in their outboxes."""
        self._events: list[Event] = []
        self._refusals = Refusals(clock)
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._thread = threading.get_ident()
        self._asked = False
        """`wake` was called."""
        self._closed = False
        self._paused_until: float | None = None
        """Until then no connection is taken in: callers wait at the port."""
        self._time = _PolledTime(clock)
        self._watch_listeners()
        _networks.add(self)

    @property
    def me(self) -> Peer:
        """As `Network.me`."""
        return self._me

    @property
    def address(self) -> str:
        """As `Network.address`."""
        return ",".join(str(way) for listener in self._listeners for way in listener.ways)

    @property
    def refused(self) -> Mapping[str, int]:
        """As `Network.refused`."""
        return MappingProxyType(self._refusals.totals)

    # Any thread ---------------------------------------------------------------------------------------------

    def send(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer] = ()) -> bool:
        """As `Network.send`."""
        connection = self._peers.get(peer)
        if connection is None:
            return False
        outbox = connection.outbox
        sent = outbox.put(encode(kind, head, buffers, self._limits.frame_bytes))
        if outbox.queued_bytes or outbox.error is not None:
            self._noted.append(peer)
            if threading.get_ident() != self._thread:
                self._poller.interrupt()
        return sent

    def queued_bytes(self, peer: Peer) -> int:
        """As `Network.queued_bytes`."""
        connection = self._peers.get(peer)
        return 0 if connection is None else connection.outbox.queued_bytes

    def wake(self) -> None:
        """As `Network.wake`."""
        self._asked = True
        self._poller.interrupt()

    # The polling thread -------------------------------------------------------------------------------------

    def connect(self, peer: Peer, address: str) -> None:
        """As `Network.connect`."""
        if peer not in self._peers:
            dialing = Dialing(address, self._limits.silent_seconds)
            connection = Connection(self._me, peer, self._limits.frame_bytes, dialing=dialing)
            self._peers[peer] = connection
            self._called[connection] = None
            self._dial(connection, dialing)

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

    def silent_seconds(self, peer: Peer) -> float:
        """As `Network.silent_seconds`."""
        connection = self._peers.get(peer)
        if connection is None or connection not in self._far:
            return 0.0
        silent = connection.stream.silence().seconds
        return silent if silent > _ASKED_TWICE * idle_seconds(self._limits.silent_seconds) else 0.0

    def hang_up(self, peer: Peer) -> None:
        """As `Network.hang_up`."""
        connection = self._peers.get(peer)
        if connection is not None:
            self._remove(connection)
        self._events = [event for event in self._events if event.peer != peer]

    def close(self, seconds: float = 1.0) -> None:
        """As `Network.close`."""
        if self._closed:
            return
        self._closed = True
        self._paused_until = None
        for listener in self._listeners:
            self._poller.forget(listener.socket)
            listener.close()
        for connection in (*self._strangers, *self._called):
            self._remove(connection)
        unfinished = set(self._peers.values())
        for connection in unfinished:
            connection.outbox.end()
        deadline = self._clock.monotonic() + seconds
        while self._peers and (left := deadline - self._clock.monotonic()) > 0:
            for connection in unfinished.intersection(self._peers.values()):
                if not connection.outbox.queued_bytes:
                    unfinished.discard(connection)
                    with contextlib.suppress(OSError):
                        connection.stream.finish()
            self._turn(left)
            self._events.clear()
        for connection in list(self._peers.values()):
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
        while self._noted:
            # Something is left in its outbox, or that has failed: this shows when it is read.
            noted = self._peers.get(self._noted.popleft())
            if noted is not None and noted.known:
                self._read(noted)
        if self._events or self._asked:
            seconds = 0.0
        elif self._paused_until is not None:
            seconds = min(seconds, PAUSE_SECONDS)
        elif self._looks:
            seconds = min(seconds, _LOOK_SECONDS)
        for entry, ready in self._poller.ready(seconds):
            self._serve(entry, ready)
        if self._paused_until is not None and self._clock.monotonic() >= self._paused_until:
            self._paused_until = None
            self._watch_listeners()
        if self._looks:
            self._look()

    def _serve(self, entry: Listener | Connection, ready: int) -> None:
        """A socket is ready for these events."""
        if isinstance(entry, Listener):
            self._accept(entry)
        elif entry.over:
            return
        elif entry.dialing is not None:
            self._dialed(entry, entry.dialing)
        else:
            if ready & WRITE:
                entry.outbox.flush()
            failed = entry.outbox.error is not None  # why shows when it is read
            if ready & READ or failed or entry.known is None:
                self._read(entry)
            else:
                self._settle(entry)

    def _read(self, connection: Connection) -> None:
        """Take what has come on a connection; continue its hellos, if it is not open."""
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

    def _open(self, connection: Connection, peer: Peer) -> None:
        """Both ends of a connection have said hello; reports it the first time."""
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

    def _settle(self, connection: Connection) -> None:
        """Have the poller wait for what the connection waits for."""
        error = connection.outbox.error
        if error is not None and not connection.more:
            self._end(connection, ended(error))
            return
        interest = READ | WRITE if connection.wants_to_write() else READ
        if interest != connection.interest:
            connection.interest = interest
            self._poller.watch(connection.stream, interest, connection)

    def _end(self, connection: Connection, error: RefusedError | EndedError) -> None:
        """A connection is over."""
        reason, detail, sent = error.reason, str(error), connection.outbox.error
        if isinstance(error, RefusedError):
            self._refusals.add(reason, connection.where, detail)
        elif sent is not None and (found := ended(sent)).reason == CUT:
            reason, detail = CUT, str(found)
        self._lose(connection, reason, detail)

    def _lose(self, connection: Connection, reason: str, detail: str = "") -> None:
        """End a connection, and report it if anybody knows of it."""
        self._remove(connection)
        if connection.peer is not None:
            self._events.append(Lost(connection.peer, reason, detail))

    def _remove(self, connection: Connection) -> None:
        """End a connection; it is known no more."""
        for known in (self._strangers, self._called, self._far):
            known.pop(connection, None)
        if connection.peer is not None and self._peers.get(connection.peer) is connection:
            del self._peers[connection.peer]
        self._poller.forget(connection.file)
        connection.close()

    # New connections ----------------------------------------------------------------------------------------

    def _watch_listeners(self) -> None:
        for listener in self._listeners:
            self._poller.watch(listener.socket, READ, listener)

    def _pause(self) -> None:
        """Take no connection in for a moment."""
        self._paused_until = self._clock.monotonic() + PAUSE_SECONDS
        for listener in self._listeners:
            self._poller.forget(listener.socket)

    def _accept(self, listener: Listener) -> None:
        """Take new connections. Where there are too many strangers, the oldest goes."""
        # A few at once, so that open connections are served in between.
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
            if self._strangers and (few or len(self._strangers) >= self._limits.strangers):
                self._end(next(iter(self._strangers)), RefusedError(TOO_MANY, "others have come since"))
            where = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(listener.way)
            try:
                prepare(accepted, self._limits.silent_seconds)
            except OSError as error:  # gone already
                accepted.close()
                self._refusals.add(UNAUTHENTICATED, where, str(error))
                continue
            connection = Connection(self._me, None, self._limits.frame_bytes, where=where)
            self._strangers[connection] = None
            self._begin(connection, accepted, listens=True)

    def _dial(self, connection: Connection, dialing: Dialing, failed: str = "") -> None:
        """Connect to a peer by the next way that it has. `failed`: why the one under way is given up."""
        self._poller.forget(dialing.socket)
        if failed:
            dialing.fail(failed)
        if not dialing.waits:
            connection.since = self._time.seconds
        try:
            connected = dialing.next()
        except EndedError as error:
            self._end(connection, error)
            return
        if connected:
            self._dialed(connection, dialing)
        elif not dialing.waits and dialing.socket is not None:
            self._poller.watch(dialing.socket, WRITE, connection)

    def _dialed(self, connection: Connection, dialing: Dialing) -> None:
        """The socket of a peer is connected, or it cannot be."""
        self._poller.forget(dialing.socket)
        connected = dialing.connected()
        if connected is None:
            self._dial(connection, dialing)
        else:
            self._begin(connection, connected, listens=False)

    def _begin(self, connection: Connection, connected: socket.socket, *, listens: bool) -> None:
        """A socket is connected. `listens`: this end was called."""
        stream = Stream(connected)
        if connected.family != socket.AF_UNIX:
            stream = TlsStream(connected, self._contexts[not listens], listens=listens)
        connection.begin(stream)
        connection.since, connection.interest = self._time.seconds, READ
        self._poller.watch(stream, READ, connection)
        self._read(connection)

    # Time-outs ----------------------------------------------------------------------------------------------

    @property
    def _looks(self) -> bool:
        """True if there are connections that are to be looked at now and then."""
        return bool(self._strangers or self._called or self._far)

    def _look(self) -> None:
        """Now and then: end what takes too long to open, or is cut; try again what was not possible."""
        if not self._time.due():
            return
        now, limits = self._time.seconds, self._limits
        for stranger in list(self._strangers):
            if now - stranger.since <= limits.hello_seconds:
                break
            self._end(stranger, RefusedError(LATE, f"no hello within {limits.hello_seconds:g} s"))
        for connection in list(self._called):
            passed = now - connection.since
            if connection.dialing is None:
                if passed > limits.answer_seconds:
                    self._lose(connection, LATE, f"no hello within {limits.answer_seconds:g} s")
            elif passed > limits.connect_seconds:
                self._dial(connection, connection.dialing, f"no answer within {limits.connect_seconds:g} s")
            elif connection.dialing.waits:
                self._dial(connection, connection.dialing)
        for connection in list(self._far):
            silence = connection.stream.silence()
            if silence.unanswered >= limits.silent_seconds:
                self._lose(connection, CUT, f"its host has acknowledged nothing for {silence.seconds:.0f} s")
