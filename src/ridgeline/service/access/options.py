"""The options about who may do what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.option import Option
from ridgeline.engine.files.rotation import DEFAULT, Rotation
from ridgeline.service.tls.options import TlsOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ridgeline.service.access.access import Access
    from ridgeline.service.access.audit import AuditLog

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
            help="Accept bearer tokens (JWT) of this OpenID Connect issuer. Needs `--oidc-audience`, "
            "`--tokens` and the extra `ridgeline[oidc]`.",
            panel=_PANEL,
        ),
    ] = None
    oidc_audience: Annotated[
        str | None,
        Option(metavar="NAME", help="The audience that tokens of `--oidc-issuer` must be for.", panel=_PANEL),
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
        needs = {
            "--trust-header": (self.trust_header, {"--tokens": self.tokens}),
            "--trusted-proxy": (self.trusted_proxy, {"--trust-header": self.trust_header}),
            "--oidc-issuer": (
                self.oidc_issuer,
                {"--oidc-audience": self.oidc_audience, "--tokens": self.tokens},
            ),
            "--oidc-audience": (self.oidc_audience, {"--oidc-issuer": self.oidc_issuer}),
        }
        for option, (value, others) in needs.items():
            missing = [name for name, other in others.items() if not other]
            if value and missing:
                msg = f"`{option}` does nothing without `{missing[0]}`; give both"
                raise RidgelineError(msg)
        _ = self.audit_rotation

    @property
    def audit_rotation(self) -> Rotation:
        """That of the audit log. Raises RidgelineError naming the option that is no limit."""
        try:
            return Rotation.of(self.audit_log_rotate, self.audit_log_keep)
        except ValueError as error:
            given = f"`--audit-log-rotate {self.audit_log_rotate}`, `--audit-log-keep {self.audit_log_keep}`"
            msg = f"{given}: {error}"
            raise RidgelineError(msg) from None

    def access(self, application: str, say: Callable[[str], None]) -> Access | None:
        """The rules of an application; None if no option asks for any. Raises RidgelineError."""
        self.check()
        if self.tokens is None:
            return None
        from ridgeline.service.access.access import Access
        from ridgeline.service.access.oidc import Issuer
        from ridgeline.service.access.proxy import TrustedProxy
        from ridgeline.service.access.rules_file import RulesFile

        proxy = None if not self.trust_header else TrustedProxy.of(self.trust_header, self.trusted_proxy)
        file = RulesFile(self.tokens, say)
        issuer = None if not self.oidc_issuer else Issuer(self.oidc_issuer, self.oidc_audience or "", say)
        return Access(application, file, proxy, issuer, say=say)

    def audit(self, application: str, say: Callable[[str], None]) -> AuditLog | None:
        """The audit log; None if there is none. Raises RidgelineError."""
        self.check()
        if self.audit_log is None:
            return None
        from ridgeline.service.access.audit import AuditLog

        return AuditLog(self.audit_log, application, say, self.audit_rotation)
