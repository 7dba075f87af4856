"""TLS handshakes of clients: few at a time, none for long, so that a stranger holds up no one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from ridgeline.engine.exchange.limits import Refusals
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
