"""TLS between slots: what leaves a host is encrypted, and bound to the handshake's proofs.

No authority has to sign the certificate. The handshake binds both proofs to the certificate, so only an end
that knows the secret can present one that counts. Its key must be as secret as the secret.
"""

from __future__ import annotations

import functools
import hashlib
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.api.errors import RidgelineError


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, as text (PEM), so that they can travel to slots with the secret."""

    chain: str
    key: str = field(repr=False)

    @classmethod
    def of_files(cls, chain: str | Path, key: str | Path) -> Certificate:
        """Read both. Raises RidgelineError if they cannot be read or do not belong together."""
        try:
            found = cls(Path(chain).read_text("ascii"), Path(key).read_text("ascii"))
            listener_context(found)
        except (OSError, ValueError) as error:
            raise RidgelineError(
                f"`{chain}` and `{key}` are no certificate and its key; got: {error}; "
                "give two files in PEM that belong together, the key without a password"
            ) from error
        return found

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the certificate."""
        end = "-----END CERTIFICATE-----"
        first = self.chain[self.chain.index("-----BEGIN CERTIFICATE-----") :].partition(end)[0] + end
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).digest()


@functools.cache
def listener_context(certificate: Certificate | None) -> ssl.SSLContext:
    """For those who listen. Raises OSError or ValueError if the certificate is of no use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if certificate is None:
        return context
    context.num_tickets = 0  # nobody resumes a session
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:  # 0700; the library reads files only
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_text(certificate.chain, "ascii")
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(certificate.key)
        context.load_cert_chain(chain, key, password=lambda: "")  # asks nobody
    _ = certificate.digest
    return context


@functools.cache
def caller_context() -> ssl.SSLContext:
    """For those who connect: takes any certificate, for the handshake proves whose it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def digest_seen(connection: ssl.SSLSocket) -> bytes:
    """The SHA-256 of the certificate that the other end has presented; b"" for none."""
    return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").digest()
