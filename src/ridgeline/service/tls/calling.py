"""How our own commands call a web service by TLS: whose certificate they accept.

An application of this user has the fingerprint of its certificate in the registry: only that certificate
counts, with any signature and for any name. Elsewhere an authority must have signed it.
"""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.request
from functools import cache, partial
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.service import registry
from ridgeline.service.tls.serving import fingerprint_of_der

CA_VARIABLE = "RIDGELINE_CA"
_WRONG_VERSIONS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "PACKET_LENGTH_TOO_LONG"}


class WrongCertificateError(RidgelineError):
    """A service presents another certificate than its fingerprint says; nothing was sent to it."""


def opener_of(url: str, ca: str | None = None) -> urllib.request.OpenerDirector:
    """What opens addresses of the service at `url`: without a proxy, redirects and other schemes.

    `ca`: a file with authorities (PEM) that are accepted; empty: those of this machine; None: as the
    environment says. The fingerprint in the registry wins over it.

    Raises RidgelineError if the file holds none, UntrustedError if others can write to the registry.
    """
    secured = [_CheckedHandler(url, ca)] if url.startswith("https:") else []
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects(), *secured)


class _CheckedHandler(urllib.request.HTTPSHandler):
    """Opens `https` addresses of one service; arguments as of `opener_of`."""

    def __init__(self, url: str, ca: str | None) -> None:
        self._url = url
        self._fingerprint = registry.certificate_at(url)
        authorities = os.environ.get(CA_VARIABLE, "") if ca is None else ca
        pinned = bool(self._fingerprint)
        self.context = _context("" if pinned else authorities, verifies=not pinned)
        super().__init__(context=self.context)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Send the request, once the certificate is checked."""
        return self.do_open(partial(_Connection, self), req)

    def check(self, presented: bytes | None) -> None:
        """Compare the certificate (DER) that the service presents, before anything is sent to it.

        Raises WrongCertificateError.
        """
        if not self._fingerprint:
            return  # the handshake has checked it
        found = fingerprint_of_der(presented or b"")
        if found == self._fingerprint:
            return
        renewed = registry.certificate_at(self._url)
        if found != renewed:
            raise WrongCertificateError(
                f"`{self._url}` presents the certificate {found}, not {renewed or self._fingerprint}: "
                "another program may answer there, so nothing was sent"
            )
        self._fingerprint = renewed


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a service that answers by one would get the token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse it: the answer is an error with its status."""


class _Connection(http.client.HTTPSConnection):
    def __init__(self, handler: _CheckedHandler, host: str, **options: Any) -> None:
        super().__init__(host, context=handler.context, **options)
        self._handler = handler

    def connect(self) -> None:
        """Connect, and check the certificate. Raises WrongCertificateError."""
        super().connect()
        secured: Any = self.sock
        self._handler.check(secured.getpeercert(binary_form=True))


def tls_problem(url: str, error: BaseException) -> str:
    """The fault of TLS there, and what to do; empty if the error is not about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of `{url}` is not accepted: {error.verify_message.rstrip('.')}; give its "
            f"authority by `{CA_VARIABLE}`"
        )
    if not isinstance(error, ssl.SSLError):
        return ""
    reason = (error.reason or "").upper()
    if reason in _WRONG_VERSIONS:
        return f"`{url}` speaks no TLS; begin the address with `http://`"
    return f"TLS with `{url}` fails: {reason.lower().replace('_', ' ') or error}"


@cache
def _context(ca: str, *, verifies: bool) -> ssl.SSLContext:
    """The context of a client. Raises RidgelineError for files of no use."""
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:
        raise RidgelineError(
            f"`{ca}` holds no authority: {_words(error)}; give certificates in PEM"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verifies:  # the fingerprint is compared in their place
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
