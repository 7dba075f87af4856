"""The options of TLS on the web service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.api.support.option import Option

_PANEL = "Web service and metrics"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Whether the web service speaks TLS, and with which certificate.

    `web_tls`: with one that is made for the application. `web_cert` and `web_key` name another one (PEM).
    `client_ca`: authorities (PEM) whose certificates let a client read.
    """

    web_tls: Annotated[
        bool,
        Option(
            help="Serve HTTPS, with a certificate that is made for the application and kept; needs the extra "
            "`ridgeline[tls]`.",
            panel=_PANEL,
        ),
    ] = False
    web_cert: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Serve HTTPS with this certificate (PEM, with its chain); needs `--web-key`. A renewed file "
            "is read without a restart.",
            panel=_PANEL,
        ),
    ] = None
    web_key: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="The key of `--web-cert` (PEM, no password), which others must not be able to read.",
            panel=_PANEL,
        ),
    ] = None
    client_ca: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Authorities (PEM) of clients: who presents a certificate of theirs may read. Others need "
            "a token.",
            panel=_PANEL,
        ),
    ] = None
