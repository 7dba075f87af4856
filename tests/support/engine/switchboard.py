"""A network in one process: whoever holds the switchboard says which event arrives next, and what breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ridgeline.engine.exchange.network import (
    BROKEN,
    UNREACHABLE,
    Event,
    Lost,
    Opened,
    Peer,
    Received,
)


class Line:
    """A connection of two peers: what is on its way to each."""

    def __init__(self, caller: Peer, called: Peer) -> None:
        self.ends = (caller, called)
        self.to: dict[Peer, deque[Event]] = {
            caller: deque([Opened(called)]),
            called: deque([Opened(caller)]),
        }
        self.open = {caller: True, called: False}
        """Who can send: the caller at once, the other once it knows."""

    def other(self, peer: Peer) -> Peer:
        return self.ends[1] if self.ends[0] == peer else self.ends[0]


class Switchboard:
    """All lines. `deliver` moves one event; `cut` breaks a line; `kill` takes a peer away."""

    def __init__(self) -> None:
        self.networks: dict[Peer, BoardNetwork] = {}
        self.lines: dict[frozenset[Peer], Line] = {}
        self.frames = 0

    def join(self, peer: Peer) -> BoardNetwork:
        self.networks[peer] = BoardNetwork(self, peer)
        return self.networks[peer]

    def on_their_way(self) -> list[tuple[Line, Peer]]:
        """Every line and end that something is on its way to, in a fixed order."""
        return [
            (line, peer)
            for _, line in sorted(self.lines.items(), key=lambda item: sorted(item[0]))
            for peer in line.ends
            if line.to[peer]
        ]

    def deliver(self, line: Line, peer: Peer) -> None:
        event = line.to[peer].popleft()
        if isinstance(event, Opened):
            line.open[peer] = True
        self.networks[peer].events.append(event)

    def cut(self, line: Line, lost: Mapping[Peer, int]) -> None:
        """Break a line: each end loses its last frames."""
        del self.lines[frozenset(line.ends)]
        for peer in line.ends:
            coming = line.to[peer]
            for _ in range(min(lost.get(peer, 0), len(coming))):
                coming.pop()
            if peer in self.networks:
                self.networks[peer].events.extend([*coming, Lost(line.other(peer), BROKEN)])

    def kill(self, peer: Peer, lost: int) -> None:
        del self.networks[peer]
        for ends, line in list(self.lines.items()):
            if peer in ends:
                self.cut(line, {line.other(peer): lost})


class BoardNetwork:
    """The `Network` of one peer."""

    def __init__(self, board: Switchboard, me: Peer) -> None:
        self.me = me
        self.address = f"board:{me.slot}"
        self.refused: Mapping[str, int] = {}
        self.events: deque[Event] = deque()
        self.queued: dict[Peer, int] = {}
        self._board = board

    def connect(self, peer: Peer, address: str) -> None:
        assert address == f"board:{peer.slot}"
        ends = frozenset((self.me, peer))
        if ends in self._board.lines:
            return
        if peer in self._board.networks:
            self._board.lines[ends] = Line(self.me, peer)
        else:
            self.events.append(Lost(peer, UNREACHABLE))

    def send(self, peer: Peer, kind: int, head: bytes, buffers: Sequence[object] = ()) -> bool:
        line = self._board.lines.get(frozenset((self.me, peer)))
        if line is None or not line.open[self.me]:
            return False
        self._board.frames += 1
        views = [memoryview(bytes(memoryview(buffer))) for buffer in buffers]
        line.to[peer].append(Received(self.me, kind, memoryview(bytes(head)), views))
        return True

    def queued_bytes(self, peer: Peer) -> int:
        return self.queued.get(peer, 0)

    def poll(self, seconds: float) -> Sequence[Event]:
        events = list(self.events)
        self.events.clear()
        return events

    def wake(self) -> None:
        """Nobody sleeps."""

    def hang_up(self, peer: Peer) -> None:
        line = self._board.lines.get(frozenset((self.me, peer)))
        if line is not None:
            self._board.cut(line, {})
        self.events = deque(event for event in self.events if event.peer != peer)

    def close(self, seconds: float = 1.0) -> None:
        for peer in [other for ends in self._board.lines for other in ends - {self.me} if self.me in ends]:
            self.hang_up(peer)
