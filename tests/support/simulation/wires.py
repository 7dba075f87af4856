"""A simulated network: each connection keeps its order, the scheduler says which one moves next."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from typing_extensions import Buffer

from ridgeline.engine.exchange.network import (
    BROKEN,
    CLOSED,
    LATE,
    REPLACED,
    UNREACHABLE,
    Event,
    Lost,
    Opened,
    Peer,
    Received,
)
from support.simulation.process import Process


class Way:
    """One direction of a connection: what is on its way to `target`, from `source`."""

    __slots__ = ("coming", "cut", "held", "reverse", "source", "target")

    reverse: Way
    """The other direction."""

    def __init__(self, source: Endpoint, target: Endpoint) -> None:
        self.source = source
        self.target = target
        self.coming: deque[Event] = deque()
        self.cut = False
        """Nothing more can be sent."""
        self.held = 0
        """How many faults keep what is on it from arriving."""


class Wires:
    """The connections of one driver with its slots, and among these."""

    def __init__(self, busy: dict[Way, Wires]) -> None:
        self.endpoints: dict[Peer, Endpoint] = {}
        self.busy = busy
        """The ways on which something moves, of all drivers."""

    def join(self, peer: Peer, process: Process) -> Endpoint:
        """A process is there under this name."""
        endpoint = self.endpoints[peer] = Endpoint(self, peer, process)
        return endpoint

    def push(self, way: Way, event: Event) -> None:
        way.coming.append(event)
        if not way.held:
            self.busy[way] = self

    def hold(self, way: Way) -> None:
        """Let nothing on a way arrive."""
        way.held += 1
        self.busy.pop(way, None)

    def release(self, way: Way) -> None:
        """Let what is on a way arrive."""
        way.held -= 1
        if way.coming and not way.held and way.target.process.alive:
            self.busy[way] = self

    def deliver(self, way: Way) -> bool:
        """Let the first event on a way arrive; True if there are more."""
        event = way.coming.popleft()
        if not way.coming:
            self.busy.pop(way, None)
        target = way.target
        peer = way.source.me
        if isinstance(event, Opened):
            older = target.inward.get(peer)
            if older is not None and older is not way:
                self._forget(older)
                target.events.append(Lost(peer, REPLACED))
                reverse = older.reverse
                if not reverse.cut:  # this end has closed the older connection
                    reverse.cut = True
                    self.push(reverse, Lost(target.me, BROKEN))
                target.outward.pop(peer, None)
            target.inward[peer] = way
            if peer not in target.outward:
                target.outward[peer] = way.reverse
        elif isinstance(event, Lost):
            if target.inward.get(peer) is way:
                del target.inward[peer]
                target.outward.pop(peer, None)
            elif peer in target.inward:
                return False
        target.events.append(event)
        return bool(way.coming)

    def _forget(self, way: Way) -> None:
        way.coming.clear()
        way.cut = True
        self.busy.pop(way, None)

    def cut(self, one: Endpoint, peer: Peer, *, lost: int) -> None:
        """Break the connection to a peer, if there is one."""
        if peer in one.outward:
            self._break(one, one.outward[peer].target, lost=lost)

    def _break(self, one: Endpoint, other: Endpoint, *, reason: str = BROKEN, lost: int = 0) -> None:
        """Break all connections of two: each end learns of it after what still arrives.

        The `lost` last frames do not arrive.
        """
        known = [one.outward.get(other.me), other.outward.get(one.me)]
        known += [one.inward.get(other.me), other.inward.get(one.me)]
        ways = [way for way in known if way is not None]
        for way in dict.fromkeys([*ways, *(way.reverse for way in ways)]):
            if way.cut:
                continue
            way.cut = True
            for _ in range(min(lost, len(way.coming))):
                if isinstance(way.coming[-1], Opened):
                    break
                way.coming.pop()
            self.push(way, Lost(way.source.me, reason))

    def kill(self, endpoint: Endpoint, lost: int) -> None:
        """A process is gone: all others see its connections break."""
        self.endpoints.pop(endpoint.me, None)
        for other in self.endpoints.values():
            if endpoint.me in other.outward or endpoint.me in other.inward:
                self._break(endpoint, other, lost=lost)
        for way in [way for way in self.busy if way.target is endpoint]:
            self._forget(way)


class Endpoint:
    """The `Network` of one process."""

    def __init__(self, wires: Wires, me: Peer, process: Process) -> None:
        self.me = me
        self.address = f"wire:{me.slot}.{me.attempt}"
        self.refused: Mapping[str, int] = {}
        self.events: deque[Event] = deque()
        self.outward: dict[Peer, Way] = {}
        self.inward: dict[Peer, Way] = {}
        self.refuses = 0
        """So many of the next calls are not answered."""
        self._wires = wires
        self.process = process

    def connect(self, peer: Peer, address: str) -> None:
        """Connect; the other end hears of it some time."""
        self.process.check()
        if peer in self.outward:
            return
        other = self._wires.endpoints.get(peer)
        if other is None or address != other.address or self.refuses:
            if self.refuses:
                self.refuses -= 1
                self.process.world.breaks()
            self.events.append(Lost(peer, LATE if self.refuses % 2 else UNREACHABLE))
            return
        there, here = Way(self, other), Way(other, self)
        there.reverse, here.reverse = here, there
        self.outward[peer], self.inward[peer] = there, here
        self._wires.push(there, Opened(self.me))
        self._wires.push(here, Opened(peer))

    def send(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer] = ()) -> bool:
        """Send a frame; it is lost if the connection is cut already and this end does not know it."""
        self.process.check()
        way = self.outward.get(peer)
        if way is None:
            return False
        if not way.cut:
            views = [memoryview(bytes(memoryview(buffer))) for buffer in buffers]
            self._wires.push(way, Received(self.me, kind, memoryview(bytes(memoryview(head))), views))
        return True

    def queued_bytes(self, peer: Peer) -> int:
        return 0

    def silent_seconds(self, peer: Peer) -> float:
        return 0.0

    def poll(self, seconds: float) -> Sequence[Event]:
        """What has arrived. The rest of the world goes on while it waits."""
        self.process.check()
        if not self.events and seconds > 0:
            self.process.world.wait_for(self.process, lambda: bool(self.events), seconds)
            self.process.check()
        events = list(self.events)
        self.events.clear()
        return events

    def wake(self) -> None:
        """Nobody sleeps here for long."""

    def hang_up(self, peer: Peer) -> None:
        """End a connection in order: the other end learns of it."""
        self.process.check()
        self.process.hangs_up(peer)
        way = self.outward.get(peer)
        if way is not None:
            self._wires._break(self, way.target, reason=CLOSED)
            back = self.inward.pop(peer, None)
            if back is not None:
                back.coming.clear()
                self._wires.busy.pop(back, None)
            self.outward.pop(peer, None)
        self.events = deque(event for event in self.events if event.peer != peer)

    def close(self, seconds: float = 1.0) -> None:
        for peer in list(self.outward):
            self.hang_up(peer)
        self._wires.endpoints.pop(self.me, None)
