"""One connection: TLS, hellos, then frames, from its first byte to its last."""

from __future__ import annotations

import errno
import struct
import threading
from collections import deque
from collections.abc import Sequence

from ridgeline.engine.exchange.frames import Frame, FrameDecoder
from ridgeline.engine.exchange.network import (
    BROKEN,
    CLOSED,
    CUT,
    MALFORMED,
    UNAUTHENTICATED,
    Peer,
    RefusedError,
)
from ridgeline.engine.exchange.streams import Stream

# Messages that wait to be sent to one peer.


class Outbox:
    """Pieces of frames on their way to a peer. For several threads.

    Before `open` it only collects; from then on what is put is written at once, as far as the stream takes
    it. `error`: why nothing can be written any more.
    """

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.queued_bytes = 0
        self._pieces: deque[memoryview] = deque()
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._ended = False

    def open(self, stream: Stream) -> None:
        """Write to this stream from now on."""
        with self._lock:
            self._stream = stream
            self._write()

    def put(self, pieces: Sequence[memoryview]) -> bool:
        """Send one frame; False if that cannot be any more. Never blocks."""
        with self._lock:
            if self._ended or self.error is not None:
                return False
            waiting = bool(self._pieces)
            self._pieces.extend(pieces)
            self.queued_bytes += sum(piece.nbytes for piece in pieces)
            # Else the polling thread writes, once the socket takes more.
            if not waiting:
                self._write()
            return True

    def flush(self) -> None:
        """Write more of what waits."""
        with self._lock:
            self._write()

    def end(self) -> None:
        """Take nothing more; what waits may still be flushed."""
        with self._lock:
            self._ended = True

    def drop(self) -> None:
        """Take nothing more, and forget what waits."""
        with self._lock:
            self._ended = True
            self._stream = None
            self._forget()

    def _write(self) -> None:
        """Write until the stream takes no more."""
        if self._stream is None:
            return
        try:
            while self._pieces:
                if not self._written(self._stream.send(self._pieces)):
                    return
        except BlockingIOError:
            pass
        except OSError as error:
            self.error = error
            self._forget()

    def _written(self, count: int) -> bool:
        """Take so many bytes out of the queue; True if no piece was cut."""
        self.queued_bytes -= count
        while count:
            piece = self._pieces.popleft()
            if piece.nbytes > count:
                self._pieces.appendleft(piece[count:])
                return False
            count -= piece.nbytes
        return True

    def _forget(self) -> None:
        self._pieces.clear()
        self.queued_bytes = 0


# Hellos: who connects says first who it is and whom it calls, then who listens does. Who may speak at all is
# known before: by TLS both ends have the application's certificate, and a Unix socket is its user's alone.

VERSION = 2
_HELLO = struct.Struct("<8sHiIiI")
"""The mark, the protocol's version, slot and attempt of who says it, and of whom it is for."""
_MARK = b"RIDGELIN"


def hello(me: Peer, other: Peer) -> bytes:
    """What an end says first to another one."""
    return _HELLO.pack(_MARK, VERSION, *me, *other)


def read_hello(said: bytes) -> tuple[Peer, Peer] | None:
    """Who says hello, and to whom; None while a part is still to come. Raises RefusedError."""
    if not _MARK.startswith(said[: len(_MARK)]):
        raise RefusedError(MALFORMED, f"a connection begins with {_MARK!r}; got {said[: len(_MARK)]!r}")
    if len(said) < _HELLO.size:
        return None
    _, version, *numbers = _HELLO.unpack(said)
    if version != VERSION:
        raise RefusedError(
            MALFORMED, f"this end speaks version {VERSION} of the protocol; the other speaks {version}"
        )
    return Peer(*numbers[:2]), Peer(*numbers[2:])


_BYTES_AT_ONCE = 1 << 20
"""How much is read before other connections are."""


class EndedError(Exception):
    """The connection has ended; `reason` as in `Lost`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(reason, detail)


_CUT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}


def ended(error: OSError) -> EndedError:
    """The end of a connection that an error of its socket means."""
    return EndedError(CUT if error.errno in _CUT else BROKEN, str(error))


class Connection:
    """One connection, of one thread but for its `outbox`.

    `expected`: who should be there, if this end has called; None for a stranger. `known`: who is, once both
    have said hello. `where`: the other end's address, for people. `since`: when it began. `more`: there may
    be more to read, of which the operating system says nothing.
    """

    def __init__(
        self,
        stream: Stream,
        me: Peer,
        *,
        expected: Peer | None,
        outbox: Outbox,
        where: str,
        since: float,
        maximum_bytes: int,
    ) -> None:
        self.stream = stream
        self.expected = expected
        self.known: Peer | None = None
        self.outbox = outbox
        self.where = where
        self.since = since
        self.more = False
        self._secured = False
        """TLS is there, or is not wanted."""
        self._me = me
        self._greeting = b"" if expected is None else hello(me, expected)
        """The part of its own hello that is to be written."""
        self._heard = b""
        """The part of the other's that has come."""
        self._decoder = FrameDecoder(maximum_bytes)

    @property
    def peer(self) -> Peer | None:
        """Who is there, or should be; None for a stranger."""
        return self.known or self.expected

    def wants_to_write(self) -> bool:
        """True if it could send more if more were taken."""
        waits = self._secured and self._greeting if self.known is None else self.outbox.queued_bytes
        return bool(waits) or self.stream.writes_first

    def write(self) -> None:
        """Write what waits, as far as it is taken. Raises RefusedError and EndedError."""
        if self.known is not None:
            self.outbox.flush()
        elif self._is_secured():
            self._greet()

    def read(self, scratch: memoryview, frames: list[Frame]) -> None:
        """Append the frames that have come. Returns after the hellos, even if there is more.

        Raises RefusedError and EndedError; what has come before is in `frames` then.
        """
        try:
            self._read(scratch, frames)
        except OSError as error:
            raise ended(error) from error

    def _read(self, scratch: memoryview, frames: list[Frame]) -> None:
        """As `read`; raises OSError too."""
        self.more = False
        if self.known is None:
            self._read_hello(scratch)
            return
        budget = _BYTES_AT_ONCE
        while budget > 0:
            room = self._decoder.room()
            into = room if room.nbytes else scratch
            try:
                count = self.stream.receive(into)
            except BlockingIOError:
                return
            if not count:
                raise self._end()
            if into is scratch:
                frames.extend(self._decoder.feed(scratch[:count]))
            elif (frame := self._decoder.filled(count)) is not None:
                frames.append(frame)
            # Less than there is room for: the socket is empty, so one more call would only say that.
            if count < into.nbytes and into is scratch and self.stream.drained():
                return
            budget -= count
        self.more = True

    def _end(self) -> EndedError:
        """The error that the end of the bytes means here."""
        if self._decoder.in_frame:
            return EndedError(BROKEN, "the connection ended within a frame")
        return EndedError(CLOSED)

    # Before it is open ------------------------------------------------------------------------------------

    def _is_secured(self) -> bool:
        """True once TLS is there or is not wanted. Raises RefusedError for who is not of the application."""
        if not self._secured:
            try:
                self._secured = self.stream.ready()
            except OSError as error:
                raise RefusedError(
                    UNAUTHENTICATED, f"no TLS with the application's certificate: {error}"
                ) from error
        return self._secured

    def _greet(self) -> None:
        """Write what is left of the own hello; once both have said theirs the other is known."""
        if self._greeting:
            try:
                count = self.stream.send([memoryview(self._greeting)])
            except BlockingIOError:
                return
            except OSError as error:
                raise self._hung_up() from error
            self._greeting = self._greeting[count:]
        if self._greeting or (found := read_hello(self._heard)) is None:
            return
        other, called = found
        if self.expected not in {None, other}:
            raise RefusedError(UNAUTHENTICATED, f"{other} is at the address of {self.expected}")
        if called != self._me:
            raise RefusedError(UNAUTHENTICATED, f"{other} calls {called}; this is {self._me}")
        self.known, self.more = other, True

    def _read_hello(self, scratch: memoryview) -> None:
        """Continue the hellos, and take no byte of what comes after them."""
        if not self._is_secured():
            return
        self._greet()
        while left := _HELLO.size - len(self._heard):
            try:
                count = self.stream.receive(scratch[:left])
            except BlockingIOError:
                return
            except OSError:
                count = 0
            if not count:
                raise self._hung_up()
            self._heard += bytes(scratch[:count])
            found = read_hello(self._heard)
            if found is not None and self.expected is None:
                self._greeting = hello(self._me, found[0])
        self._greet()

    def _hung_up(self) -> Exception:
        if self.expected is not None:
            return EndedError(BROKEN, "the other end hung up before it said hello")
        return RefusedError(UNAUTHENTICATED, "hung up before it said hello")
