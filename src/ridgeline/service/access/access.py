"""The identity that a request proves, and the role that it has now."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from starlette.types import Scope

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.service.access.roles import ANYBODY, OWNER, READER, Caller, Identity, Role
from ridgeline.service.access.rules_file import RulesFile
from ridgeline.service.page.session import Sessions, credentials

_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_LONGEST = 8_000
_MOST_GROUPS = 500
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """The headers that count, in lower case, and the addresses that they count from.

    `groups`: the header with groups, separated by commas; empty: none counts.
    """

    user: bytes
    groups: bytes
    networks: tuple[Network, ...]

    @classmethod
    def of(cls, headers: str, addresses: Sequence[str]) -> TrustedProxy:
        """From `X-Forwarded-User,X-Forwarded-Groups` and addresses or networks. Raises RidgelineError."""
        names = [name.strip() for name in headers.split(",")]
        if not 1 <= len(names) <= 2 or not all(map(_HEADER.fullmatch, names)):  # noqa: PLR2004
            raise RidgelineError(
                f"`--trust-header {headers}` is no header; give `X-Forwarded-User[,X-Forwarded-Groups]`"
            )
        if not addresses:
            raise RidgelineError(
                "`--trust-header` trusts no one without `--trusted-proxy ADDRESS`; give the proxy's address"
            )
        encoded = [name.lower().encode() for name in names]
        return cls(encoded[0], encoded[1] if len(encoded) > 1 else b"", tuple(map(_network, addresses)))

    def identity(self, scope: Scope) -> Identity | None:
        """Who sends a request; None if it is not the proxy's, or its headers are missing or ambiguous."""
        if not self.sends(scope):
            return None
        users = _values(scope, self.user)
        if len(users) != 1 or not users[0].strip() or len(users[0]) > _LONGEST:
            return None  # two of them: one may be the client's own
        user = users[0].strip()
        given = _values(scope, self.groups) if self.groups else []
        text = given[0] if len(given) == 1 and len(given[0]) <= _LONGEST else ""
        groups = [group.strip() for group in text.split(",") if group.strip()]
        return Identity(user, "proxy", user, tuple(groups[:_MOST_GROUPS]))

    def sends(self, scope: Scope) -> bool:
        """Whether a request comes from one of the addresses."""
        client = scope.get("client")
        return client is not None and is_in(client[0], self.networks)

    def is_named(self, scope: Scope) -> bool:
        """Whether a request has one of the headers, wherever it comes from."""
        return any(name in {self.user, self.groups} - {b""} for name, _ in scope["headers"])


def is_in(address: str, networks: Collection[Network]) -> bool:
    """Whether an address is in one of the networks; IPv4 within IPv6 counts as IPv4."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return any((mapped or found) in network for network in networks)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("utf-8", "replace") for key, value in scope["headers"] if key == name]


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise RidgelineError(
            f"`--trusted-proxy {text}` is no address or network: {error}; give `10.0.0.5` or `10.0.0.0/24`"
        ) from None


Say = Callable[[str], None]


def bearer(scope: Scope) -> bytes:
    """The token that a request sends; empty for none, or for two of them."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, sent = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return bytes(sent.strip()) if scheme.lower() == b"bearer" else b""


@dataclass
class Access:
    """Who a request is of, and what it may do with one application. From any thread.

    `token`: that of the owner, needed for everything. `write_token`: the same, where anyone who reaches the
    service may read. `read_token`: enough to read. `file`: roles of others; then nobody may do anything
    without one. `sessions`: of the page.

    A role is looked up for each request. So a line that is removed or lowered counts within a second, for
    sessions of the page and open streams too.
    """

    application: str = ""
    file: RulesFile | None = None
    proxy: TrustedProxy | None = None
    clock: Clock | None = None
    say: Say = print
    token: str | None = None
    write_token: str | None = None
    read_token: str | None = None
    sessions: Sessions = field(default_factory=Sessions)
    _warned: bool = False

    def protect(self, *, only_here: bool) -> None:
        """Make a token if none was given. `only_here`: the service listens on a loopback address.

        Other users of this machine reach that, too: there a token is needed to change something.
        """
        if self.token is None:
            made = secrets.token_urlsafe(32)
            if self.file is not None or (only_here and self.read_token is None):  # others have their own
                self.write_token = made
            else:
                self.token = made

    def caller(self, scope: Scope) -> Caller:
        """Who sends a request, with the role of this moment."""
        if self.file is None and self.token is None and self.write_token is None:
            return Caller(OWNER, Role.ADMIN)
        found, way = self.of_token(bearer(scope)), "token"
        if found is None:
            found, way = self._of_session(scope), "session"
        if found is None:
            found, way = self._of_proxy(scope), "ambient"
        if found is not None:
            return Caller(found, self.role(found), way)
        is_open = self.file is None and self.token is None and self.read_token is None
        return Caller(ANYBODY, Role.READ if is_open else None)

    def role(self, identity: Identity) -> Role | None:
        """The role of an identity as of now."""
        if identity.source == "owner":
            return Role.ADMIN
        if identity.source == "reader" or self.file is None:
            return Role.READ
        return self.file.rules.role(identity, self.application, (self.clock or SystemClock()).wall())

    def of_token(self, token: bytes) -> Identity | None:
        """The identity that a token proves."""
        for own, identity in ((self.token or self.write_token, OWNER), (self.read_token, READER)):
            if token and own is not None and hmac.compare_digest(token, own.encode()):
                return identity
        return self.file.rules.token(token) if token and self.file is not None else None

    def _of_session(self, scope: Scope) -> Identity | None:
        """The identity of a session of the page; of one that a proxy named, as the proxy names it now.

        The groups of a person may have changed since. None if the proxy names another person.
        """
        found = self.sessions.identity(*credentials(scope))
        if found is None or found.source != "proxy":
            return found
        now = self._of_proxy(scope)
        return found if now is None else now if now.key == found.key else None

    def _of_proxy(self, scope: Scope) -> Identity | None:
        """The identity that a trusted proxy names. A header from elsewhere is said once, and ignored."""
        if self.proxy is None:
            return None
        found = self.proxy.identity(scope)
        if found is None and not self._warned and self.proxy.is_named(scope) and not self.proxy.sends(scope):
            self._warned = True
            name = (scope.get("client") or ("an unknown address",))[0]
            self.say(f"a header of `--trust-header` from `{name}` is ignored: it is no `--trusted-proxy`")
        return found
