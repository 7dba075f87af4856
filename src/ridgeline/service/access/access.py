"""The identity that a request proves, and the role that it has now."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from starlette.types import Scope

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.service.access.roles import Caller, Identity, Role
from ridgeline.service.access.rules_file import RulesFile

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


@dataclass
class Access:
    """The rules of one application. From any thread.

    A role is looked up for each request. So a line that is removed or lowered counts within a second, for
    sessions of the page and open streams too.
    """

    application: str
    file: RulesFile
    proxy: TrustedProxy | None = None
    clock: Clock | None = None
    say: Say = print
    _warned: bool = False

    def role(self, identity: Identity) -> Role | None:
        """The role of an identity as of now."""
        if identity.source == "owner":
            return Role.ADMIN
        if identity.source == "reader":
            return Role.READ
        now = (self.clock or SystemClock()).wall()
        return self.file.rules.role(identity, self.application, now)

    def caller(self, identity: Identity) -> Caller:
        """An identity with its role."""
        return Caller(identity, self.role(identity))

    def of_token(self, token: bytes) -> Identity | None:
        """The identity that a token of the file proves."""
        return self.file.rules.token(token)

    def of_proxy(self, scope: Scope) -> Identity | None:
        """The identity that a trusted proxy names. A header from elsewhere is said once, and ignored."""
        if self.proxy is None:
            return None
        found = self.proxy.identity(scope)
        if found is None and not self._warned and self.proxy.is_named(scope) and not self.proxy.sends(scope):
            self._warned = True
            name = (scope.get("client") or ("an unknown address",))[0]
            self.say(f"a header of `--trust-header` from `{name}` is ignored: it is no `--trusted-proxy`")
        return found
