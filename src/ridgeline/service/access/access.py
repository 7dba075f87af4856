"""The identity that a request proves, and the role that it has now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Scope

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.service.access.proxy import TrustedProxy
from ridgeline.service.access.roles import Caller, Identity, Role
from ridgeline.service.access.rules_file import RulesFile

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
