"""Finding a way to a peer: one after the other, until a socket is connected."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence

from ridgeline.engine.exchange.address import Target, Way, targets, ways_of
from ridgeline.engine.exchange.network import NO_LISTENER, UNREACHABLE, EndedError
from ridgeline.engine.exchange.streams import prepare

_REFUSALS = {errno.ECONNREFUSED, errno.ENOENT}
_UNDER_WAY = {0, errno.EINPROGRESS, errno.EAGAIN}


class Dialing:
    """Finds a way to a peer that this end connects to. Raises ValueError for a text that is no address.

    `socket`: the one that is being connected. `waits`: the other end has too many callers at the moment;
    `next` tries once more. `where`: the place that is tried, for people.
    """

    def __init__(self, address: str, silent_seconds: float) -> None:
        self.socket: socket.socket | None = None
        self.waits = False
        self.where = ""
        self._silent_seconds = silent_seconds
        self._targets = self._found(ways_of(address))
        self._place: str | tuple[str, int] = ""
        self._failed = f"nothing of `{address}` is seen from this host"
        self._refused_by_all = True
        """So said all ways that were tried; those that are not seen from here say nothing else."""

    def next(self) -> bool:
        """Begin with the next way, or with the same again if it `waits`; True if it is connected at once.

        Raises EndedError if there is none any more.
        """
        while True:
            while self.socket is None:
                self._take()
            code = self.socket.connect_ex(self._place)
            self.waits = code == errno.EAGAIN
            if code in _UNDER_WAY:
                return code == 0
            self.fail(os.strerror(code), refused=code in _REFUSALS)

    def fail(self, why: str, *, refused: bool = False) -> None:
        """Give the way up. `refused`: its host says that nobody listens there."""
        self._failed = f"{self.where}: {why}"
        self._refused_by_all &= refused
        self.waits = False
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def connected(self) -> socket.socket | None:
        """The socket, which is writable now; it is the caller's. None if this way has failed."""
        found = self.socket
        assert found is not None  # noqa: S101  it was waited for
        if code := found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.fail(os.strerror(code), refused=code == errno.ECONNREFUSED)
        elif found.family != socket.AF_UNIX and found.getsockname() == found.getpeername():
            self.fail("nobody listens there")  # and the socket has connected to itself
        else:
            self.socket = None
            return found
        return None

    def _take(self) -> None:
        """A socket for the next place, if one can be made. Raises EndedError if no place is left."""
        target = next(self._targets, None)
        if target is None:
            raise EndedError(NO_LISTENER if self._refused_by_all else UNREACHABLE, self._failed)
        self._place = target.place
        self.where = target.place if isinstance(target.place, str) else "{}:{}".format(*target.place)
        try:
            self.socket = socket.socket(target.family, socket.SOCK_STREAM)
            prepare(self.socket, self._silent_seconds)
        except OSError as error:  # no descriptor is left
            self.fail(str(error.strerror))

    def _found(self, ways: Sequence[Way]) -> Iterator[Target]:
        """The places of all ways in turn, each once. A name is looked up when it is its turn."""
        tried: set[Target] = set()
        for way in ways:
            try:
                found = targets(way)
            except OSError as error:
                self._failed, self._refused_by_all = f"{way}: {error.strerror}", False
                continue
            for one in found:
                if one not in tried:
                    tried.add(one)
                    yield one
