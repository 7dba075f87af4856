"""Addresses: the ways to one end of the network, as one text."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, unquote


class UnixWay(NamedTuple):
    """A socket in a folder of the same host."""

    path: str

    def __str__(self) -> str:
        return f"unix:{quote(self.path)}"


class TcpWay(NamedTuple):
    """A port of a host; `tls`: it speaks TLS only."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}:{host}:{self.port}"


Way: TypeAlias = UnixWay | TcpWay


def ways_of(address: str) -> list[Way]:
    """The ways that an address has. Raises ValueError for a text that is none.

    Example:
        >>> ways_of("unix:/tmp/x/s,tls:[::1]:4040")
        [UnixWay(path='/tmp/x/s'), TcpWay(host='::1', port=4040, tls=True)]
        >>> ",".join(map(str, _))
        'unix:/tmp/x/s,tls:[::1]:4040'
    """
    return [_way(address, text) for text in address.split(",")]


def _way(address: str, text: str) -> Way:
    kind, _, place = text.partition(":")
    if kind == "unix" and place:
        return UnixWay(unquote(place))
    host, _, port = place.rpartition(":")
    if kind not in {"tcp", "tls"} or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        msg = (
            f"`{address}` is no address; got `{text}`; give `unix:/path`, `tcp:host:port` or `tls:host:port`"
        )
        raise ValueError(msg)
    return TcpWay(host.strip("[]"), int(port), kind == "tls")


class Target(NamedTuple):
    """A place that a socket can connect to."""

    family: int
    place: str | tuple[str, int]
    tls: bool


def targets(way: Way) -> list[Target]:
    """Where a socket may connect to, in turn; nowhere if a Unix socket's file is not seen from here.

    A host that is given by name is looked up, which may block. Raises OSError if that fails.
    """
    if isinstance(way, UnixWay):
        return [Target(socket.AF_UNIX, way.path, tls=False)] if Path(way.path).exists() else []
    found = socket.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    return [Target(family, (str(place[0]), way.port), way.tls) for family, _, _, _, place in found]
