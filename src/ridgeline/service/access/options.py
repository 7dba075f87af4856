"""The options about who may do what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.option import Option

if TYPE_CHECKING:
    from collections.abc import Callable

    from ridgeline.service.access.access import Access
    from ridgeline.service.access.audit import AuditLog

_PANEL = "Who may do what"
_SERVICE = "Web service and metrics"


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Roles by a file or a proxy, TLS by files, and the audit log. See docs/roles.md.

    Args:
        tokens (FILE): Who may read, operate and administer: lines that `ridgeline token add` writes. Read
            again when it changes.
        trust_header (USER[,GROUPS]): Headers by which a proxy names who asks:
            `X-Forwarded-User,X-Forwarded-Groups`. Needs `--trusted-proxy` and `--tokens`.
        trusted_proxy (ADDRESS): Address or network of a proxy whose `--trust-header` counts.
        web_cert (FILE): Serve HTTPS with this certificate (PEM, with its chain); needs `--web-key`. A renewed
            file is read without a restart.
        web_key (FILE): The key of `--web-cert` (PEM, no password), which others must not be able to read.
        audit_log (FILE): Append each change and denied tries to FILE (`.jsonl`): who, where from, what came
            of it.
    """

    tokens: Annotated[str | None, Option(panel=_PANEL)] = None
    trust_header: Annotated[str | None, Option(panel=_PANEL)] = None
    trusted_proxy: Annotated[Sequence[str], Option(panel=_PANEL)] = ()
    web_cert: Annotated[str | None, Option(panel=_SERVICE)] = None
    web_key: Annotated[str | None, Option(panel=_SERVICE)] = None
    audit_log: Annotated[str | None, Option(panel=_PANEL)] = None

    def check(self) -> None:
        """Raise RidgelineError for options that miss another one, or are wrong."""
        for option, value, needed, other in (
            ("--trust-header", self.trust_header, "--tokens", self.tokens),
            ("--trusted-proxy", self.trusted_proxy, "--trust-header", self.trust_header),
        ):
            if value and not other:
                raise RidgelineError(f"`{option}` does nothing without `{needed}`; give both")

    def access(self, application: str, say: Callable[[str], None]) -> Access | None:
        """The rules of an application; None if no option asks for any. Raises RidgelineError."""
        self.check()
        if self.tokens is None:
            return None
        from ridgeline.service.access.access import Access, TrustedProxy
        from ridgeline.service.access.rules_file import RulesFile

        proxy = None if not self.trust_header else TrustedProxy.of(self.trust_header, self.trusted_proxy)
        return Access(application, RulesFile(self.tokens, say), proxy, say=say)

    def audit(self, application: str, say: Callable[[str], None]) -> AuditLog | None:
        """The audit log; None if there is none. Raises RidgelineError."""
        self.check()
        if self.audit_log is None:
            return None
        from ridgeline.service.access.audit import AuditLog

        return AuditLog(self.audit_log, application, say)
