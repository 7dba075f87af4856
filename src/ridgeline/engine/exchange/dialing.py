"""Connecting to a peer: one way after the other, until a socket is connected."""

from __future__ import annotations

import errno
import os
import socket

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange.address import Target, targets, ways_of
from ridgeline.engine.exchange.connection import Connection, Outbox
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.exchange.streams import SILENT_SECONDS, idle_seconds, prepare

_REFUSALS = {errno.ECONNREFUSED, errno.ENOENT}
_UNDER_WAY = {0, errno.EINPROGRESS, errno.EAGAIN}


class UnreachableError(Exception):
    """No way is left; the text says how the last one failed.

    `refused`: the other host has answered that nothing listens there, or the socket's file is gone.
    """

    def __init__(self, text: str, *, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused


class Dialing:
    """A peer that this end connects to. `outbox` already collects what is sent to it.

    Raises ValueError for a text that is no address.

    `socket`: the one that is being connected, or is. `since`: when that began. `waits`: the other end has too
    many callers at the moment; `next` tries once more.
    """

    def __init__(self, peer: Peer, address: str, silent_seconds: float = SILENT_SECONDS) -> None:
        self.peer = peer
        self._silent_seconds = silent_seconds
        self._refused_by_all = True
        """So said all ways that were tried; those that are not seen from here say nothing else."""
        self.outbox = Outbox()
        self.socket: socket.socket | None = None
        self.since = 0.0
        self.waits = False
        self.where = ""
        self._ways = ways_of(address)
        self._targets: list[Target] = []
        self._tried: set[Target] = set()
        self._place: str | tuple[str, int] = ""
        self._failed = f"nothing of `{address}` is seen from this host"

    def next(self, now: float, failed: str = "") -> bool:
        """Begin with the next way, or with the same again if it `waits`; True if it is connected at once.

        `failed`: why the way under way is given up. Raises UnreachableError if there is none any more.
        """
        if failed:
            self._failed = f"{self.where}: {failed}"
            self._refused_by_all &= failed == os.strerror(errno.ECONNREFUSED)
        if failed or not self.waits:
            self._take(now)
        while self.socket is not None:
            code = self.socket.connect_ex(self._place)
            self.waits = code == errno.EAGAIN
            if code in _UNDER_WAY:
                return code == 0
            self._failed = f"{self.where}: {os.strerror(code)}"
            self._refused_by_all &= code in _REFUSALS
            self._take(now)
        raise UnreachableError(self._failed, refused=self._refused_by_all)

    def _take(self, now: float) -> None:
        """A socket for the next way; None if there is no other way."""
        self.close()
        while self._ways and not self._targets:
            way = self._ways.pop(0)
            try:
                self._targets = [one for one in targets(way) if one not in self._tried]
                self._tried.update(self._targets)
            except OSError as error:
                self._failed = f"{way}: {error.strerror}"
                self._refused_by_all = False
        if self._targets:
            target = self._targets.pop(0)
            self._place, self.since = target.place, now
            self.where = target.place if isinstance(target.place, str) else "{}:{}".format(*target.place)
            try:
                self.socket = socket.socket(target.family, socket.SOCK_STREAM)
                prepare(self.socket, self._silent_seconds)
            except OSError as error:  # no descriptor is left
                self._refused_by_all = False
                self._failed = f"{self.where}: {error.strerror}"

    def connected(self) -> socket.socket:
        """The socket, which is writable now; it is the caller's. Raises OSError if connecting has failed."""
        found = self.socket
        code = errno.ENOTCONN if found is None else found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if found is None or code:
            raise OSError(code, os.strerror(code))
        if found.family != socket.AF_UNIX and found.getsockname() == found.getpeername():
            msg = "nobody listens there"  # and the socket has connected to itself
            raise OSError(msg)
        self.socket = None
        return found

    def close(self) -> None:
        """End what is under way."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


# Timeouts of a network: connections that do not open in time, hosts that fall silent.

TICK_SECONDS = 0.5
"""How often connections that are not open are looked at."""
SILENCE_SECONDS = 1.0
"""How often hosts that may be silent are looked at."""
_ASKED_TWICE = 1.5


class PolledTime:
    """The seconds in which this end has polled.

    While nothing polls, time stands still after a second: what others have sent meanwhile was not read, so
    they are not late.
    """

    def __init__(self, clock: Clock) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._looked = clock.monotonic()
        self._next = 0.0

    def due(self) -> bool:
        """Read the clock; True once each `TICK_SECONDS`."""
        now = self._clock.monotonic()
        self.seconds += min(now - self._looked, 1.0)
        self._looked = now
        if self.seconds < self._next:
            return False
        self._next = self.seconds + TICK_SECONDS
        return True


class Unopened:
    """Connections whose ends have not both said hello.

    `strangers`: those that have come in, oldest first. `called`: those that
    this end makes.
    """

    def __init__(self) -> None:
        self.strangers: dict[Connection, None] = {}
        self.called: dict[Connection | Dialing, None] = {}

    def __bool__(self) -> bool:
        """True if there are any."""
        return bool(self.strangers or self.called)

    def all(self) -> list[Connection | Dialing]:
        """Strangers first."""
        return [*self.strangers, *self.called]

    def discard(self, entry: Connection | Dialing) -> bool:
        """It is open, or ended; False if it is none of these."""
        known = entry in self.called
        self.called.pop(entry, None)
        if isinstance(entry, Connection) and entry in self.strangers:
            del self.strangers[entry]
            known = True
        return known


class FarConnections:
    """Open connections to other hosts, by TCP: the network between may be cut.

    A host is asked whether it is there if nothing else is sent. `limit_seconds`: a host that acknowledges
    nothing for that long is lost.
    """

    def __init__(self, clock: Clock, limit_seconds: float) -> None:
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._connections: dict[Connection, None] = {}
        self._next = 0.0

    def __bool__(self) -> bool:
        """True if there are any."""
        return bool(self._connections)

    def add(self, connection: Connection) -> None:
        """A connection is open; ignored if it stays on this host."""
        if connection.stream.is_far:
            self._connections[connection] = None

    def discard(self, connection: Connection) -> None:
        """A connection has ended."""
        self._connections.pop(connection, None)

    def silent_seconds(self, entry: Connection | Dialing | None) -> float:
        """For how long the other host has acknowledged nothing, 0 if that may be chance."""
        if not isinstance(entry, Connection) or entry not in self._connections:
            return 0.0
        silent = entry.stream.silence().seconds
        return silent if silent > _ASKED_TWICE * idle_seconds(self._limit_seconds) else 0.0

    def cut(self) -> list[tuple[Connection, float]]:
        """Once a second: the connections that are lost, and for how long their hosts have been silent."""
        now = self._clock.monotonic()
        if not self._connections or now < self._next:
            return []
        self._next = now + SILENCE_SECONDS
        found = [(connection, connection.stream.silence()) for connection in self._connections]
        return [
            (connection, silence.seconds)
            for connection, silence in found
            if silence.unanswered >= self._limit_seconds
        ]
