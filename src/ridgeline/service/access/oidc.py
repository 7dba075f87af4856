"""Bearer tokens of an OpenID Connect issuer: its keys are fetched and kept, its tokens are checked."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.service.access.roles import Identity
from ridgeline.service.tls.calling import NoRedirects

SKEW_SECONDS = 60.0
"""The difference that clocks of the issuer and of this host may have."""
FRESH_SECONDS = 600.0
"""Keys are fetched again after that, so that one that the issuer has withdrawn does not count for long."""
STALE_SECONDS = 24 * 3600.0
"""Keys count for this time while the issuer cannot be asked."""
AGAIN_SECONDS = 10.0
"""The issuer is asked no more often, whatever tokens come."""
_TIMEOUT_SECONDS = 5.0
MOST_SECONDS = 20.0
"""The longest that an answer may take, however steadily it comes."""
_LARGEST, _LONGEST_TOKEN = 1_000_000, 16_384
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Those of public keys alone: with HS256 an attacker could sign by the issuer's public key."""
_KINDS = {"RSA", "EC", "OKP"}


class TokenRefusedError(Exception):
    """A token that proves nothing; its text says why, without the token."""


class Issuer:
    """An issuer by its address, and the audience that its tokens must be for. Thread-safe.

    Args:
        url: As the claim `iss` has it: `https://login.example/realms/x`. Without TLS only on this machine.
        audience: What the claim `aud` must have.
        say: Called with a text if the issuer cannot be asked.
        clock: For tests.

    Raises:
        RidgelineError: If the address is none, joserfc is missing, or the issuer cannot be asked.
    """

    def __init__(
        self, url: str, audience: str, say: Callable[[str], None], clock: Clock | None = None
    ) -> None:
        try:
            from joserfc import jwk, jwt
        except ImportError as error:
            raise RidgelineError(
                "`--oidc-issuer` needs joserfc; install the extra `ridgeline[oidc]`"
            ) from error
        self._jwk, self._jwt = jwk, jwt
        check_address(url, "--oidc-issuer")
        self.url, self.audience = url, audience
        self._say = say
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._keys: Any = None
        self.metadata: Mapping[str, Any] = {}
        self._fetched = self._tried = float("-inf")
        self._fetch()
        if self._keys is None:
            raise RidgelineError(
                f"the keys of `--oidc-issuer {url}` cannot be fetched: {self._failure}; is the address right?"
            )

    _failure = ""
    _fetching = False

    def identity(self, token: bytes) -> Identity:
        """Who a token is of. May take seconds where keys are fetched. Raises TokenRefusedError."""
        return self._checked(self.verified(token)[1])

    def verified(self, token: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Header and claims of a token whose signature is the issuer's. The claims are not checked.

        May take seconds where keys are fetched. Raises TokenRefusedError.
        """
        if len(token) > _LONGEST_TOKEN or token.count(b".") != 2:  # noqa: PLR2004  a JWS has three parts
            raise TokenRefusedError("it is no signed token")
        self._refresh()
        try:
            return self._verified(token)
        except _UnknownKeyError:
            self._refresh(at_once=True)  # the issuer may have new keys
            try:
                return self._verified(token)
            except _UnknownKeyError:
                raise TokenRefusedError("it is signed by a key that the issuer does not have") from None

    def _verified(self, token: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Header and claims of a token whose signature is the issuer's."""
        from joserfc.errors import InvalidKeyIdError, JoseError

        with self._lock:
            keys, age = self._keys, self._clock.monotonic() - self._fetched
        if age > STALE_SECONDS:
            raise TokenRefusedError(
                f"the issuer has not answered for {STALE_SECONDS / 3600:g} hours, so its keys count no more"
            )
        try:
            found = self._jwt.decode(token.decode("ascii"), keys, algorithms=list(ALGORITHMS))
        except InvalidKeyIdError:
            raise _UnknownKeyError from None
        except (JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
            kind = type(error).__name__.removesuffix("Error")
            raise TokenRefusedError(f"its signature or form is not right ({kind})") from None
        if not isinstance(found.claims, dict):
            raise TokenRefusedError("its claims are no object")
        return found.header, found.claims

    def _checked(self, claims: Mapping[str, Any]) -> Identity:
        """The identity of claims that count now. Raises TokenRefusedError."""
        now = self._clock.wall()
        until, begins, issued = (_number(claims, name) for name in ("exp", "nbf", "iat"))
        audience, subject = claims.get("aud"), claims.get("sub")
        faults = {
            "it is of another issuer": claims.get("iss") != self.url,
            "it is for another audience": self.audience
            not in (audience if isinstance(audience, list) else [audience]),
            "it has no end (`exp`)": until is None,
            "it has ended": until is not None and now > until + SKEW_SECONDS,
            "it does not count yet": any(
                one is not None and one > now + SKEW_SECONDS for one in (begins, issued)
            ),
            "it names nobody (`sub`)": not isinstance(subject, str) or not subject,
        }
        for fault, found in faults.items():
            if found:
                raise TokenRefusedError(fault)
        assert until is not None  # noqa: S101  a fault otherwise
        return Identity(str(subject), "oidc", str(subject), (), claims, until + SKEW_SECONDS)

    def _refresh(self, *, at_once: bool = False) -> None:
        """Fetch the keys again if they are old, or `at_once`; of several threads one does."""
        now = self._clock.monotonic()
        with self._lock:
            due = at_once or now - self._fetched > FRESH_SECONDS
            if not due or self._fetching or now - self._tried < AGAIN_SECONDS:
                return
            self._tried, self._fetching = now, True
        try:
            self._fetch()
        finally:
            self._fetching = False

    def _fetch(self) -> None:
        """Take the issuer's keys; those of before stay if it cannot be asked."""
        self._tried = self._clock.monotonic()
        try:
            keys = self._fetched_keys()
        except (OSError, HTTPException, ValueError, RidgelineError) as error:
            self._failure = str(getattr(error, "reason", error)) or type(error).__name__
            if self._keys is not None:
                self._say(
                    f"the keys of `{self.url}` cannot be fetched: {self._failure}; those of before count"
                )
            return
        with self._lock:
            self._keys, self._fetched = keys, self._clock.monotonic()

    def _fetched_keys(self) -> Any:
        """The public keys that the issuer has now. Raises OSError, ValueError, RidgelineError."""
        found = _json(f"{self.url.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self.url:
            raise ValueError(f"it calls itself `{str(found.get('issuer'))[:200]}`: give the same address")
        address = found.get("jwks_uri")
        if not isinstance(address, str):
            raise ValueError("it names no `jwks_uri`")  # noqa: TRY004  a wrong answer of the issuer
        check_address(address, "jwks_uri")
        given = _json(address).get("keys")
        own = [
            key
            for key in (given if isinstance(given, list) else [])
            if isinstance(key, dict) and key.get("kty") in _KINDS and key.get("use", "sig") == "sig"
        ]
        if not own:
            raise ValueError("it has no public key that signs")
        keys = self._jwk.KeySet.import_key_set({"keys": own})
        self.metadata = found
        return keys


class _UnknownKeyError(Exception):
    """The key that a token names is none of those that are kept."""


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    """A time of the claims. Raises TokenRefusedError if it is none."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e12:  # noqa: PLR2004
        raise TokenRefusedError(f"its `{name}` is no time")
    return float(value)


def check_address(url: str, option: str) -> None:
    """Raise RidgelineError for an address that others could answer at."""
    parts = urllib.parse.urlsplit(url)
    local = parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise RidgelineError(
            f"`{option} {url}` must begin with `https://`; without TLS anybody could send keys of their own"
        )


def _read(answer: HTTPResponse) -> bytes:
    """An answer, or more of it than it may have. Raises TimeoutError for one that comes byte by byte."""
    data, begun = b"", SystemClock().monotonic()
    while len(data) <= _LARGEST and (piece := answer.read1(65_536)):
        data += piece
        if SystemClock().monotonic() - begun > MOST_SECONDS:
            raise TimeoutError(f"its answer was not whole after {MOST_SECONDS:g} s")
    return data


def _json(url: str) -> dict[str, Any]:
    """The object that an address answers. Raises OSError, ValueError, HTTPException."""
    opener = urllib.request.build_opener(NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310  checked before
    with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
        data = _read(answer)
    try:
        found = json.loads(data) if len(data) <= _LARGEST else None
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"`{url}` answers no JSON object")  # noqa: TRY004  a wrong answer of the issuer
    return found
