"""Who may do what from the page: a session of a browser, from a token or a one-time code."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from starlette.requests import cookie_parser
from starlette.types import Scope

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.service.access.roles import OWNER, Identity

KEY_HEADER = b"x-ridgeline-key"
CODE_SECONDS = 3600.0
"""How long a one-time code may be exchanged."""
NAMED_SECONDS = 3600.0
"""How long a session lasts whose name and groups a proxy has said: nothing says later that they changed."""
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Session:
    """The identity that opened the page in one browser. `cookie` and `key` are needed together.

    The session has no role of its own: that of the identity is looked up for each request. One whose
    identity a proxy named ends after `NAMED_SECONDS`.
    """

    cookie: str
    key: str
    identity: Identity


@dataclass(slots=True)
class _Kept:
    """A session as it is kept: it ends at `until`."""

    key: bytes
    identity: Identity
    until: float


class Sessions:
    """The sessions of one service, in memory. Thread-safe.

    A browser sends a cookie to every port of its host, where another user's service may listen. So the
    cookie alone opens nothing: the page sends a key too, which a browser keeps for one port.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._now = (clock or SystemClock()).monotonic
        self._lock = threading.Lock()
        self._codes: OrderedDict[bytes, tuple[float, Identity]] = OrderedDict()
        self._sessions: OrderedDict[bytes, _Kept] = OrderedDict()

    def code(self, identity: Identity = OWNER, seconds: float = CODE_SECONDS) -> str:
        """A new code, which can be exchanged once for a session of an identity, so long at most."""
        code = secrets.token_urlsafe(16)
        with self._lock:
            self._codes[_digest(code)] = self._now() + seconds, identity
            while len(self._codes) > _MOST:
                self._codes.popitem(last=False)
        return code

    def exchange(self, code: str) -> Session | None:
        """A session for a code that was not used and is not too old; None otherwise."""
        with self._lock:
            until, identity = self._codes.pop(_digest(code), (None, OWNER))
        return self.open(identity) if until is not None and self._now() <= until else None

    def open(self, identity: Identity) -> Session:
        """A new session; of too many, the one that was used longest ago ends."""
        session = Session(secrets.token_urlsafe(24), secrets.token_urlsafe(24), identity)
        until = self._now() + (NAMED_SECONDS if identity.source == "proxy" else math.inf)
        with self._lock:
            self._sessions[_digest(session.cookie)] = _Kept(_digest(session.key), identity, until)
            while len(self._sessions) > _MOST:
                self._sessions.popitem(last=False)
        return session

    def identity(self, cookie: str, key: str) -> Identity | None:
        """The identity of a session; None if there is no such session."""
        with self._lock:
            found = self._sessions.get(_digest(cookie))
            if found is None or not hmac.compare_digest(found.key, _digest(key)):
                return None
            if self._now() > found.until:
                del self._sessions[_digest(cookie)]
                return None
            self._sessions.move_to_end(_digest(cookie))
            return found.identity


def _digest(secret: str) -> bytes:
    """Secrets are found by their digest: how long that takes says nothing about them."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def cookie_name(scope: Scope) -> str:
    """The name of the cookie, which a browser does not keep apart by port."""
    server = scope.get("server") or ("", 0)
    return f"ridgeline-{server[1]}"


def credentials(scope: Scope) -> tuple[str, str]:
    """The cookie and the key of a request; empty if it has none.

    Other services of this host have cookies of their own, written as they like.
    """
    cookies = cookie_parser(_header(scope, b"cookie"))
    return cookies.get(cookie_name(scope), ""), _header(scope, KEY_HEADER)


def same_origin(scope: Scope) -> bool:
    """True if a page of this very service sends the request, as the browser says."""
    site, origin = _header(scope, b"sec-fetch-site"), _header(scope, b"origin")
    if site and site != "same-origin":
        return False
    if origin:
        return origin.partition("://")[2].lower() == _header(scope, b"host").lower() != ""
    return site == "same-origin"


def crosses_sites(scope: Scope) -> bool:
    """True if a browser says that a page of another site sends the request; programs say nothing."""
    site, origin = _header(scope, b"sec-fetch-site"), _header(scope, b"origin")
    if site:
        return site not in {"same-origin", "none"}
    return bool(origin) and origin.partition("://")[2].lower() != _header(scope, b"host").lower()


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
