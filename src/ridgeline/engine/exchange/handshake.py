"""The handshake: both ends prove that they know the application's secret, which does not travel. No I/O.

1. Who connects says hello: who it is, and a nonce.
2. Who listens answers with a hello of its own and its proof.
3. Who connects checks that and sends its proof.

A proof is the HMAC-SHA256, by the secret, of the side that gives it and of both hellos. So it holds for these
nonces, peers and version only: a recorded conversation is of no use. Both sides put in the certificate that
they see, if there is one: a man in the middle cannot show another one.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

from ridgeline.engine.exchange.network import MALFORMED, UNAUTHENTICATED, Peer, RefusedError

VERSION = 1
NONCE_BYTES = 32
LEAST_SECRET_BYTES = 16
_HELLO = struct.Struct(f"<8sHiI{NONCE_BYTES}s")
"""The mark, the protocol's version, slot, attempt, nonce."""
_MARK = b"RIDGELIN"
_PROOF_BYTES = hashlib.sha256().digest_size


class Handshake:
    """One end of a handshake: what `begin` gives is sent first, then what `feed` answers.

    `missing`: how many bytes of the next message are still to come. Once it is 0, `peer` is who is at the
    other end.

    `other`: the peer that this end has connected to and expects; None if it listens. `nonce`: random bytes,
    new for each handshake. `binding`: digest of the certificate that this end sees, b"" without TLS.
    """

    def __init__(
        self, me: Peer, secret: bytes, nonce: bytes, other: Peer | None = None, binding: bytes = b""
    ) -> None:
        if len(secret) < LEAST_SECRET_BYTES or len(nonce) != NONCE_BYTES:
            raise ValueError(
                f"a secret has at least {LEAST_SECRET_BYTES} bytes and a nonce {NONCE_BYTES}; "
                f"got {len(secret)} and {len(nonce)}; take both from `secrets.token_bytes`"
            )
        self.peer: Peer | None = None
        self.missing = _HELLO.size if other is None else _HELLO.size + _PROOF_BYTES
        self._secret = secret
        self._binding = binding
        self._expected = other
        self._mine = _HELLO.pack(_MARK, VERSION, me.slot, me.attempt, nonce)
        self._theirs = b""
        self._received = b""

    @property
    def within_message(self) -> bool:
        """True if a part of a message has come in."""
        return bool(self._received)

    def begin(self) -> bytes:
        """The first message of this end; b"" if it listens."""
        return b"" if self._expected is None else self._mine

    def feed(self, data: bytes) -> bytes:
        """Take at most `missing` bytes; what to answer. Raises RefusedError."""
        self._received += data
        self.missing -= len(data)
        if not self._theirs and not _MARK.startswith(self._received[: len(_MARK)]):
            raise RefusedError(
                MALFORMED, f"a handshake begins with {_MARK!r}; got {self._received[: len(_MARK)]!r}"
            )
        if self.missing:
            return b""
        message, self._received = self._received, b""
        if self._expected is not None:
            return self._prove_to(self._expected, message)
        if not self._theirs:
            self._theirs = message
            _read_hello(message)
            self.missing = _PROOF_BYTES
            return self._mine + self._proof(b"listens")
        self._check(b"connects", message)
        self.peer = _read_hello(self._theirs)
        return b""

    def _prove_to(self, expected: Peer, message: bytes) -> bytes:
        """The proof of the end that has connected, if the other's holds and it is who it should be."""
        self._theirs = message[: _HELLO.size]
        found = _read_hello(self._theirs)
        self._check(b"listens", message[_HELLO.size :])
        if found != expected:
            raise RefusedError(UNAUTHENTICATED, f"{found} is at the address of {expected}")
        self.peer = found
        return self._proof(b"connects")

    def _check(self, side: bytes, proof: bytes) -> None:
        if not hmac.compare_digest(proof, self._proof(side)):
            raise RefusedError(
                UNAUTHENTICATED,
                "the other end does not know the application's secret, or somebody stands between",
            )

    def _proof(self, side: bytes) -> bytes:
        hellos = (self._theirs, self._mine) if self._expected is None else (self._mine, self._theirs)
        said = hashlib.sha256(b"".join(hellos)).digest()
        return hmac.digest(self._secret, b"ridgeline " + side + b"\0" + said + self._binding, "sha256")


def _read_hello(hello: bytes) -> Peer:
    """Who says hello. Raises RefusedError."""
    mark, version, slot, attempt, _ = _HELLO.unpack(hello)
    if mark != _MARK or version != VERSION:
        raise RefusedError(
            MALFORMED, f"this end speaks version {VERSION} of the protocol; the other speaks {version}"
        )
    return Peer(slot, attempt)
