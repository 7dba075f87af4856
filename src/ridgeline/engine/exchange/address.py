"""Addresses: the ways to one end of the network, as one text; one is tried after the other."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from ridgeline.engine.exchange.network import NO_LISTENER, UNREACHABLE, EndedError
from ridgeline.engine.exchange.streams import prepare


class UnixWay(NamedTuple):
    """A socket in a folder of the same host."""

    path: str

    def __str__(self) -> str:
        return f"unix:{quote(self.path)}"


class TlsWay(NamedTuple):
    """A port of a host, which speaks TLS only."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tls:{host}:{self.port}"


_LOOKUP_SECONDS = 1.0
"""A server for names that does not answer would keep the thread for ten seconds, which serves all peers."""
_known: dict[str, list[tuple[int, str]]] = {}
"""The addresses that a name had the last time."""
Way: TypeAlias = UnixWay | TlsWay


def ways_of(address: str) -> list[Way]:
    """The ways that an address has. Raises ValueError for a text that is none.

    Example:
        >>> ways_of("unix:/tmp/x/s,tls:[::1]:4040")
        [UnixWay(path='/tmp/x/s'), TlsWay(host='::1', port=4040)]
        >>> ",".join(map(str, _))
        'unix:/tmp/x/s,tls:[::1]:4040'
    """
    return [_way(address, text) for text in address.split(",")]


def _way(address: str, text: str) -> Way:
    kind, _, place = text.partition(":")
    if kind == "unix" and place:
        return UnixWay(unquote(place))
    host, _, port = place.rpartition(":")
    if kind != "tls" or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"`{address}` is no address; got `{text}`; give `unix:/path` or `tls:host:port`")
    return TlsWay(host.strip("[]"), int(port))


class Target(NamedTuple):
    """A place that a socket can connect to."""

    family: int
    place: str | tuple[str, int]


def targets(way: Way) -> list[Target]:
    """Where a socket may connect to, in turn; nowhere if a Unix socket's file is not seen from here.

    A host that is given by name is looked up, which may block for a second. If that fails, what was found
    before is taken. Raises OSError if nothing was.
    """
    if isinstance(way, UnixWay):
        return [Target(socket.AF_UNIX, way.path)] if Path(way.path).exists() else []
    return [Target(family, (host, way.port)) for family, host in _hosts(way.host)]


def _hosts(name: str) -> list[tuple[int, str]]:
    """The families and addresses of a host."""
    with contextlib.suppress(socket.gaierror):  # it is an address
        return _looked_up(name, socket.AI_NUMERICHOST)
    found: list[tuple[int, str]] = []
    errors: list[OSError] = []

    def look() -> None:
        try:
            found.extend(_looked_up(name))
        except OSError as error:
            errors.append(error)

    looking = threading.Thread(target=look, name="ridgeline-names", daemon=True)
    looking.start()
    looking.join(_LOOKUP_SECONDS)
    if found:
        _known[name] = list(found)
    elif name not in _known:
        if errors:
            raise errors[0]
        raise OSError(errno.ETIMEDOUT, f"its name was not found within {_LOOKUP_SECONDS:g} s")
    return _known[name]


def _looked_up(name: str, flags: int = 0) -> list[tuple[int, str]]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=flags)
    return [(family, str(place[0])) for family, _, _, _, place in found]


def own_address(way: TlsWay) -> str | None:
    """The address with which this host reaches another one; None if it does not know the other's name."""
    with contextlib.suppress(OSError):
        for family, host in _hosts(way.host):
            with socket.socket(family, socket.SOCK_DGRAM) as asking:  # sends nothing
                asking.connect((host, way.port))
                return str(asking.getsockname()[0])
    return None


# Finding a way to a peer ------------------------------------------------------------------------------------

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
