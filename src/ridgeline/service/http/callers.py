"""Who sends a request: by a token, a session of the page, a certificate, or the word of a proxy."""

from __future__ import annotations

import hmac
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from ridgeline.api.support.masking import mask_text
from ridgeline.service.access.roles import ANYBODY, OWNER, READER, Caller, Identity, Role
from ridgeline.service.page.session import credentials

CALLER = "ridgeline.caller"
"""The key of the caller in the scope of a request that was let through."""
_LONGEST = 300


async def caller_of(scope: Scope, state: Any) -> tuple[Caller, str]:
    """Who sends a request, with the role of this moment, and why its token proves nothing, if so."""
    if state.access is None and state.token is None and state.write_token is None:
        return Caller(OWNER, Role.ADMIN), ""
    found, why = await identity_of_token(bearer(scope), state)
    way = "token"
    if found is None:
        found, way = _of_session(scope, state), "session"
    if found is None:
        found, way = _certified(scope), "ambient"
    if found is None and state.access is not None:
        found = state.access.of_proxy(scope)
    if found is None:
        is_open = state.access is None and state.token is None and state.read_token is None
        return Caller(ANYBODY, Role.READ if is_open else None), why
    return Caller(found, role_of(found, state), way), ""


def role_of(identity: Identity, state: Any) -> Role | None:
    """The role of an identity as of now."""
    if state.access is not None:
        found: Role | None = state.access.role(identity)
        return found
    return Role.ADMIN if identity == OWNER else Role.READ


async def identity_of_token(token: bytes, state: Any) -> tuple[Identity | None, str]:
    """The identity that a token proves, or why an issuer's token proves none."""
    if not token:
        return None, ""
    owner = state.token or state.write_token
    if owner is not None and hmac.compare_digest(token, owner.encode()):
        return OWNER, ""
    if state.read_token is not None and hmac.compare_digest(token, state.read_token.encode()):
        return READER, ""
    if state.access is None:
        return None, ""
    found: Identity | None = state.access.of_token(token)
    if found is not None or state.access.issuer is None:
        return found, ""
    checked: tuple[Identity | None, str] = await run_in_threadpool(state.access.of_issuer, token)
    return checked


def _of_session(scope: Scope, state: Any) -> Identity | None:
    """The identity of a session of the page; of one that a proxy named, as the proxy names it now.

    The groups of a person may have changed since. None if the proxy names another person.
    """
    found: Identity | None = state.sessions.identity(*credentials(scope))
    if found is None or found.source != "proxy" or state.access is None:
        return found
    now: Identity | None = state.access.of_proxy(scope)
    if now is None:
        return found
    return now if now.key == found.key else None


def _certified(scope: Scope) -> Identity | None:
    """The identity that the certificate of the connection proves."""
    found = scope.get("state", {}).get("identity")
    return None if found is None else Identity(found.name, "certificate", found.name)


def bearer(scope: Scope) -> bytes:
    """The token that a request sends; empty for none, or for two of them."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, sent = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return bytes(sent.strip()) if scheme.lower() == b"bearer" else b""


def noted(scope: Scope) -> dict[str, str]:
    """A request as the audit log has it: without its query and its headers."""
    client = scope.get("client")
    return {
        "from": client[0] if client else "",
        "method": scope["method"][:20],
        "path": mask_text(scope["path"])[:_LONGEST],
    }
