"""Addresses: the ways to one end of the network, as one text."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, unquote


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
