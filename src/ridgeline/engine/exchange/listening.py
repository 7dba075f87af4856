"""Where one end listens: a Unix socket in a private folder, a TCP port of a range, or both."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.exchange.address import TlsWay, UnixWay, Way
from ridgeline.engine.exchange.tls import Certificate

_BACKLOG = 1024
_PARENT_BYTES = 80
"""The path of a Unix socket has at most 103 bytes (macOS), of which its own folder and name take 21."""
_SHORT_FOLDER = "/tmp"  # noqa: S108  a folder made there is private


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen.

    `unix`: also on a Unix socket, for peers on the same host. Its private folder is made in `folder`
    (default: the one for temporary files). `host`: what a TCP port is bound to, None for none; peers connect
    to `advertised` (default: `host`). If that name is not known, they connect to `also` (default: the address
    that the port is bound to). `ports`: first and last port to try, (0, 0) for any free one.
    `certificate`: the application's, which both ends of a TCP connection need. Without it there is none.
    """

    unix: bool = True
    folder: str | None = None
    host: str | None = None
    advertised: str | None = None
    also: str | None = None
    ports: tuple[int, int] = (0, 0)
    certificate: Certificate | None = None


class Listener:
    """One socket that listens; `close` ends it and removes its file."""

    def __init__(
        self,
        bound: socket.socket,
        way: Way,
        others: tuple[Way, ...] = (),
    ) -> None:
        """`way`: how peers reach it; `others`: how else."""
        bound.setblocking(False)  # noqa: FBT003
        self.socket = bound
        self.way = way
        self.ways = way, *others

    def close(self) -> None:
        """Listen no more."""
        self.socket.close()
        if isinstance(self.way, UnixWay):
            shutil.rmtree(Path(self.way.path).parent, ignore_errors=True)


def listeners(listen: Listen) -> list[Listener]:
    """Listen, nearest first. Raises RidgelineError if that cannot be."""
    with contextlib.ExitStack() as undo:
        found = []
        if listen.unix:
            found.append(_unix(listen.folder))
            undo.callback(found[0].close)
        if listen.host is not None:
            bound = _tcp(listen.host, listen.ports)
            port = bound.getsockname()[1]
            way = TlsWay(listen.advertised or listen.host, port)
            also = listen.also or _own(bound)
            others = (way._replace(host=also),) if also and also != way.host else ()
            found.append(Listener(bound, way, others))
        undo.pop_all()
        return found


def _own(bound: socket.socket) -> str | None:
    """The one address that a socket is bound to; None if it has all, or only one of this host's own."""
    host = str(bound.getsockname()[0])
    address = ip_address(host.partition("%")[0])
    return None if address.is_unspecified or address.is_loopback else host


def _unix(parent: str | None) -> Listener:
    """A socket in a new folder that only this user may enter: in `parent`, unless that name is too long."""
    where = parent or tempfile.gettempdir()
    if len(os.fsencode(where)) > _PARENT_BYTES:
        where = _SHORT_FOLDER
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(bound.close)
        try:
            folder = tempfile.mkdtemp(prefix="ridgeline-", dir=where)
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            bound.bind(f"{folder}/s")
            bound.listen(_BACKLOG)
        except OSError as error:
            raise RidgelineError(
                f"no Unix socket can be made in `{where}`; got: {error}; name another folder by `TMPDIR`"
            ) from error
        undo.pop_all()
    return Listener(bound, UnixWay(f"{folder}/s"))


def _tcp(host: str, ports: tuple[int, int]) -> socket.socket:
    """A socket bound to the first free port of the range."""
    first, last = ports
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    failed: OSError | None = None
    for port in range(first, last + 1):
        try:
            return socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            failed = error
    found = f"{failed}" if failed else "an empty range"
    raise RidgelineError(
        f"no port of {first} to {last} can be bound on `{host}`; got: {found}; give a range with free ports"
    ) from failed
