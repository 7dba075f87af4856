"""Who sends a request: by a token, a session of the page, or the word of a proxy."""

from __future__ import annotations

import hmac
from typing import Any

from starlette.types import Scope

from ridgeline.api.support.masking import mask_text
from ridgeline.service.access.roles import ANYBODY, OWNER, READER, Caller, Identity, Role
from ridgeline.service.page.session import credentials

CALLER = "ridgeline.caller"
"""The key of the caller in the scope of a request that was let through."""
_LONGEST = 300


def caller_of(scope: Scope, state: Any) -> Caller:
    """Who sends a request, with the role of this moment."""
    if state.access is None and state.token is None and state.write_token is None:
        return Caller(OWNER, Role.ADMIN)
    found = identity_of_token(bearer(scope), state)
    way = "token"
    if found is None:
        found, way = _of_session(scope, state), "session"
    if found is None and state.access is not None:
        found, way = state.access.of_proxy(scope), "ambient"
    if found is None:
        is_open = state.access is None and state.token is None and state.read_token is None
        return Caller(ANYBODY, Role.READ if is_open else None)
    return Caller(found, role_of(found, state), way)


def role_of(identity: Identity, state: Any) -> Role | None:
    """The role of an identity as of now."""
    if state.access is not None:
        found: Role | None = state.access.role(identity)
        return found
    return Role.ADMIN if identity == OWNER else Role.READ


def identity_of_token(token: bytes, state: Any) -> Identity | None:
    """The identity that a token proves."""
    if not token:
        return None
    owner = state.token or state.write_token
    if owner is not None and hmac.compare_digest(token, owner.encode()):
        return OWNER
    if state.read_token is not None and hmac.compare_digest(token, state.read_token.encode()):
        return READER
    found: Identity | None = None if state.access is None else state.access.of_token(token)
    return found


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
