"""TLS between slots: what leaves a host is encrypted, and both ends have the application's certificate.

It signs itself, and no other is trusted: who has its key is of the application. Spark brings both to slots.
"""

from __future__ import annotations

import functools
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, as text (PEM)."""

    chain: str
    key: str = field(repr=False)


class Contexts(NamedTuple):
    """The contexts of those who listen, and of those who connect."""

    listens: ssl.SSLContext
    connects: ssl.SSLContext


@functools.cache
def contexts(certificate: Certificate | None) -> Contexts:
    """Present this certificate, and accept no other. Without one no handshake succeeds."""
    found = Contexts(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    found.listens.num_tickets = 0  # nobody resumes a session
    found.connects.check_hostname = False  # a host has several names, and each slot the same certificate
    for context in found:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        if certificate is not None:
            context.load_verify_locations(cadata=certificate.chain)
            _present(context, certificate)
    return found


def _present(context: ssl.SSLContext, certificate: Certificate) -> None:
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:  # 0700; the library reads files only
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_text(certificate.chain, "ascii")
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(certificate.key)
        context.load_cert_chain(chain, key)
