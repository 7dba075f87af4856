"""The identity that a request proves, and the role that it has now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.types import Scope

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.service.access.oidc import Issuer, TokenRefusedError
from ridgeline.service.access.proxy import TrustedProxy
from ridgeline.service.access.roles import OWNER, READER, Caller, Identity, Role
from ridgeline.service.access.rules import Rules
from ridgeline.service.access.rules_file import RulesFile

if TYPE_CHECKING:
    from ridgeline.service.access.login import Login

SIGNED_IN_SECONDS = 3600.0, 43_200.0
"""How long who has signed in by an issuer stays so: without a request, and at most."""
Say = Callable[[str], None]


@dataclass
class Access:
    """The rules of one application. From any thread.

    A role is looked up for each request. So a line that is removed or lowered counts within a second, for
    sessions of the page and open streams too. `file`: None if there are no rules. `login`: signs in browsers,
    for `signed_in_seconds` without a request, and at most. `mapped`: further rules, of claims.
    """

    application: str
    file: RulesFile | None = None
    proxy: TrustedProxy | None = None
    issuer: Issuer | None = None
    login: Login | None = None
    mapped: Rules = field(default_factory=Rules)
    signed_in_seconds: tuple[float, float] = SIGNED_IN_SECONDS
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
        every = (self.mapped,) if self.file is None else (self.file.rules, self.mapped)
        roles = [rules.role(identity, self.application, now) for rules in every]
        return max(filter(None, roles), default=None)

    def caller(self, identity: Identity) -> Caller:
        """An identity with its role."""
        return Caller(identity, self.role(identity))

    def of_token(self, token: bytes) -> Identity | None:
        """The identity that a token of the file proves."""
        return None if self.file is None else self.file.rules.token(token)

    def of_issuer(self, token: bytes) -> tuple[Identity | None, str]:
        """The identity that a token of the issuer proves, or why it proves none. May take seconds."""
        if self.issuer is None:
            return None, ""
        try:
            return self.issuer.identity(token), ""
        except TokenRefusedError as error:
            return None, str(error)

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


__all__ = ["OWNER", "READER", "Access"]
