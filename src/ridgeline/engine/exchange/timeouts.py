"""Timeouts of a network: connections that do not open in time, hosts that fall silent."""

from __future__ import annotations

from ridgeline.api.clock import Clock
from ridgeline.engine.exchange.connection import Connection
from ridgeline.engine.exchange.dialing import Dialing
from ridgeline.engine.exchange.streams import idle_seconds

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
    """Connections whose handshake is not over.

    `strangers`: those that have come in and have not proved anything yet, oldest first. `called`: those that
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
