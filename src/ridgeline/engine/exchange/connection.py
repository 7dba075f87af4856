"""One connection: TLS, the handshake, then frames, from its first byte to its last."""

from __future__ import annotations

import errno
import hashlib
import hmac
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence

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


# The handshake: both ends prove that they know the application's secret, which does not travel. No I/O.
#
# 1. Who connects says hello: who it is, and a nonce.
# 2. Who listens answers with a hello of its own and its proof.
# 3. Who connects checks that and sends its proof.
#
# A proof is the HMAC-SHA256, by the secret, of the side that gives it and of both hellos. So it holds for
# these nonces, peers and version only: a recorded conversation is of no use. Both sides put in the
# certificate that they see, if there is one: a man in the middle cannot show another one.

VERSION = 1
NONCE_BYTES = 32
LEAST_SECRET_BYTES = 16
_HELLO = struct.Struct(f"<8sHiI{NONCE_BYTES}s")
"""The mark, the protocol's version, slot, attempt, nonce."""
_MARK = b"RIDGELIN"
_PROOF_BYTES = hashlib.sha256().digest_size


class Handshake:
    """One end of a handshake: what `begin` gives is sent first, then what `feed` answers.

    `missing`: how many bytes of the next message are still to come. Once it is 0, `peer` is who is at the
    other end.

    `other`: the peer that this end has connected to and expects; None if it listens. `nonce`: random bytes,
    new for each handshake. `binding`: digest of the certificate that this end sees, b"" without TLS.
    """

    def __init__(
        self, me: Peer, secret: bytes, nonce: bytes, other: Peer | None = None, binding: bytes = b""
    ) -> None:
        if len(secret) < LEAST_SECRET_BYTES or len(nonce) != NONCE_BYTES:
            raise ValueError(
                f"a secret has at least {LEAST_SECRET_BYTES} bytes and a nonce {NONCE_BYTES}; "
                f"got {len(secret)} and {len(nonce)}; take both from `secrets.token_bytes`"
            )
        self.peer: Peer | None = None
        self.missing = _HELLO.size if other is None else _HELLO.size + _PROOF_BYTES
        self._secret = secret
        self._binding = binding
        self._expected = other
        self._mine = _HELLO.pack(_MARK, VERSION, me.slot, me.attempt, nonce)
        self._theirs = b""
        self._received = b""

    @property
    def within_message(self) -> bool:
        """True if a part of a message has come in."""
        return bool(self._received)

    def begin(self) -> bytes:
        """The first message of this end; b"" if it listens."""
        return b"" if self._expected is None else self._mine

    def feed(self, data: bytes) -> bytes:
        """Take at most `missing` bytes; what to answer. Raises RefusedError."""
        self._received += data
        self.missing -= len(data)
        if not self._theirs and not _MARK.startswith(self._received[: len(_MARK)]):
            raise RefusedError(
                MALFORMED, f"a handshake begins with {_MARK!r}; got {self._received[: len(_MARK)]!r}"
            )
        if self.missing:
            return b""
        message, self._received = self._received, b""
        if self._expected is not None:
            return self._prove_to(self._expected, message)
        if not self._theirs:
            self._theirs = message
            _read_hello(message)
            self.missing = _PROOF_BYTES
            return self._mine + self._proof(b"listens")
        self._check(b"connects", message)
        self.peer = _read_hello(self._theirs)
        return b""

    def _prove_to(self, expected: Peer, message: bytes) -> bytes:
        """The proof of the end that has connected, if the other's holds and it is who it should be."""
        self._theirs = message[: _HELLO.size]
        found = _read_hello(self._theirs)
        self._check(b"listens", message[_HELLO.size :])
        if found != expected:
            raise RefusedError(UNAUTHENTICATED, f"{found} is at the address of {expected}")
        self.peer = found
        return self._proof(b"connects")

    def _check(self, side: bytes, proof: bytes) -> None:
        if not hmac.compare_digest(proof, self._proof(side)):
            raise RefusedError(
                UNAUTHENTICATED,
                "the other end does not know the application's secret, or somebody stands between",
            )

    def _proof(self, side: bytes) -> bytes:
        hellos = (self._theirs, self._mine) if self._expected is None else (self._mine, self._theirs)
        said = hashlib.sha256(b"".join(hellos)).digest()
        return hmac.digest(self._secret, b"ridgeline " + side + b"\0" + said + self._binding, "sha256")


def _read_hello(hello: bytes) -> Peer:
    """Who says hello. Raises RefusedError."""
    mark, version, slot, attempt, _ = _HELLO.unpack(hello)
    if mark != _MARK or version != VERSION:
        raise RefusedError(
            MALFORMED, f"this end speaks version {VERSION} of the protocol; the other speaks {version}"
        )
    return Peer(slot, attempt)


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

    `expected`: who should be there, None for a stranger. `proven`: who is, once the handshake is
    over. `where`: the other end's address, for people. `shake` makes the handshake, given the binding.
    `since`: when it began. `more`: there may be more to read, of which the operating system says nothing.
    """

    def __init__(
        self,
        stream: Stream,
        shake: Callable[[bytes], Handshake],
        *,
        expected: Peer | None,
        outbox: Outbox,
        where: str,
        since: float,
        maximum_bytes: int,
    ) -> None:
        self.stream = stream
        self.expected = expected
        self.proven: Peer | None = None
        self.outbox = outbox
        self.where = where
        self.since = since
        self.more = False
        self._shake = shake
        self._handshake: Handshake | None = None
        self._greeting = b""
        """The part of the handshake that is not yet written."""
        self._decoder = FrameDecoder(maximum_bytes)

    @property
    def peer(self) -> Peer | None:
        """Who is there, or should be; None for a stranger."""
        return self.proven or self.expected

    def wants_to_write(self) -> bool:
        """True if it could send more if more were taken."""
        waits = self._greeting if self.proven is None else self.outbox.queued_bytes
        return bool(waits) or self.stream.writes_first

    def write(self) -> None:
        """Write what waits, as far as it is taken. Raises EndedError."""
        if self.proven is not None:
            self.outbox.flush()
        elif (handshake := self._secured()) is not None:
            self._greet(handshake, b"")

    def read(self, scratch: memoryview, frames: list[Frame]) -> None:
        """Append the frames that have come. Returns when the handshake is over, even if there is more.

        Raises RefusedError and EndedError; what has come before is in `frames` then.
        """
        try:
            self._read(scratch, frames)
        except OSError as error:
            raise ended(error) from error

    def _read(self, scratch: memoryview, frames: list[Frame]) -> None:
        """As `read`; raises OSError too."""
        self.more = False
        if self.proven is None:
            self._read_handshake(scratch)
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

    def _secured(self) -> Handshake | None:
        """The handshake, which begins once TLS is there or is not wanted; None before."""
        if self._handshake is None:
            try:
                if not self.stream.ready():
                    return None
            except OSError as error:
                raise RefusedError(MALFORMED, f"no TLS: {error}") from error
            self._handshake = self._shake(self.stream.binding)
            self._greet(self._handshake, self._handshake.begin())
        return self._handshake

    def _greet(self, handshake: Handshake, more: bytes) -> None:
        """Write a part of the handshake; after the last one the other end is known."""
        self._greeting += more
        if self._greeting:
            try:
                count = self.stream.send([memoryview(self._greeting)])
            except BlockingIOError:
                return
            except OSError as error:
                raise self._hung_up(handshake) from error
            self._greeting = self._greeting[count:]
        if not self._greeting and handshake.peer is not None:
            self.proven = handshake.peer
            self.more = True

    def _read_handshake(self, scratch: memoryview) -> None:
        """Continue the handshake, and take no byte of what comes after it."""
        handshake = self._secured()
        while handshake is not None and handshake.missing:
            try:
                count = self.stream.receive(scratch[: handshake.missing])
            except BlockingIOError:
                return
            except OSError:
                count = 0
            if not count:
                raise self._hung_up(handshake)
            self._greet(handshake, handshake.feed(bytes(scratch[:count])))

    def _hung_up(self, handshake: Handshake) -> Exception:
        if self.expected is not None:
            return EndedError(BROKEN, "the other end hung up in the handshake")
        reason = MALFORMED if handshake.within_message else UNAUTHENTICATED
        return RefusedError(reason, "hung up in the handshake")
