"""A web application served from a thread of this process."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import threading
from collections.abc import Collection
from functools import partial
from typing import Any, NoReturn

import uvicorn
from starlette.applications import Starlette

from ridgeline.api.errors import RidgelineError
from ridgeline.service.access.access import Access
from ridgeline.service.http.connections import BoundedProtocol, Connections
from ridgeline.service.http.guard import Hosts
from ridgeline.service.tls.serving import ServedTls

START_SECONDS = 10.0
CLOSE_SECONDS = 2.0
_GREATEST_PORT = 65_535
_BACKLOG = 1024
"""Connections that may wait to be let in."""


class WebServer:
    """Serves an application of `create_app` until `close`. It takes no signals and writes no log.

    On another address than a loopback one, or if there is a token to read, it asks for a token. If the
    application has none, one is made, see `token`. Other users of this machine reach a loopback address too:
    there a token is needed to change something, see `write_token`.

    Args:
        app: The application.
        host: The address or host name to listen on.
        port: The port; 0: a free one.
        allowed_hosts: Names besides its own and `localhost` by which requests may ask for it, such as that of
            a proxy.
        tls: The TLS that it speaks; None: it speaks HTTP in the clear.

    Raises:
        RidgelineError: If the port is in use, the address is not this machine's, or the certificate is of no
            use, before anything else is started.
    """

    def __init__(
        self,
        app: Starlette,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Collection[str] = (),
        *,
        tls: ServedTls | None = None,
    ) -> None:
        self.app = app
        self._socket = _listen(host, port)
        self.host, self.port = self._socket.getsockname()[:2]
        app.state.hosts = Hosts.of(self.host, host, allowed_hosts)
        self.tls = tls
        address = ipaddress.ip_address(self.host)
        self._access: Access = app.state.access
        self._access.protect(only_here=address.is_loopback)
        named = (
            socket.gethostname()
            if address.is_unspecified
            else f"[{self.host}]"
            if address.version == 6  # noqa: PLR2004
            else self.host
        )
        self.url = self._url_of(named)
        """Where it answers, without a slash at the end."""
        config = uvicorn.Config(
            app,
            access_log=False,
            http="h11",
            lifespan="off",
            log_config=None,
            log_level="critical",
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        self._server = _Server(config, self.tls)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="ridgeline-web", daemon=True
        )
        self._thread.start()
        if not self._server.up.wait(START_SECONDS):
            self.close()
            raise RidgelineError(
                f"the web service did not start within {START_SECONDS:g} s; try again, or do without it"
            )

    def _url_of(self, host: str) -> str:
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"

    @property
    def token(self) -> str | None:
        """The token of `Authorization: Bearer TOKEN` that requests need; None: none."""
        return self._access.token

    @property
    def write_token(self) -> str:
        """The token that requests need to change something."""
        return self._access.token or self._access.write_token or ""

    def page(self) -> str:
        """An address that opens the page with the right to change something, once, within an hour."""
        return f"{self.url}/#code={self.code()}"

    def code(self) -> str:
        """A code that opens a session of the page once, in an address that ends in `#code=CODE`."""
        return self._access.sessions.code()

    def close(self) -> None:
        """End all streams and the server, within `CLOSE_SECONDS`. May be called twice."""
        self.app.state.pages.close()
        self._server.should_exit = True
        self._thread.join(CLOSE_SECONDS)
        self._socket.close()


class _Server(uvicorn.Server):
    """A server that reports when it is up, and lets clients in as `Connections` says."""

    def __init__(self, config: uvicorn.Config, tls: ServedTls | None) -> None:
        super().__init__(config)
        self._tls = tls
        self.up = threading.Event()
        self._accepting: list[asyncio.Task[NoReturn]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # without sockets: uvicorn itself would let in as many as come
        bounds = Connections()
        protocol = partial(BoundedProtocol, bounds, self.config, self.server_state, self.lifespan.state)
        self._accepting = [
            asyncio.create_task(bounds.accept(listening, protocol, self._tls)) for listening in sockets or ()
        ]
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.wait(self._accepting)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # whose client takes no leave
            connection.transport.abort()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises RidgelineError."""
    if not 0 <= port <= _GREATEST_PORT:
        raise RidgelineError(
            f"a port is a number from 0 to {_GREATEST_PORT}; got {port}; give another one, or none for a "
            "free one"
        )
    try:
        family, kind, protocol, _, address = _first_address(host, port)
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise RidgelineError(_refused(host, port, error)) from error
    try:
        if os.name == "posix":  # on Windows two services could then share the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise RidgelineError(_refused(host, port, error)) from error
    return listening


def _first_address(host: str, port: int) -> tuple[Any, Any, int, str, Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]


def _refused(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of `{host}` is in use; give another one, or none for a free one"
    if error.errno == errno.EACCES:
        return f"port {port} of `{host}` may not be used; give one above 1023, or none for a free one"
    reason = error.strerror or str(error)
    remedy = "give an address of this machine, such as `127.0.0.1` or `0.0.0.0`"
    return f"the web service cannot listen on `{host}`, port {port}: {reason}; {remedy}"
