"""One connection: TLS, the handshake, then frames, from its first byte to its last."""

from __future__ import annotations

import errno
from collections.abc import Callable

from ridgeline.engine.exchange.frames import Frame, FrameDecoder
from ridgeline.engine.exchange.handshake import Handshake
from ridgeline.engine.exchange.network import (
    BROKEN,
    CLOSED,
    CUT,
    MALFORMED,
    UNAUTHENTICATED,
    Peer,
    RefusedError,
)
from ridgeline.engine.exchange.outbox import Outbox
from ridgeline.engine.exchange.streams import Stream

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
