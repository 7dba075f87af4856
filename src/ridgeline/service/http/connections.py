"""How many connections the web service holds, and for how long one may keep it waiting.

Anyone who reaches the port can connect, also without a token. Each connection takes a descriptor of the
driver, which needs some for its journal and its state. So their number and their time are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, NoReturn

import h11
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ridgeline.api.clock import SystemClock
from ridgeline.engine.exchange.limits import (
    PAUSE_SECONDS,
    Refusals,
    descriptors_are_few,
    share_of_descriptors,
)
from ridgeline.engine.exchange.network import LATE, MALFORMED, TOO_MANY
from ridgeline.service.tls.serving import ServedTls

_HANDSHAKE = 0x16
"""The first byte of every client that speaks TLS."""
_FAREWELL_SECONDS = 2.0
_CHUNK = 65_536
_TEXT = (
    b'{"error":"this service speaks TLS","hint":"begin its address with `https://`; what was sent just now '
    b'was not encrypted"}'
)
_PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"cache-control: no-store\r\ncontent-length: %d\r\n\r\n%b"
) % (len(_TEXT), _TEXT)


class Handshakes:
    """Handshakes under way. Of one event loop.

    `seconds`: how long one may take, from the connection on. `refusals`: counts those that came to nothing.
    """

    def __init__(self, tls: ServedTls, refusals: Refusals, seconds: float) -> None:
        self._tls = tls
        self._refusals = refusals
        self._seconds = seconds
        self._tasks: dict[asyncio.Task[bool], socket.socket] = {}
        """Each with its client; the oldest is the first."""

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, accepted: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Shake hands with a client; once that is done it is a connection of a new protocol."""
        task = asyncio.get_running_loop().create_task(self._shake(accepted, protocol))
        self._tasks[task] = accepted
        task.add_done_callback(self._ended)

    def drop_oldest(self) -> None:
        """End the oldest one, if there is one: others have come since."""
        oldest = next((task for task in self._tasks if not task.cancelling()), None)
        if oldest is not None:
            where = _name(self._tasks[oldest])
            self._refusals.add(TOO_MANY, where, "the web service: others have come since")
            oldest.cancel()

    def close(self) -> None:
        """End all of them. May be called twice."""
        for task in list(self._tasks):
            task.cancel()

    def _ended(self, task: asyncio.Task[bool]) -> None:
        """Close the socket of a client that is no connection now, also if its task had not begun."""
        accepted = self._tasks.pop(task)
        if task.cancelled() or task.exception() is not None or not task.result():
            accepted.close()

    async def _shake(self, accepted: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> bool:
        """Shake hands, or answer a client that speaks no TLS. True: it is a connection now."""
        loop, where = asyncio.get_running_loop(), _name(accepted)
        try:
            async with asyncio.timeout(self._seconds):
                first = await _first_byte(loop, accepted)
                if first == _HANDSHAKE:
                    await loop.connect_accepted_socket(
                        protocol,
                        accepted,
                        ssl=self._tls.context(),
                        ssl_handshake_timeout=self._seconds,
                        ssl_shutdown_timeout=_FAREWELL_SECONDS,
                    )
                    return True
            if first is not None:
                self._refusals.add(MALFORMED, where, "the web service: a client that speaks no TLS")
                await _answer_plainly(loop, accepted, first)
        except TimeoutError:
            self._refusals.add(LATE, where, f"the web service: no handshake within {self._seconds:g} s")
        except OSError as error:  # those of TLS are such, too
            self._refusals.add(MALFORMED, where, f"the web service: {error.strerror or error}")
        return False


async def _first_byte(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> int | None:
    """The first byte that a client sends, which stays to be read; None if it has hung up."""
    ready = loop.create_future()
    loop.add_reader(accepted, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(accepted)
    return next(iter(accepted.recv(1, socket.MSG_PEEK)), None)


async def _answer_plainly(loop: asyncio.AbstractEventLoop, accepted: socket.socket, first: int) -> None:
    """Say to a client of HTTP what this port speaks; hang up on any other."""
    if not chr(first).isalpha():
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await loop.sock_sendall(accepted, _PLAIN)
            accepted.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(accepted, _CHUNK):  # closed before all is read, the answer is lost
                pass


def _name(accepted: socket.socket) -> str:
    try:
        host, port = accepted.getpeername()[:2]
    except OSError:
        return "a client that is gone"
    return f"{host}:{port}"


MOST_CONNECTIONS = 256
"""Connections at a time, where the process may open at least four times as many files."""
REQUEST_SECONDS = 10.0
"""Until the head of a request is there; it begins with the connection, or with the answer before."""
READ_SECONDS = 30.0
"""How long a client may take nothing of an answer that waits for it."""
_LOOK_SECONDS = 0.5
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b"
)
PART_SECONDS = 1.0
"""How long a client whose request is no HTTP may still send, so that it can read why."""
_INVALID = b'{"error":"the request is no HTTP","hint":"use the address that was shown at start"}'
_FULL = b'{"error":"all connections of this service are in use","hint":"close some of them, or try again"}'


def most_connections() -> int:
    """How many connections one service holds: a quarter of the descriptors at most."""
    return min(MOST_CONNECTIONS, share_of_descriptors(4))


class Connections:
    """The connections of one server. Of its event loop alone.

    A new one takes the place of the one that has been without a request for longest. If all have requests,
    the new one is answered with 503.

    Args:
        most: How many connections there may be.
        request_seconds: Until the head of a request must be there.
        read_seconds: How long a client may take nothing of its answer.
    """

    def __init__(
        self,
        most: int | None = None,
        request_seconds: float = REQUEST_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self.refusals = Refusals(SystemClock())
        self._most = most_connections() if most is None else most
        self._request_seconds = request_seconds
        self._read_seconds = read_seconds
        self._idle: dict[BoundedProtocol, float] = {}
        """Connections without a request, and since when; the one that waits for longest is the first."""
        self._stalled: dict[BoundedProtocol, tuple[float, int]] = {}
        """Where an answer waits for the client: when it last took some, and the bytes that are left."""
        self._number = 0
        self._look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._number

    async def accept(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        tls: ServedTls | None = None,
    ) -> NoReturn:
        """Accept clients one by one, each with a new protocol; slower while many are refused.

        asyncio's own server takes as many at once as wait, whose descriptors are then gone.
        """
        loop = asyncio.get_running_loop()
        listening.setblocking(False)  # noqa: FBT003
        handshakes = None if tls is None else Handshakes(tls, self.refusals, self._request_seconds)
        with contextlib.ExitStack() as ending:
            if handshakes is not None:
                ending.callback(handshakes.close)
            while True:
                if self.refusals.too_fast:
                    await asyncio.sleep(PAUSE_SECONDS)
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except OSError as error:  # no descriptor is left, or the client is gone
                    self.refusals.add(TOO_MANY, "a client", f"the web service: {error}")
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if handshakes is not None:
                    self._begin(handshakes, accepted, protocol)
                    continue
                with contextlib.suppress(OSError):  # gone already
                    await loop.connect_accepted_socket(protocol, accepted)

    def _begin(
        self, handshakes: Handshakes, accepted: socket.socket, protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        """Begin a handshake, in the place of the oldest one if there are too many."""
        if self._number + len(handshakes) >= self._most or descriptors_are_few(accepted.fileno()):
            handshakes.drop_oldest()
        handshakes.begin(accepted, protocol)

    def enter(self, connection: BoundedProtocol) -> None:
        """Take a new connection, in the place of an idle one if there are too many."""
        self._number += 1
        # A new descriptor is the lowest free one, so its number says how many are open.
        number = connection.transport.get_extra_info("socket").fileno()
        if self._number > self._most or descriptors_are_few(number):
            oldest = next(iter(self._idle), None)
            if oldest is None:
                self._refuse(connection, TOO_MANY, "all connections have requests")
                connection.transport.write(_BUSY % (len(_FULL), _FULL))
                connection.transport.close()
                return
            self._end(oldest, TOO_MANY, "others have come since")
        self.idle(connection)

    def idle(self, connection: BoundedProtocol) -> None:
        """A connection waits for a request of its client."""
        self._idle[connection] = connection.loop.time()
        self._look_later(connection.loop)

    def busy(self, connection: BoundedProtocol) -> None:
        """The head of a request is there."""
        self._idle.pop(connection, None)

    def stalled(self, connection: BoundedProtocol) -> None:
        """An answer waits for its client."""
        self._stalled[connection] = connection.loop.time(), _unsent(connection.transport)
        self._look_later(connection.loop)

    def reads(self, connection: BoundedProtocol) -> None:
        """The client takes what waited."""
        self._stalled.pop(connection, None)

    def leave(self, connection: BoundedProtocol) -> None:
        """A connection is over."""
        self._number -= 1
        self._idle.pop(connection, None)
        self._stalled.pop(connection, None)

    def _end(self, connection: BoundedProtocol, reason: str, detail: str) -> None:
        self._idle.pop(connection, None)
        self._stalled.pop(connection, None)
        self._refuse(connection, reason, detail)
        connection.transport.abort()

    def _refuse(self, connection: BoundedProtocol, reason: str, detail: str) -> None:
        client = connection.client
        where = f"{client[0]}:{client[1]}" if client else "a client that is gone"
        self.refusals.add(reason, where, f"the web service: {detail}")

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._look is None:
            self._look = loop.call_later(_LOOK_SECONDS, self._end_late, loop)

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """End connections that keep the service waiting."""
        self._look = None
        now = loop.time()
        for connection, idle_since in list(self._idle.items()):
            if now - idle_since <= self._request_seconds:
                break  # those behind it came later
            if _unsent(connection.transport):  # the answer before is still on its way
                if connection not in self._stalled:
                    self.stalled(connection)
            else:
                self._end(connection, LATE, f"no request within {self._request_seconds:g} s")
        for connection, (since, left) in list(self._stalled.items()):
            unsent = _unsent(connection.transport)
            if unsent != left:
                self._stalled[connection] = now, unsent
            elif now - since > self._read_seconds:
                self._end(connection, LATE, f"nothing was read of an answer within {self._read_seconds:g} s")
        if self._idle or self._stalled:
            self._look_later(loop)


def _unsent(transport: asyncio.Transport) -> int:
    """How many bytes wait for the client; with TLS also those that are encrypted already."""
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return transport.get_write_buffer_size() + (0 if below is None else below.get_write_buffer_size())


class BoundedProtocol(H11Protocol):
    """One connection of the web service, which reports its state to `Connections`."""

    def __init__(self, connections: Connections, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bounds = connections
        self._is_parting = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection; it may be refused."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(HIGH_WATER_LIMIT)  # that of TLS would be eight times as high
        self._bounds.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no more."""
        self._bounds.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client; none after a request that is no HTTP."""
        if not self._is_parting:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and close when the client has, or `PART_SECONDS` later.

        Bytes that arrive at a closed socket reset the connection, and the client loses the answer.
        """
        del msg
        self._is_parting = True
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:  # an answer has begun
            self.transport.close()
            return
        headers = {"connection": "close", "content-type": "application/json"}
        length = {"content-length": str(len(_INVALID))}
        response = h11.Response(status_code=400, headers=[*(headers | length).items()], reason=b"Bad Request")
        for event in (response, h11.Data(data=_INVALID), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        if self.transport.can_write_eof():  # not with TLS
            self.transport.write_eof()
            self.loop.call_later(PART_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def handle_events(self) -> None:
        """Read what has arrived; afterwards a request may have begun."""
        super().handle_events()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._bounds.busy(self)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if not self.transport.is_closing():
            self._bounds.idle(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Stop writing: the client does not read."""
        self._bounds.stalled(self)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Write again: the client reads."""
        self._bounds.reads(self)
        super().resume_writing()
