"""Access control of the web service: by the host that a request names, and by tokens."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ridgeline.service.http.bodies import to_json
from ridgeline.service.page.assets import wants_page
from ridgeline.service.page.session import credentials, same_origin

_OPEN = "/healthz"
_UNAUTHORIZED, _FORBIDDEN = 401, 403


class Guard:
    """Lets requests through by the state of the web application.

    `hosts`: what a request may call the service. `token`: needed for everything. `write_token`: needed to
    change something, where anyone who reaches the service may read. `read_token`: enough to read, as is a
    client's certificate (`state.identity` of a request).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse requests for other hosts, or without the token; pass on all others."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # there are none
            return
        refused = _refused(scope, scope["app"].state) if scope["type"] == "http" else None
        await (self._app if refused is None else refused)(scope, receive, send)


def _refused(scope: Scope, state: Any) -> Response | None:  # noqa: PLR0911  a case each
    """The answer to a request that is not let through."""
    named = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
    if state.hosts is not None and (len(named) != 1 or not state.hosts.answers_to(named[0])):
        return _other_host(named)
    given = _bearer(scope)
    identity = scope.get("state", {}).get("identity")
    all_of_it = state.token or state.write_token
    if all_of_it is None or is_open(scope) or _same(given, all_of_it):
        return None
    writes = scope["method"] == "POST"
    session: bool | None = state.sessions.writes(*credentials(scope))
    if session:
        return None if not writes or same_origin(scope) else _other_site()
    if session is not None or (state.read_token is not None and _same(given, state.read_token)):
        what = "this token may read, but change nothing"
        hint = "give the one of `--token`, or ask who started the application"
        return _answer(_FORBIDDEN, what, hint) if writes else None
    if identity is not None:
        what = f"the certificate of `{identity.name}` may read, but change nothing"
        hint = "give the token as well (`--token`), or ask who started the application"
        return _answer(_FORBIDDEN, what, hint) if writes else None
    if state.token is None and state.read_token is None and not writes:
        return None
    hint = "send the header `Authorization: Bearer TOKEN`; the driver printed it at start"
    if state.token is None:
        hint = (
            "send the header `Authorization: Bearer TOKEN`; give the application one (`--token`), or use the "
            "`ridgeline` commands, which know it"
        )
    return _answer(_UNAUTHORIZED, "the token is missing or wrong", hint)


def is_open(scope: Scope) -> bool:
    """True for what needs no token: the health, and the page itself, which has no figures."""
    path: str = scope["path"]
    if path == "/":
        accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        return wants_page(accept.decode("latin-1"))
    return path == _OPEN or path.startswith("/page/")


def _answer(status: int, error: str, hint: str) -> Response:
    headers = {"cache-control": "no-store"}
    if status == _UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Response(to_json({"error": error, "hint": hint}), status, headers, "application/json")


def _other_host(named: list[str]) -> Response:
    """The answer to a request for another host: an attacker's page may resolve its name to this machine."""
    name = ", ".join(named)[:200]
    what = f"this service does not answer to the host `{name}`" if named else "the request names no host"
    hint = "use the address that was shown at start, or start the application with `--allow-host HOST`"
    return _answer(_FORBIDDEN, what, hint)


def _other_site() -> Response:
    """The answer to a change that a page of another site asks for in the name of who looks at both."""
    what = "this request was not sent by the application's own page"
    return _answer(_FORBIDDEN, what, "use the page at the address that was shown at start")


def _bearer(scope: Scope) -> bytes:
    """The token that a request sends; empty for none."""
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, sent = given.partition(b" ")
    return bytes(sent.strip()) if scheme.lower() == b"bearer" else b""


def _same(given: bytes, token: str) -> bool:
    return hmac.compare_digest(given, token.encode())


@dataclass(frozen=True, slots=True)
class Hosts:
    """Names and addresses, in lower case, that a web service answers to.

    A page of an attacker that resolves to this machine (DNS rebinding) names another host.
    `any_address`: it listens on all addresses of this machine.
    """

    names: frozenset[str]
    any_address: bool = False

    @classmethod
    def of(cls, bound: str, given: str, allowed: Collection[str] = ()) -> Hosts:
        """The hosts of a service bound to `bound`, which was given as `given`, and those allowed besides."""
        unspecified = ipaddress.ip_address(bound).is_unspecified
        own = {socket.gethostname(), socket.getfqdn()} if unspecified else {bound}
        return cls(
            frozenset(_plain(name) for name in ("localhost", "127.0.0.1", "::1", given, *own, *allowed)),
            unspecified,
        )

    def answers_to(self, host: str) -> bool:
        """True if a `Host` header has one of the names, with any port; any address if it listens on all.

        >>> hosts = Hosts.of("127.0.0.1", "127.0.0.1")
        >>> [
        ...     hosts.answers_to(host)
        ...     for host in ("127.0.0.1:4040", "app.localhost", "[::1]:80", "evil.example", "10.0.0.5", "")
        ... ]
        [True, True, True, False, False, False]
        """
        name = _plain(_without_port(host))
        return name in self.names or name.endswith(".localhost") or (self.any_address and _is_address(name))


def _without_port(host: str) -> str:
    head, colon, port = host.rpartition(":")
    return head if colon and port.isdigit() and (":" not in head or head.endswith("]")) else host


def _plain(name: str) -> str:
    """In lower case, without brackets or a final dot; an address as it is usually written."""
    text = name.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")
    return str(ipaddress.ip_address(text)) if _is_address(text) else text


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
