"""The engine's own `Sockets` over simulated ones: bytes arrive in pieces of any size, and connections break.

It takes the place of `Wires` in some worlds. Nothing is left out but TLS and several ways to one peer.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ridgeline.engine.exchange import address as ways
from ridgeline.engine.exchange import sockets
from ridgeline.engine.exchange.address import Target
from ridgeline.engine.exchange.listening import Listen, Listener
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.exchange.poller import READ, WRITE
from support.simulation.process import Process

if TYPE_CHECKING:
    from support.simulation.world import World

_BUFFER_BYTES = 4096
"""So much is on its way at most; more is not taken."""
_WHOLE = 0.7
"""How likely it is that a piece arrives whole."""
_END = b""


class Stream:
    """One direction of a connection: the pieces on their way to `target`."""

    __slots__ = ("coming", "cut", "held", "target")

    def __init__(self, target: Socket) -> None:
        self.target = target
        self.coming: deque[bytes | OSError] = deque()
        """The last one may be its end, or an error."""
        self.cut = False
        self.held = 0

    @property
    def queued_bytes(self) -> int:
        return sum(len(piece) for piece in self.coming if isinstance(piece, bytes))


class Socket:
    """A connected socket of a process."""

    family = socket.AF_UNIX

    def __init__(self, ether: Ether, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.process = endpoint.process
        self.out: Stream | None = None
        self.inward: Stream | None = None
        self.inbox = bytearray()
        self.end: bytes | OSError | None = None
        """How it has ended, once it has."""
        self.closed = False
        self._ether = ether
        self._number = ether.number()
        endpoint.open[self] = None

    def fileno(self) -> int:
        return self._number

    def setblocking(self, _flag: object) -> None:
        """It never blocks."""

    def connect_ex(self, place: str) -> int:
        self.process.check()
        listener = self._ether.listening.get(place)
        if listener is None or self.endpoint.refuses:
            if self.endpoint.refuses:
                self.endpoint.refuses -= 1
                self.process.world.breaks()
            return errno.ECONNREFUSED
        other = Socket(self._ether, listener.endpoint)
        self.out = other.inward = Stream(other)
        self.inward = other.out = Stream(self)
        listener.backlog.append(other)
        return 0

    def getsockopt(self, *_which: int) -> int:
        return 0

    def sendmsg(self, pieces: Iterable[memoryview]) -> int:
        """Send as much as is taken. Raises OSError."""
        self.process.check()
        if self.out is None or self.closed or isinstance(self.end, OSError):
            raise BrokenPipeError
        room = _BUFFER_BYTES - self.out.queued_bytes
        if room <= 0:
            raise BlockingIOError
        data = b"".join(pieces)[:room]
        if not self.out.cut:
            self._ether.push(self.out, data)
        return len(data)

    def recv_into(self, room: memoryview) -> int:
        """Read what has arrived. Raises OSError."""
        self.process.check()
        if self.inbox:
            count = min(len(self.inbox), room.nbytes)
            room[:count] = self.inbox[:count]
            del self.inbox[:count]
            return count
        if isinstance(self.end, OSError):
            raise self.end
        if self.end is None:
            raise BlockingIOError
        return 0

    def shutdown(self, _how: int) -> None:
        self._finish(_END)

    def close(self) -> None:
        """End it: in order, unless there is something that was not read."""
        if not self.closed:
            self.closed = True
            self._finish(ConnectionResetError() if self.inbox else _END)
            self.endpoint.open.pop(self, None)

    def _finish(self, end: bytes | OSError) -> None:
        if self.out is not None and not self.out.cut:
            self.out.cut = True
            self._ether.push(self.out, end)

    def readable(self) -> bool:
        """True if `recv_into` has something to say."""
        return bool(self.inbox) or self.end is not None

    def writable(self) -> bool:
        """True if `sendmsg` takes something, or fails."""
        return self.out is None or self.out.queued_bytes < _BUFFER_BYTES


class _Listening:
    """The socket of a listener."""

    def __init__(self, ether: Ether, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.backlog: deque[Socket] = deque()
        self._ether = ether
        self._number = ether.number()

    def fileno(self) -> int:
        return self._number

    def setblocking(self, _flag: object) -> None:
        """It never blocks."""

    def accept(self) -> tuple[Socket, str]:
        """The next connection. Raises BlockingIOError."""
        self.endpoint.process.check()
        if not self.backlog:
            raise BlockingIOError
        return self.backlog.popleft(), ""

    def readable(self) -> bool:
        """True if somebody has connected."""
        return bool(self.backlog)

    def writable(self) -> bool:
        return False


class _Listener(Listener):
    """A `Listener` of an endpoint."""

    def close(self) -> None:
        for other in self.socket.backlog:
            other.close()
        self.socket.endpoint.ether.listening.pop(self.way, None)


class _Poller:
    """A `Poller` of an endpoint."""

    def __init__(self) -> None:
        self._endpoint = _at_work()
        self._endpoint.poller = self
        self._watched: dict[int, tuple[Any, int, object]] = {}
        self._woken = False

    def watch(self, file: Any, interest: int, owner: object) -> None:
        plain = getattr(file, "_socket", file)
        self._watched[file.fileno()] = plain, interest, owner

    def forget(self, file: Any) -> None:
        if file is not None:
            self._watched.pop(file.fileno(), None)

    def found(self) -> list[tuple[Any, int]]:
        """The owners whose sockets are ready, and for what."""
        found = []
        for file, interest, owner in self._watched.values():
            ready = (READ if file.readable() else 0) | (WRITE if file.writable() else 0)
            if ready & interest:
                found.append((owner, ready & interest))
        return found

    def ready(self, seconds: float) -> Iterator[tuple[Any, int]]:
        """The same, after some time if need be; the rest of the world goes on meanwhile."""
        endpoint = self._endpoint
        endpoint.process.check()
        if seconds > 0 and not self._woken and not self.found():
            endpoint.process.world.wait_for(endpoint.process, lambda: bool(self.found()), seconds)
            endpoint.process.check()
            endpoint.works()
        self._woken = False
        return iter(self.found())

    def interrupt(self) -> None:
        """End the next call of `ready`."""
        self._woken = True

    def close(self) -> None:
        self._watched.clear()

    abandon = close


_working: list[Endpoint] = []
"""Whose code runs."""


def _at_work() -> Endpoint:
    return _working[-1]


class Endpoint(sockets.Sockets):
    """The `Sockets` of one process."""

    def __init__(self, ether: Ether, me: Peer, process: Process) -> None:
        self.ether = ether
        self.process = process
        self.open: dict[Socket, None] = {}
        self.refuses = 0
        """So many of the next calls are not answered."""
        self.poller: _Poller
        self.works()
        super().__init__(me, Listen(), process.world.clock)

    def works(self) -> None:
        _working[:] = [self]

    def connect(self, peer: Peer, address: str) -> None:
        self.works()
        super().connect(peer, address)

    def hang_up(self, peer: Peer) -> None:
        self.process.hangs_up(peer)
        super().hang_up(peer)

    def poll(self, seconds: float) -> Any:
        self.works()
        return super().poll(seconds)

    @property
    def events(self) -> bool:
        """True if `poll` has something to do."""
        if self._events or self._noted or self.poller.found():
            return True
        waits = bool(self._strangers or self._called) or self._paused_until is not None
        return waits and self._clock.monotonic() > self._time.looked + 1.0

    def _streams(self) -> Iterator[tuple[Peer, Socket]]:
        for peer, entry in self._peers.items():
            if entry.dialing is None and not entry.stream._socket.closed:
                yield peer, entry.stream._socket

    @property
    def outward(self) -> Mapping[Peer, Stream]:
        """What is on the way from here, by peer."""
        return {peer: one.out for peer, one in self._streams()}

    @property
    def inward(self) -> Mapping[Peer, Stream]:
        """What is on the way to here."""
        return {peer: one.inward for peer, one in self._streams()}


class Ether:
    """The connections of one driver with its slots, and among these, as `Wires`."""

    def __init__(self, world: World) -> None:
        self.busy = world.busy
        self.endpoints: dict[Peer, Endpoint] = {}
        self.listening: dict[str, _Listening] = {}
        self._luck = world.luck
        self._numbers = 2

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def join(self, peer: Peer, process: Process) -> Endpoint:
        """A process is there under this name."""
        endpoint = self.endpoints[peer] = Endpoint(self, peer, process)
        return endpoint

    def push(self, stream: Stream, piece: bytes | OSError) -> None:
        """Send a piece on its way."""
        stream.coming.append(piece)
        if not stream.held:
            self.busy[stream] = self

    def hold(self, stream: Stream) -> None:
        """Let nothing of a stream arrive."""
        stream.held += 1
        self.busy.pop(stream, None)

    def release(self, stream: Stream) -> None:
        """Let what is on it arrive."""
        stream.held -= 1
        if stream.coming and not stream.held and stream.target.process.alive:
            self.busy[stream] = self

    def deliver(self, stream: Stream) -> bool:
        """Let the first piece of a stream arrive, or a part of it; True if there are more."""
        piece, target = stream.coming.popleft(), stream.target
        if not isinstance(piece, bytes) or piece == _END:
            target.end = piece
        elif self._luck.random() < _WHOLE:
            target.inbox += piece
        else:
            count = 1 + int(self._luck.random() * len(piece))
            target.inbox += piece[:count]
            if piece[count:]:
                stream.coming.appendleft(piece[count:])
        if not stream.coming:
            self.busy.pop(stream, None)
        return bool(stream.coming)

    def cut(self, endpoint: Endpoint, peer: Peer, *, lost: int) -> None:
        """Break a connection: each end learns of it after what still arrives; `lost` last pieces do not."""
        entry = endpoint._peers.get(peer)
        if entry is not None and entry.dialing is None:
            self._break(entry.stream._socket, lost)

    def _break(self, one: Socket, lost: int) -> None:
        for stream in (one.out, one.inward):
            if stream is not None and not stream.cut:
                stream.cut = True
                for _ in range(min(lost, len(stream.coming))):
                    stream.coming.pop()
                self.push(stream, ConnectionResetError())

    def kill(self, endpoint: Endpoint, lost: int) -> None:
        self.endpoints.pop(endpoint.me, None)
        self.listening = {way: one for way, one in self.listening.items() if one.endpoint is not endpoint}
        for one in list(endpoint.open):
            self._break(one, lost)
        for stream in [stream for stream in self.busy if stream.target.process is endpoint.process]:
            del self.busy[stream]


def _listeners(_listen: Listen) -> list[Listener]:
    endpoint = _at_work()
    way = f"ether:{endpoint._me.slot}.{endpoint._me.attempt}"
    listening = endpoint.ether.listening[way] = _Listening(endpoint.ether, endpoint)
    return [_Listener(listening, way)]


def _socket(*_kind: int) -> Socket:
    return Socket(_at_work().ether, _at_work())


def patches() -> Iterator[tuple[Any, str, object]]:
    """What `Sockets` is to find in place of the operating system."""
    yield sockets, "Poller", _Poller
    yield sockets, "listeners", _listeners
    yield sockets, "prepare", lambda *_: None
    no = lambda *_: None  # noqa: E731
    no_tls = lambda _certificate: SimpleNamespace(listens=None, connects=None)  # noqa: E731
    yield sockets, "tls", SimpleNamespace(contexts=no_tls)
    yield ways, "prepare", no
    yield ways, "ways_of", lambda address: [address]
    yield ways, "targets", lambda way: [Target(socket.AF_UNIX, way)]
    names = {name: getattr(socket, name) for name in ("AF_UNIX", "SOCK_STREAM", "SOL_SOCKET", "SO_ERROR")}
    yield ways, "socket", SimpleNamespace(socket=_socket, **names)
