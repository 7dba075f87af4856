"""One connection: a call, TLS, hellos, then frames, from its first byte to its last."""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence

from ridgeline.engine.exchange.address import Dialing
from ridgeline.engine.exchange.frames import Frame, FrameDecoder, encode
from ridgeline.engine.exchange.network import (
    BROKEN,
    CLOSED,
    CUT,
    MALFORMED,
    UNAUTHENTICATED,
    EndedError,
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


# Hellos, the first frames: who connects says who it is and whom it calls, and who listens answers. Who may
# speak at all is known before: by TLS both ends have the application's certificate, and a Unix socket is its
# user's alone.

VERSION = 3
HELLO = 0xFFFF
"""The kind of a hello. The engine has no frames of this kind."""
_HELLO = struct.Struct("<HiIiI")
"""The protocol's version, slot and attempt of who says it, and of whom it is for."""


def hello(me: Peer, other: Peer) -> bytes:
    """What an end says first to another one."""
    return b"".join(encode(HELLO, _HELLO.pack(VERSION, *me, *other)))


def read_hello(frame: Frame) -> tuple[Peer, Peer]:
    """Who says hello, and to whom. Raises RefusedError for another frame."""
    if frame.kind != HELLO or frame.head.nbytes != _HELLO.size:
        raise RefusedError(MALFORMED, f"a connection begins with a hello; got a frame of kind {frame.kind}")
    version, *numbers = _HELLO.unpack(frame.head)
    if version != VERSION:
        raise RefusedError(
            MALFORMED, f"this end speaks version {VERSION} of the protocol; the other speaks {version}"
        )
    return Peer(*numbers[:2]), Peer(*numbers[2:])


_HELLO_BYTES = len(hello(Peer(0), Peer(0)))
"""No frame may be larger before both have said hello."""
_BYTES_AT_ONCE = 1 << 20
"""How much is read before other connections are."""


_CUT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}


def ended(error: OSError) -> EndedError:
    """The end of a connection that an error of its socket means."""
    return EndedError(CUT if error.errno in _CUT else BROKEN, str(error))


class Connection:
    """One connection from the call, or from who is taken in, to its end. Of one thread, but for its `outbox`.

    `expected`: who should be there, if this end calls; None for a stranger. `dialing`: finds the socket of
    such a call. `known`: who is there, once both have said hello. `where`: the other end's address, for
    people. `since`: when its present step began. `interest`: the events that the poller waits for. `more`:
    it was not read to its end, since others are to be served, too. `over`: it has ended.
    """

    stream: Stream
    """Its bytes, from `begin` on."""

    def __init__(
        self,
        me: Peer,
        expected: Peer | None,
        maximum_bytes: int,
        *,
        where: str = "",
        dialing: Dialing | None = None,
    ) -> None:
        self.expected = expected
        self.dialing = dialing
        self.known: Peer | None = None
        self.outbox = Outbox()
        self.where = where
        self.since = 0.0
        self.interest = 0
        self.more = self.over = False
        self._secured = False
        """TLS is there, or is not wanted."""
        self._me = me
        self._maximum_bytes = maximum_bytes
        self._decoder = FrameDecoder(_HELLO_BYTES)
        if expected is not None:
            self._greet(expected)

    @property
    def peer(self) -> Peer | None:
        """Who is there, or should be; None for a stranger."""
        return self.known or self.expected

    @property
    def file(self) -> socket.socket | Stream | None:
        """What the poller waits for: the socket that is being connected, then the stream."""
        return self.stream if self.dialing is None else self.dialing.socket

    def begin(self, stream: Stream) -> None:
        """Its socket is connected."""
        if self.dialing is not None:
            self.where, self.dialing = self.dialing.where, None
        self.stream = stream

    def close(self) -> None:
        """End it, whatever is under way."""
        self.over = True
        self.outbox.drop()
        if (file := self.file) is not None:
            file.close()

    def wants_to_write(self) -> bool:
        """True if it could send more if more were taken."""
        return self._secured and self.outbox.queued_bytes > 0

    def read(self, scratch: memoryview, frames: list[Frame]) -> None:
        """Append the frames that have come.

        Raises RefusedError and EndedError; what has come before is in `frames` then.
        """
        self.more = False
        try:
            if not self._secured and self.stream.ready():
                self._secured = True
                self.outbox.open(self.stream)
        except OSError as error:
            text = f"no TLS with the application's certificate: {error}"
            raise RefusedError(UNAUTHENTICATED, text) from error
        if self._secured:
            try:
                self._read_frames(scratch, frames)
            except OSError as error:
                raise (self._hung_up() if self.known is None else ended(error)) from error

    def _read_frames(self, scratch: memoryview, frames: list[Frame]) -> None:
        """As `read`; raises OSError too."""
        budget = _BYTES_AT_ONCE
        # Of what the library of TLS holds the operating system knows nothing: none of it may be left.
        while budget > 0 or not self.stream.drained():
            room = self._decoder.room()
            into = room if room.nbytes else scratch
            try:
                count = self.stream.receive(into)
            except BlockingIOError:
                return
            if not count:
                if self.known is None:
                    raise self._hung_up()
                if self._decoder.in_frame:
                    raise EndedError(BROKEN, "the connection ended within a frame")
                raise EndedError(CLOSED)
            if into is scratch:
                for frame in self._decoder.feed(scratch[:count]):
                    self._take(frame, frames)
            elif (whole := self._decoder.filled(count)) is not None:
                self._take(whole, frames)
            # Less than there is room for: the socket is empty, so one more call would only say that.
            if count < into.nbytes and into is scratch and self.stream.drained():
                return
            budget -= count
        self.more = True

    def _take(self, frame: Frame, frames: list[Frame]) -> None:
        """Append a frame; the first one says who is there. Raises RefusedError."""
        if self.known is not None:
            frames.append(frame)
            return
        other, called = read_hello(frame)
        if self.expected is None:
            self._greet(other)
        elif self.expected != other:
            raise RefusedError(UNAUTHENTICATED, f"{other} is at the address of {self.expected}")
        if called != self._me:
            raise RefusedError(UNAUTHENTICATED, f"{other} calls {called}; this is {self._me}")
        self.known = other
        self._decoder.maximum_bytes = self._maximum_bytes

    def _greet(self, other: Peer) -> None:
        """Say hello, before anything else."""
        self.outbox.put([memoryview(hello(self._me, other))])

    def _hung_up(self) -> Exception:
        if self.expected is not None:
            return EndedError(BROKEN, "the other end hung up before it said hello")
        return RefusedError(UNAUTHENTICATED, "hung up before it said hello")
