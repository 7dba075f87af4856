"""A certificate of one's own, made in Spark's JVM: Python's standard library makes none.

Its name and its dates need no trust: the handshake between slots binds it to the secret.
"""

from __future__ import annotations

import base64
import secrets
import textwrap
from typing import Any

from ridgeline.engine.exchange.tls import Certificate

_INTEGER, _BIT_STRING, _OBJECT_ID, _UTF8, _SEQUENCE, _SET = 0x02, 0x03, 0x06, 0x0C, 0x30, 0x31
_UTC_TIME, _TIME, _VERSION = 0x17, 0x18, 0xA0
_ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("550403")
_V3 = b"\x02"
_KEY_BITS = 256
_LONG = 0x80


def make_certificate(jvm: Any) -> Certificate:
    """A new key on the curve P-256, and a certificate that it signs itself. Raises Py4JJavaError."""
    security = jvm.java.security
    generator = security.KeyPairGenerator.getInstance("EC")
    generator.initialize(_KEY_BITS)
    pair = generator.generateKeyPair()
    algorithm = _der(_SEQUENCE, _der(_OBJECT_ID, _ECDSA_WITH_SHA256))
    common_name = _der(_SEQUENCE, _der(_OBJECT_ID, _COMMON_NAME), _der(_UTF8, b"ridgeline"))
    name = _der(_SEQUENCE, _der(_SET, common_name))
    signed = _der(
        _SEQUENCE,
        _der(_VERSION, _der(_INTEGER, _V3)),
        _der(_INTEGER, b"\x01" + secrets.token_bytes(8)),
        algorithm,
        name,
        _der(_SEQUENCE, _der(_UTC_TIME, b"200101000000Z"), _der(_TIME, b"99991231235959Z")),
        name,
        _encoded(jvm, pair.getPublic(), "X509EncodedKeySpec"),
    )
    signature = security.Signature.getInstance("SHA256withECDSA")
    signature.initSign(pair.getPrivate())
    signature.update(signed)
    whole = _der(_SEQUENCE, signed, algorithm, _der(_BIT_STRING, b"\0", bytes(signature.sign())))
    key = _encoded(jvm, pair.getPrivate(), "PKCS8EncodedKeySpec")
    return Certificate(_pem("CERTIFICATE", whole), _pem("PRIVATE KEY", key))


def _encoded(jvm: Any, key: Any, form: str) -> bytes:
    """A key in a standard form. Its own class is none of Java's public ones, which alone py4j can call."""
    kind = jvm.java.lang.Class.forName(f"java.security.spec.{form}")
    return bytes(jvm.java.security.KeyFactory.getInstance("EC").getKeySpec(key, kind).getEncoded())


def _der(tag: int, *parts: bytes) -> bytes:
    """One element of ASN.1 in its distinguished encoding: tag, length, content."""
    content = b"".join(parts)
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8 or 1, "big")
    return bytes([tag, *([] if size < _LONG else [_LONG | len(length)])]) + length + content


def _pem(label: str, data: bytes) -> str:
    lines = textwrap.fill(base64.b64encode(data).decode(), 64)
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
