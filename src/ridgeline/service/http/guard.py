"""Access control of the web service: by the host that a request names, and by the role of who sends it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ridgeline.api.support.masking import mask_text
from ridgeline.service.access.access import Access
from ridgeline.service.access.roles import ANYBODY, MAY, Caller, Role
from ridgeline.service.http.bodies import reply
from ridgeline.service.page.assets import wants_page
from ridgeline.service.page.session import crosses_sites, same_origin

CALLER = "ridgeline.caller"
"""The key of the caller in the scope of a request that was let through."""
_LONGEST = 300


def noted(scope: Scope) -> dict[str, str]:
    """A request as the audit log has it: without its query and its headers."""
    client = scope.get("client")
    return {
        "from": client[0] if client else "",
        "method": scope["method"][:20],
        "path": mask_text(scope["path"])[:_LONGEST],
    }


_OPEN = frozenset({"/healthz", "/readyz"})
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_SAFE = {"GET", "HEAD", "OPTIONS"}


class Guard:
    """Lets requests through by the state of the web application.

    `hosts`: what a request may call the service. `access`: who sends it. `role_of`: the role that a request
    needs, None for what has none and is refused. `audit`: notes denied tries.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse requests for other hosts, or without the role; pass on all others, with their caller."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # there are none
            return
        if scope["type"] == "http":
            state = scope["app"].state
            refused, caller, reason = _judged(scope, state)
            if refused is not None:
                if state.audit is not None:
                    await state.audit.denied_beside(caller, noted(scope), refused.status_code, reason)
                await refused(scope, receive, send)
                return
            scope[CALLER] = caller
        await self._app(scope, receive, send)


def _judged(scope: Scope, state: Any) -> tuple[Response | None, Caller, str]:
    """The answer to a request that is not let through; who sends it; and why it is refused."""
    unknown = Caller(ANYBODY, None)
    named = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
    if state.hosts is not None and (len(named) != 1 or not state.hosts.answers_to(named[0])):
        return _other_host(named), unknown, "it names another host"
    if is_open(scope):
        return None, unknown, ""
    caller = state.access.caller(scope)
    needed = state.role_of(scope)
    if needed is None:
        what = "this endpoint has no role, so it is refused to all"
        return _answer(_FORBIDDEN, what, "this is a fault of Ridgeline; please report it"), caller, what
    if not caller.may(needed):
        refused, reason = _not_allowed(caller, needed, state.access)
        return refused, caller, reason
    if scope["method"] not in _SAFE and _is_forged(scope, caller):
        return _other_site(), caller, "a page of another site sent it"
    return None, caller, ""


def _is_forged(scope: Scope, caller: Caller) -> bool:
    """Whether a page of another site may have sent a request in the name of who looks at both."""
    if caller.way == "session":
        return not same_origin(scope)
    return caller.way == "ambient" and crosses_sites(scope)


def _not_allowed(caller: Caller, needed: Role, access: Access) -> tuple[Response, str]:
    """The answer to who has too little a role, and the reason in a line."""
    identity = caller.identity
    if caller.role is None and identity.source != "open" and caller.way != "session":
        what = f"`{identity.name}` has no role here"
        hint = "its line in the tokens file has expired, was removed, or is for another application"
        return _answer(_FORBIDDEN, what, hint), what
    if caller.role is not None and (identity.source != "open" or access.file is not None):
        return _too_little(caller, needed)
    what = "the token is missing or wrong"
    hint = "send the header `Authorization: Bearer TOKEN`; the driver printed it at start"
    if access.file is not None:
        hint = "send the header `Authorization: Bearer TOKEN`; `ridgeline token add` makes one"
    elif access.token is None:
        hint = (
            "send the header `Authorization: Bearer TOKEN`; give the application one (`--token`), or use the "
            "`ridgeline` commands, which know it"
        )
    return _answer(_UNAUTHORIZED, what, hint), what


def _too_little(caller: Caller, needed: Role) -> tuple[Response, str]:
    """The answer to who is known, and may do less."""
    identity, hint = caller.identity, "give the one of `--token`, or ask who started the application"
    if identity.source == "reader":
        what = "this token may read, but change nothing"
    else:
        word = "" if caller.role is None else caller.role.word
        what = f"`{identity.name}` has the role {word}; this needs {needed.word}"
        hint = f"{needed.word} may {MAY[needed]}; ask who started the application"
    return _answer(_FORBIDDEN, what, hint), what


def is_open(scope: Scope) -> bool:
    """True for what needs no token: health and readiness, and the page itself, which has no figures."""
    path: str = scope["path"]
    if path == "/":
        accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
        return wants_page(accept.decode("latin-1"))
    return path in _OPEN or path.startswith("/page/")


def _answer(status: int, error: str, hint: str) -> Response:
    headers = {"www-authenticate": "Bearer"} if status == _UNAUTHORIZED else None
    return reply({"error": error, "hint": hint}, status, headers)


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
