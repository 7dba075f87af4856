"""Bytes to and from one connected socket that does not block: in the clear, or by TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from ridgeline.engine.exchange import tls

_MOST_PIECES = 512
"""The operating system takes 1,024 at once."""
_RECORD_BYTES = 16 << 10
_MOST_BYTES = 1 << 20
"""By TLS, at once."""


_UNIX_BUFFER_BYTES = 1 << 20
"""Of a Unix socket; of a TCP socket the operating system finds it out."""
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
"""A host that is gone is noticed after half a minute, even if nothing is sent to it."""


def prepare(connected: socket.socket) -> None:
    """Have a socket never block, send small frames at once, and notice that the other host is gone."""
    connected.setblocking(False)  # noqa: FBT003
    if connected.family == socket.AF_UNIX:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # on Linux
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Stream(Protocol):
    """What a connection reads from and writes to; all raise OSError if it is broken.

    `receive` is of one thread, `send` of another, perhaps.
    """

    binding: bytes
    """Digest of the certificate in use, once `ready`; b"" in the clear."""
    short_is_all: bool
    """Once `receive` gives less than it could, the operating system says when there is more."""
    writes_first: bool
    """Must write before it can go on, whatever the caller wants."""

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""

    def ready(self) -> bool:
        """Go on with what comes before the first byte; True once that is over."""

    def receive(self, room: memoryview) -> int:
        """Read into `room`; 0 at the end. Raises BlockingIOError if there is nothing yet."""

    def send(self, pieces: Iterable[memoryview]) -> int:
        """Write what of the pieces is taken at once; how many bytes. Raises BlockingIOError for none."""

    def finish(self) -> None:
        """Say that nothing more is sent."""

    def close(self) -> None:
        """End it, whatever is under way."""


class PlainStream:
    """In the clear."""

    binding = b""
    short_is_all = True
    writes_first = False

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def fileno(self) -> int:
        """As `Stream`."""
        return self._socket.fileno()

    def ready(self) -> bool:
        """Nothing comes before."""
        return True

    def receive(self, room: memoryview) -> int:
        """As `Stream`."""
        return self._socket.recv_into(room)

    def send(self, pieces: Iterable[memoryview]) -> int:
        """As `Stream`."""
        return self._socket.sendmsg(islice(pieces, _MOST_PIECES))

    def finish(self) -> None:
        """As `Stream`."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """As `Stream`."""
        self._socket.close()


class TlsStream:
    """By TLS. `digest`: of the certificate of this end if it listens, None if it has connected."""

    short_is_all = False

    def __init__(
        self, connected: socket.socket, context: ssl.SSLContext, digest: bytes | None = None
    ) -> None:
        self.writes_first = False
        self.binding = digest or b""
        self._listens = digest is not None
        self._context = context
        self._plain: socket.socket | None = connected
        self._lock = threading.Lock()
        """The library's state is not for two threads at once."""
        self._socket: ssl.SSLSocket

    def fileno(self) -> int:
        """As `Stream`."""
        return self._socket.fileno() if self._plain is None else self._plain.fileno()

    def ready(self) -> bool:
        """As `Stream`: TLS's own handshake."""
        if self._plain is not None:
            self._socket = self._context.wrap_socket(
                self._plain,
                server_side=self._listens,
                do_handshake_on_connect=False,
                suppress_ragged_eofs=False,
            )
            self._plain = None
        try:
            with self._turn():
                self._socket.do_handshake()
        except BlockingIOError:
            return False
        if not self._listens:
            self.binding = tls.digest_seen(self._socket)
        return True

    def receive(self, room: memoryview) -> int:
        """As `Stream`; an end that the other end has not said so is an error."""
        with self._turn():
            return self._socket.recv_into(room)

    def send(self, pieces: Iterable[memoryview]) -> int:
        """As `Stream`, at most 1 MiB."""
        sent = 0
        for record in _records(pieces, _MOST_BYTES):
            try:
                with self._turn():
                    count = self._socket.send(record)
            except BlockingIOError:
                if not sent:
                    raise
                break
            sent += count
            if count < record.nbytes:
                break
        return sent

    def finish(self) -> None:
        """As `Stream`."""
        with contextlib.suppress(BlockingIOError), self._turn():
            self._socket.unwrap()  # says it, and does not wait for the other end to say it too

    def close(self) -> None:
        """As `Stream`."""
        with self._lock:
            (self._plain or self._socket).close()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One call of the library."""
        with self._lock:
            self.writes_first = False
            try:
                yield
            except ssl.SSLWantReadError as error:
                raise BlockingIOError from error
            except ssl.SSLWantWriteError as error:
                self.writes_first = True
                raise BlockingIOError from error


def _records(pieces: Iterable[memoryview], most_bytes: int) -> Iterator[memoryview]:
    """The bytes of the pieces, up to so many, as much at once as goes into one record."""
    joined = bytearray()
    for piece in pieces:
        for begin in range(0, piece.nbytes, _RECORD_BYTES):
            part = piece[begin : begin + _RECORD_BYTES]
            if len(joined) + part.nbytes > _RECORD_BYTES:
                yield memoryview(joined)
                most_bytes -= len(joined)
                joined = bytearray()
                if most_bytes <= 0:
                    return
            if not joined and part.nbytes == _RECORD_BYTES:
                yield part
                most_bytes -= part.nbytes
                if most_bytes <= 0:
                    return
            else:
                joined += part
    if joined:
        yield memoryview(joined)
