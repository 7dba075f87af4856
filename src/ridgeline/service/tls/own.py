"""The certificate that an application makes for its web service: kept, for its owner alone."""

from __future__ import annotations

import datetime as dt
import fcntl
import hashlib
import ipaddress
import os
import re
import stat
import tempfile
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust

_DAYS = 825
"""How long a certificate is good: the longest time that browsers accept."""
_LEFT_DAYS = 30
"""One that is good for less is made again at the next start."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME, _MOST_NAMES = 80, 50
_REFUSAL = "the folder of certificates", "set `RIDGELINE_HOME` to a folder of your own"
_OTHERS = 0o077


def folder() -> Path:
    """`$RIDGELINE_HOME/certificates`, else `~/.ridgeline/certificates`."""
    home = os.environ.get("RIDGELINE_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".ridgeline") / "certificates"


def own_certificate(application: str, names: Collection[str], clock: Clock | None = None) -> Path:
    """The file (PEM, 0600) with an application's certificate and key.

    It is made again if it is damaged, lacks one of `names`, or is good for less than 30 days. So it is if
    others could have read it. `names`: host names and addresses.

    Raises RidgelineError if it cannot be written, or the library that makes it is missing.
    """
    now = dt.datetime.fromtimestamp((clock or SystemClock()).wall(), dt.UTC)
    place = folder()
    try:
        trust.private_folder(str(place), *_REFUSAL)
        path = place / f"{_file_name(application)}.pem"
        with open(place / ".lock", "a", opener=trust.private_opener) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of two that start at once one makes it
            known = _names_in(path, now)
            if known is None or not _plain(names) <= known:
                _write(path, _made(application, {*names, *(known or ())}, now))
    except OSError as error:
        raise RidgelineError(
            f"the certificate for `--web-tls` cannot be kept in `{place}`: {error.strerror}; set "
            "`RIDGELINE_HOME` to a folder that you may write"
        ) from error
    return path


def _file_name(application: str) -> str:
    """A name for files, another one for each application.

    >>> _file_name("payments"), _file_name("a/b")
    ('payments', 'a_b-c14cddc0')
    """
    safe = _UNSAFE.sub("_", application).lstrip(".")[:_LONGEST_NAME]
    if safe == application:
        return safe
    return f"{safe}-{hashlib.sha256(application.encode(errors='replace')).hexdigest()[:8]}"


def _library(module: str) -> Any:
    """A module of cryptography. Raises RidgelineError if it is not installed."""
    try:
        return import_module(f"cryptography.{module}")
    except ImportError as error:
        raise RidgelineError(
            f"`--web-tls` makes a certificate with cryptography, which cannot be imported ({error}); install "
            "it: pip install 'ridgeline[tls]', or give `--web-cert FILE --web-key FILE`"
        ) from error


def _names_in(path: Path, now: dt.datetime) -> frozenset[str] | None:
    """The names of a certificate; None if it is not there, or has to be made again.

    Those of another run of the application stay when names are added: it may use the certificate now.
    """
    x509, serialization = _library("x509"), _library("hazmat.primitives.serialization")
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
            return None
        text = path.read_bytes()
        certificate = x509.load_pem_x509_certificate(text)
        key = serialization.load_pem_private_key(text, None)
        has = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    good = (
        key.public_key() == certificate.public_key()
        and certificate.not_valid_before_utc <= now
        and certificate.not_valid_after_utc - now >= dt.timedelta(days=_LEFT_DAYS)
    )
    return frozenset(str(name.value).lower() for name in list(has)[:_MOST_NAMES]) if good else None


def _plain(names: Collection[str]) -> frozenset[str]:
    """Names as they are in a certificate; without those that it cannot have."""
    return frozenset(str(one.value).lower() for one in _alternative(names))


def _alternative(names: Collection[str]) -> list[Any]:
    """Names as a certificate has them; without those that it cannot have."""
    x509 = _library("x509")
    made: list[Any] = []
    for name in sorted(set(names)):
        try:
            made.append(x509.IPAddress(ipaddress.ip_address(name.partition("%")[0])))
        except ValueError:
            if name and name.isascii():
                made.append(x509.DNSName(name))
    return made


def _made(application: str, names: Collection[str], now: dt.datetime) -> bytes:
    """A new key on the curve P-256 and a certificate that it signs itself, as PEM."""
    x509, hashes = _library("x509"), _library("hazmat.primitives.hashes")
    serialization = _library("hazmat.primitives.serialization")
    elliptic = _library("hazmat.primitives.asymmetric.ec")
    key = elliptic.generate_private_key(elliptic.SECP256R1())
    common_name = f"Ridgeline {_UNSAFE.sub('_', application)}"[:64]  # the longest that X.509 allows
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(_alternative(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(encoding, form, serialization.NoEncryption())
    return bytes(certificate.public_bytes(encoding) + secret)


def _write(path: Path, content: bytes) -> None:
    """Put the file in its place at once. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)  # readable for its owner only
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise
