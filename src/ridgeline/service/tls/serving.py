"""The certificate with which the web service answers."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.service.access.options import AccessOptions

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
"""How often files are looked at, while clients come."""
_FIRST = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_NOT_OTHERS = stat.S_IWGRP | stat.S_IRWXO


class ServedTls:
    """The certificate of a web service, read again when its files change. Of one thread.

    Args:
        certificate: The certificate, with its chain (PEM).
        key: Its key (PEM, no password); may be the same file.

    Raises:
        RidgelineError: If the files cannot be read or do not belong together, or others can read the key.
    """

    def __init__(self, certificate: str | Path, key: str | Path, *, clock: Clock | None = None) -> None:
        self.on_renewed: Callable[[str], object] | None = None
        """Called with the new fingerprint, before the first client sees the new certificate."""
        self._certificate, self._key = certificate, key
        self._now = (clock or SystemClock()).monotonic
        self._looked = self._now()
        self._stamp = self._stamps()
        self.fingerprint, self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The context for the next connection; those that are open keep theirs."""
        now = self._now()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            stamp = self._stamps()
            if stamp != self._stamp:
                self._stamp = stamp
                self._renew()
        return self._context

    def _renew(self) -> None:
        """Take the files as they are now; what is of no use is logged, and what was before stays."""
        try:
            fingerprint, context = self._read()
        except RidgelineError as error:
            _log.warning("the web service keeps its certificate: %s", error)
            return
        try:
            if self.on_renewed is not None and fingerprint != self.fingerprint:
                self.on_renewed(fingerprint)
        except RidgelineError as error:
            _log.warning("commands do not know the new certificate %s: %s", fingerprint, error)
        self.fingerprint, self._context = fingerprint, context
        _log.info("the web service has read its certificate again: %s", fingerprint)

    def _stamps(self) -> tuple[object, ...]:
        """Values that differ once a file was changed."""
        return tuple(_stamp(path) for path in (self._certificate, self._key))

    def _read(self) -> tuple[str, ssl.SSLContext]:
        """Fingerprint and context of the files. Raises RidgelineError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0  # each connection proves itself
        context.set_alpn_protocols(["http/1.1"])
        _check_key(self._key)
        try:
            fingerprint = fingerprint_of(Path(self._certificate).read_text("ascii"))
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")  # asks no one
        except (OSError, ValueError) as error:
            raise RidgelineError(
                f"`{self._certificate}` and `{self._key}` are no certificate and its key: {_reason(error)}; "
                "give two files in PEM that belong together, the key without a password"
            ) from error
        return fingerprint, context


def secured(options: AccessOptions) -> ServedTls | None:
    """The TLS that options ask for; None for none.

    Raises RidgelineError for options that do not fit together, and as `ServedTls`.
    """
    if (options.web_cert is None) != (options.web_key is None):
        present, missing = ("--web-cert", "--web-key") if options.web_cert else ("--web-key", "--web-cert")
        raise RidgelineError(f"`{present}` needs `{missing}`: the certificate and its key are given together")
    if options.web_cert is None or options.web_key is None:
        return None
    return ServedTls(options.web_cert, options.web_key)


def fingerprint_of(pem: str) -> str:
    """The SHA-256 of the first certificate of a text, as `sha256:` and 64 digits. Raises ValueError."""
    found = _FIRST.search(pem)
    if found is None:
        raise ValueError("there is no certificate in it")
    return fingerprint_of_der(ssl.PEM_cert_to_DER_cert(found[0]))


def fingerprint_of_der(certificate: bytes) -> str:
    """The SHA-256 of a certificate, as `sha256:` and 64 digits."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


def _check_key(path: str | Path) -> None:
    """Refuse a key that others can read or write. Raises RidgelineError."""
    with contextlib.suppress(OSError):  # what cannot be read is reported where it is read
        found = os.stat(path)  # noqa: PTH116  follows links, as Kubernetes has them
        if found.st_mode & _NOT_OTHERS and not trust.is_exempt(os.path.abspath(path)):  # noqa: PTH100
            raise RidgelineError(
                f"the key `{path}` can be read or written by others (mode {stat.S_IMODE(found.st_mode):04o});"
                f" run `chmod 600 {path}`, and have it made anew if it may have been read"
            )


def _stamp(path: str | Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  once a second
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _reason(error: Exception) -> str:
    """The fault in words, without the library's file and line."""
    if isinstance(error, ssl.SSLError):
        known = {
            "KEY_VALUES_MISMATCH": "the key is that of another certificate",
            "NO_START_LINE": "there is no key or certificate in it",
        }
        return known.get(error.reason or "", (error.reason or "it cannot be read").lower().replace("_", " "))
    return getattr(error, "strerror", None) or str(error)
