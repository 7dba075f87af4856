"""An authority of the test's own, and certificates that it signs."""

import datetime as dt
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass
class Signed:
    """A certificate and its key in files."""

    folder: Path
    name: str
    x509: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def fingerprint(self):
        return f"sha256:{self.x509.fingerprint(hashes.SHA256()).hex()}"

    @property
    def certificate(self):
        return self._file("crt", self.x509.public_bytes(serialization.Encoding.PEM))

    @property
    def secret(self):
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())

    @property
    def key_file(self):
        return self._file("key", self.secret)

    def _file(self, kind, content):
        path = self.folder / f"{self.name}.{kind}"
        path.write_bytes(content)
        path.chmod(0o600)
        return path


class Authority:
    """Signs certificates; `file` has its own."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self.own = self._made(name, None, authority=True)

    @property
    def file(self):
        return self.own.certificate

    def sign(self, name, *, hosts=("localhost", "127.0.0.1"), days=30):
        """A certificate of that file name; `days` < 0: expired so long ago."""
        return self._made(name, self.own, hosts=hosts, days=days)

    def _made(self, name, issuer, *, hosts=(), days=30, authority=False):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        end = now + dt.timedelta(days=days)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if issuer is None else issuer.x509.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - dt.timedelta(days=1))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
            made = made.add_extension(usage, critical=False)
        if hosts:
            made = made.add_extension(
                x509.SubjectAlternativeName([_alternative(one) for one in hosts]), False
            )
        signer = key if issuer is None else issuer.key
        return Signed(self.folder, name, made.sign(signer, hashes.SHA256()), key)


def _alternative(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
