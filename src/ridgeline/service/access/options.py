"""The options about who may do what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.option import Option
from ridgeline.engine.files.rotation import DEFAULT, Rotation
from ridgeline.service.access.roles import Role
from ridgeline.service.tls.options import TlsOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ridgeline.service.access.access import Access
    from ridgeline.service.access.audit import AuditLog
    from ridgeline.service.access.login import Login
    from ridgeline.service.access.oidc import Issuer
    from ridgeline.service.access.rules import Rules

_PANEL = "Who may do what"


@dataclass(frozen=True, slots=True)
class AccessOptions(TlsOptions):
    """Roles by a file, a proxy or an issuer of tokens, and the audit log. See docs/roles.md."""

    tokens: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Who may read, operate and administer: lines that `ridgeline token add` writes. Read again "
            "when it changes.",
            panel=_PANEL,
        ),
    ] = None
    trust_header: Annotated[
        str | None,
        Option(
            metavar="USER[,GROUPS]",
            help="Headers by which a proxy names who asks: `X-Forwarded-User,X-Forwarded-Groups`. Needs "
            "`--trusted-proxy` and `--tokens`.",
            panel=_PANEL,
        ),
    ] = None
    trusted_proxy: Annotated[
        Sequence[str],
        Option(
            metavar="ADDRESS",
            help="Address or network of a proxy whose `--trust-header` counts.",
            panel=_PANEL,
        ),
    ] = ()
    oidc_issuer: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Accept bearer tokens (JWT) of this OpenID Connect issuer (`--oidc-audience`), let browsers "
            "sign in there (`--oidc-client-id`), or both. Needs `--tokens` or `--oidc-role`, and the extra "
            "`ridgeline[oidc]`.",
            panel=_PANEL,
        ),
    ] = None
    oidc_audience: Annotated[
        str | None,
        Option(metavar="NAME", help="The audience that tokens of `--oidc-issuer` must be for.", panel=_PANEL),
    ] = None
    oidc_client_id: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Let browsers sign in at `--oidc-issuer`, which knows the page as this client, and leads "
            "back to its `page/login/callback`.",
            panel=_PANEL,
        ),
    ] = None
    oidc_client_secret: Annotated[
        str | None,
        Option(
            metavar="SECRET",
            variable="RIDGELINE_OIDC_CLIENT_SECRET",
            help="The secret of `--oidc-client-id`, or its place: `file:PATH`. Not given: a public client.",
            panel=_PANEL,
            repeated=False,
        ),
    ] = None
    oidc_role: Annotated[
        Sequence[str],
        Option(
            metavar="CLAIM=VALUE:ROLE",
            help="The role of those whose claim of `--oidc-issuer` has a value: `groups=ops:operate`.",
            panel=_PANEL,
        ),
    ] = ()
    oidc_session: Annotated[
        str,
        Option(
            metavar="IDLE-MOST",
            help="How long a browser stays signed in: without a request, and at most.",
            panel=_PANEL,
        ),
    ] = "1h-12h"
    public_url: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="The page's address as browsers see it, where a proxy is before it: "
            "`https://ops.example/orders/`. Default: as each request says.",
            panel=_PANEL,
        ),
    ] = None
    audit_log: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Append each change and each denied try to FILE (`.jsonl`), for `ridgeline audit FILE`.",
            panel=_PANEL,
        ),
    ] = None
    audit_log_rotate: Annotated[
        str,
        Option(
            metavar="LIMITS",
            help="When the next file of the audit log begins: a size, a time, both (`256MB,1d`), or `off`.",
            panel=_PANEL,
        ),
    ] = DEFAULT
    audit_log_keep: Annotated[
        str,
        Option(
            metavar="LIMITS",
            help="How much of the audit log's earlier files is kept: files, size, age. Default: all.",
            panel=_PANEL,
        ),
    ] = ""

    def check(self) -> None:
        """Raise RidgelineError for options that miss another one, or are wrong."""
        needs: Mapping[str, tuple[object, Mapping[str, object]]] = {
            "--trust-header": (self.trust_header, {"--tokens": self.tokens}),
            "--trusted-proxy": (self.trusted_proxy, {"--trust-header": self.trust_header}),
            "--oidc-issuer": (
                self.oidc_issuer,
                {
                    "--oidc-audience": self.oidc_audience or self.oidc_client_id,
                    "--tokens": self.tokens or self.oidc_role,
                },
            ),
            "--oidc-audience": (self.oidc_audience, {"--oidc-issuer": self.oidc_issuer}),
            "--oidc-client-id": (self.oidc_client_id, {"--oidc-issuer": self.oidc_issuer}),
            "--oidc-client-secret": (self.oidc_client_secret, {"--oidc-client-id": self.oidc_client_id}),
            "--oidc-role": (self.oidc_role, {"--oidc-issuer": self.oidc_issuer}),
        }
        for option, (value, others) in needs.items():
            missing = [name for name, other in others.items() if not other]
            if value and missing:
                raise RidgelineError(f"`{option}` does nothing without `{missing[0]}`; give both")
        _ = self.audit_rotation, self.oidc_seconds, self._mapped()
        if self.public_url and not urlsplit(self.public_url).hostname:
            raise RidgelineError(f"`--public-url {self.public_url}` is no address; give `https://HOST/PATH/`")

    @property
    def audit_rotation(self) -> Rotation:
        """That of the audit log. Raises RidgelineError naming the option that is no limit."""
        try:
            return Rotation.of(self.audit_log_rotate, self.audit_log_keep)
        except ValueError as error:
            given = f"`--audit-log-rotate {self.audit_log_rotate}`, `--audit-log-keep {self.audit_log_keep}`"
            raise RidgelineError(f"{given}: {error}") from None

    @property
    def oidc_seconds(self) -> tuple[float, float]:
        """How long a browser stays signed in: without a request, and at most. Raises RidgelineError."""
        idle, _, most = self.oidc_session.partition("-")
        try:
            found = parse_duration(idle), parse_duration(most or idle)
        except ValueError as error:
            raise RidgelineError(
                f"`--oidc-session {self.oidc_session}`: {error}; give two times, such as `1h-12h`"
            ) from None
        if not 0 < found[0] <= found[1]:
            raise RidgelineError(
                f"`--oidc-session {self.oidc_session}`: the first time is above zero, the second no shorter"
            )
        return found

    def _mapped(self) -> Rules:
        """The roles of claims. Raises RidgelineError."""
        from ridgeline.service.access.rules import Rule, Rules

        rules = []
        for text in self.oidc_role:
            claim, _, word = text.rpartition(":")
            name, _, value = claim.partition("=")
            if not name or not value:
                raise RidgelineError(f"`--oidc-role {text}` names no claim; give `CLAIM=VALUE:ROLE`")
            try:
                rules.append(Rule(f"claim:{claim}", Role.of(word)))
            except ValueError as error:
                raise RidgelineError(f"`--oidc-role {text}`: {error}") from None
        return Rules.of(rules)

    def _login(self, issuer: Issuer) -> Login | None:
        """The sign-in of browsers; None for none. Raises RidgelineError."""
        if self.oidc_client_id is None:
            return None
        from ridgeline.api.support.secrets.providers import provided_option
        from ridgeline.service.access.login import Login

        secret = provided_option(self.oidc_client_secret, "--oidc-client-secret")
        page = f"{self.public_url.rstrip('/')}/" if self.public_url else ""
        return Login(issuer, self.oidc_client_id, secret, page, self.oidc_seconds[1])

    @property
    def public_names(self) -> tuple[str, ...]:
        """The host by which browsers ask, if one was given."""
        host = urlsplit(self.public_url or "").hostname
        return (host,) if host else ()

    def access(self, application: str, say: Callable[[str], None]) -> Access | None:
        """The rules of an application; None if no option asks for any. Raises RidgelineError."""
        self.check()
        if self.tokens is None and not self.oidc_role:
            return None
        from ridgeline.service.access.access import Access
        from ridgeline.service.access.oidc import Issuer
        from ridgeline.service.access.proxy import TrustedProxy
        from ridgeline.service.access.rules_file import RulesFile

        proxy = None if not self.trust_header else TrustedProxy.of(self.trust_header, self.trusted_proxy)
        file = None if self.tokens is None else RulesFile(self.tokens, say)
        audience = self.oidc_audience or ""
        issuer = None if not self.oidc_issuer else Issuer(self.oidc_issuer, audience, say)
        login = None if issuer is None else self._login(issuer)
        bearers = issuer if audience else None
        return Access(
            application,
            file,
            proxy,
            bearers,
            login,
            self._mapped(),
            self.oidc_seconds,
            say=say,
        )

    def audit(self, application: str, say: Callable[[str], None]) -> AuditLog | None:
        """The audit log; None if there is none. Raises RidgelineError."""
        self.check()
        if self.audit_log is None:
            return None
        from ridgeline.service.access.audit import AuditLog

        return AuditLog(self.audit_log, application, say, self.audit_rotation)
