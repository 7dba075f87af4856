"""How our own commands call a web service by TLS: whose certificate they accept.

An application of this user has the fingerprint of its certificate in the registry: only that certificate
counts, with any signature and for any name. Elsewhere an authority must have signed it.
"""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.request
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.service import registry
from ridgeline.service.tls.serving import fingerprint_of_der

CA_VARIABLE = "RIDGELINE_CA"
_WRONG_VERSIONS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "PACKET_LENGTH_TOO_LONG"}


class WrongCertificateError(RidgelineError):
    """A service presents another certificate than its fingerprint says; nothing was sent to it."""


class Caller:
    """Speaks TLS with one service.

    Args:
        url: Its address.
        ca: A file with authorities (PEM) that are accepted; empty: those of this machine.
        pinned: The fingerprint in the registry now, which wins over `ca`; empty: the service is not in it.

    Raises:
        RidgelineError: If the file holds none.
    """

    def __init__(self, url: str, *, ca: str = "", pinned: Callable[[], str] = lambda: "") -> None:
        self.url = url
        self._ask = pinned
        self._fingerprint = pinned()
        self.context = _context("" if self._fingerprint else ca, verifies=not self._fingerprint)

    def check(self, presented: bytes | None) -> None:
        """Compare the certificate (DER) that the service presents, before anything is sent to it.

        Raises WrongCertificateError.
        """
        if not self._fingerprint:
            return  # the handshake has checked it
        found = fingerprint_of_der(presented or b"")
        if found == self._fingerprint:
            return
        renewed = self._ask()
        if found == renewed:
            self._fingerprint = renewed
            return
        raise WrongCertificateError(
            f"`{self.url}` presents the certificate {found}, not {renewed or self._fingerprint}: another "
            "program may answer there, so nothing was sent"
        )


def caller_of(url: str, ca: str | None = None) -> Caller:
    """How the service at an address is called; `ca` is as of `Caller`, None: the environment's.

    Raises RidgelineError as `Caller`, UntrustedError if others can write to the registry.
    """
    return Caller(
        url,
        ca=os.environ.get(CA_VARIABLE, "") if ca is None else ca,
        pinned=partial(registry.certificate_at, url),
    )


def opener_of(url: str, ca: str | None = None) -> urllib.request.OpenerDirector:
    """What opens addresses of the service at `url`: without a proxy, redirects and other schemes.

    Raises RidgelineError as `caller_of`.
    """
    secured = [_CheckedHandler(caller_of(url, ca))] if url.startswith("https:") else []
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects(), *secured)


class _CheckedHandler(urllib.request.HTTPSHandler):
    """Opens `https` addresses as a `Caller` says."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(context=caller.context)
        self._caller = caller

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Send the request, once the certificate is checked."""
        return self.do_open(partial(_Connection, self._caller), req)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a service that answers by one would get the token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse it: the answer is an error with its status."""


class _Connection(http.client.HTTPSConnection):
    def __init__(self, caller: Caller, host: str, **options: Any) -> None:
        super().__init__(host, context=caller.context, **options)
        self._caller = caller

    def connect(self) -> None:
        """Connect, and check the certificate. Raises WrongCertificateError."""
        super().connect()
        secured: Any = self.sock
        self._caller.check(secured.getpeercert(binary_form=True))


def tls_problem(url: str, error: BaseException) -> str:
    """The fault of TLS there, and what to do; empty if the error is not about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of `{url}` is not accepted: {error.verify_message.rstrip('.')}; give its "
            f"authority (`--ca FILE`, or `{CA_VARIABLE}`)"
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
            f"`--ca {ca}` holds no authority: {_words(error)}; give certificates in PEM"
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
