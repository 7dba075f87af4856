"""Bytes to and from one connected socket that does not block: in the clear, or by TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple

_MOST_PIECES = 512
"""The operating system takes 1,024 at once."""
_RECORD_BYTES = 16 << 10
_MOST_BYTES = 1 << 20
"""By TLS, at once."""


_UNIX_BUFFER_BYTES = 1 << 20
"""Of a Unix socket; of a TCP socket the operating system finds it out."""
SILENT_SECONDS = 15.0
"""A host that acknowledges nothing for so long is cut off."""
_IDLE_PARTS, _ASKING_PARTS = 4, 8
"""Parts of that time: without traffic before the first question, and between two questions."""
_PROBES = 12
"""Unanswered, after which the operating system itself ends a connection of a process that does not look."""
_RTO_MAX_MS = 44
"""The number of `TCP_RTO_MAX_MS`, which Linux has since 6.15 and Python does not name."""
_TCP_INFO_BYTES = 60
_OVER = 7
"""The state of a TCP connection that has ended, the first byte of that."""
_RETRANSMISSIONS = 2
"""So often in a row nothing was answered: less may be a lost packet."""


def idle_seconds(silent_seconds: float) -> int:
    """After so long the operating system asks a host to which nothing was sent whether it is there."""
    return max(1, round(silent_seconds / _IDLE_PARTS))


def asking_seconds(silent_seconds: float) -> int:
    """So often the operating system asks a host again that does not answer."""
    return max(1, round(silent_seconds / _ASKING_PARTS))


class Silence(NamedTuple):
    """For how long the other host has acknowledged nothing; `unanswered`: up to the last question to it.

    A question that is under way may still be answered. 0.0 if no answer is overdue.
    """

    seconds: float
    unanswered: float


def silence_of(connected: socket.socket) -> Silence:
    """The operating system's view of a TCP connection that `prepare` was given.

    A process that does not read is no silence: its host acknowledges for it.
    """
    if not hasattr(socket, "TCP_INFO"):  # on Linux
        return Silence(0.0, 0.0)
    info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    retransmissions, probes, doublings = info[2:5]
    timeout, unacknowledged, sent, received = (
        int.from_bytes(info[at : at + 4], sys.byteorder) for at in (8, 24, 44, 56)
    )
    seconds, asked = received / 1e3, 0.0
    if unacknowledged and retransmissions >= _RETRANSMISSIONS:
        asked = sent / 1e3
    elif probes >= _RETRANSMISSIONS:  # of these it does not say when
        keepalive = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        asked = max(keepalive, min((timeout << doublings) / 1e6, _longest_rto_seconds(connected)))
    else:
        return Silence(seconds, 0.0)
    return Silence(seconds, max(0.0, seconds - asked))


def _longest_rto_seconds(connected: socket.socket) -> float:
    try:
        return connected.getsockopt(socket.IPPROTO_TCP, _RTO_MAX_MS) / 1e3
    except OSError:  # an older Linux
        return 120.0


def prepare(connected: socket.socket, silent_seconds: float = SILENT_SECONDS) -> None:
    """Have a socket never block, send small frames at once, and notice that the other host is gone.

    `silent_seconds`: after so long an idle connection is lost.
    """
    connected.setblocking(False)  # noqa: FBT003
    if connected.family == socket.AF_UNIX:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle, asking = idle_seconds(silent_seconds), asking_seconds(silent_seconds)
    for name, value in (("TCP_KEEPIDLE", idle), ("TCP_KEEPINTVL", asking), ("TCP_KEEPCNT", _PROBES)):
        if hasattr(socket, name):  # on Linux
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if sys.platform == "linux":
        # else the time between two retransmissions doubles: after a cut the next one may come too late
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, _RTO_MAX_MS, asking * 1000)


class Stream:
    """The bytes of a connection in both directions, in the clear. All methods raise OSError if it is broken.

    `receive` is of one thread, `send` of another, perhaps. `is_far`: by TCP, perhaps to another host.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.is_far = connected.family != socket.AF_UNIX

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""
        return self._socket.fileno()

    def ready(self) -> bool:
        """Continue what comes before the first byte; True once that is over."""
        return True

    def receive(self, room: memoryview) -> int:
        """Read into `room`; 0 at the end. Raises BlockingIOError if there is nothing yet."""
        return self._socket.recv_into(room)

    def drained(self) -> bool:
        """True, after `receive` gave less than it could, if the operating system says when there is more."""
        return True

    def send(self, pieces: Iterable[memoryview]) -> int:
        """Write what of the pieces is taken at once; how many bytes. Raises BlockingIOError for none."""
        return self._socket.sendmsg(islice(pieces, _MOST_PIECES))

    def finish(self) -> None:
        """Say that nothing more is sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def silence(self) -> Silence:
        """See `silence_of`; the other end of a Unix socket is on this host."""
        return silence_of(self._socket) if self.is_far else Silence(0.0, 0.0)

    def close(self) -> None:
        """End it, whatever is under way."""
        self._socket.close()


class TlsStream(Stream):
    """The same by TLS. `listens`: this end was called.

    To read it never has to write: TLS 1.3 has no new handshakes, and neither end asks for new keys. The
    messages of the first one fit into the socket's empty buffer.
    """

    _socket: ssl.SSLSocket
    """A plain one until `ready` is called: to begin with TLS may fail."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, *, listens: bool) -> None:
        super().__init__(connected)
        self._begin = partial(
            context.wrap_socket,
            connected,
            server_side=listens,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
        )
        self._begun = False
        self._lock = threading.Lock()
        """The library's state is not for two threads at once."""

    def ready(self) -> bool:
        """TLS's own handshake."""
        if not self._begun:
            self._socket, self._begun = self._begin(), True
        try:
            self._socket.do_handshake()
        except ssl.SSLError as error:
            if isinstance(_waits(error), BlockingIOError):
                return False
            raise
        return True

    def receive(self, room: memoryview) -> int:
        """An end that the other end has not said so is an error."""
        with self._lock:
            self._check()
            try:
                return self._socket.recv_into(room)
            except ssl.SSLError as error:
                raise _waits(error) from error

    def drained(self) -> bool:
        """True if no part of a record is left in the library."""
        return self._socket.pending() == 0

    def send(self, pieces: Iterable[memoryview]) -> int:
        """At most 1 MiB."""
        sent, data = 0, _joined(pieces)
        while sent < data.nbytes:
            try:
                with self._lock:
                    self._check()
                    sent += self._socket.send(data[sent : sent + _RECORD_BYTES])
            except ssl.SSLError as error:
                waits = _waits(error)
                if sent and isinstance(waits, BlockingIOError):
                    break
                raise waits from error
        return sent

    def finish(self) -> None:
        """It is said, and the other end need not say it too."""
        with self._lock, contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._socket.unwrap()

    def _check(self) -> None:
        """Raise the socket's own error: of the library it would be the end of the bytes, whatever it is.

        Where the connection lives on it is none, such as a host that cannot be reached for a moment.
        """
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code and (not hasattr(socket, "TCP_INFO") or self._state() == _OVER):
            raise OSError(code, os.strerror(code))

    def _state(self) -> int:
        return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]

    def close(self) -> None:
        """As `Stream`, while no other thread is within the library."""
        with self._lock:
            super().close()


def _waits(error: ssl.SSLError) -> OSError:
    """The library's error as it is raised here: BlockingIOError if it would wait, or itself."""
    wants = isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError)
    return BlockingIOError() if wants else error


def _joined(pieces: Iterable[memoryview]) -> memoryview:
    """What is sent next: a large piece as it is, small ones together, since each call makes a record."""
    joined = bytearray()
    for piece in pieces:
        if not joined and piece.nbytes >= _RECORD_BYTES:
            return piece[:_MOST_BYTES]
        joined += piece[: _MOST_BYTES - len(joined)]
        if len(joined) == _MOST_BYTES:
            break
    return memoryview(joined)
