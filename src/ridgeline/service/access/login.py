"""Sign-in from the page by an OpenID Connect issuer: the authorization code flow with PKCE.

A sign-in that has begun is in a cookie, encrypted by a key of this process. So a flood of them costs no
memory, and an answer counts only in the browser that has asked, once. No token of the issuer is kept: the
claims of the ID token are, for as long as the session lasts.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import urllib.parse
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.service.access.oidc import MOST_SECONDS, SKEW_SECONDS, Issuer, TokenRefusedError, check_address
from ridgeline.service.access.roles import Identity

if TYPE_CHECKING:
    from requests import Response

BEGUN_SECONDS = 600.0
"""How long a person may take at the issuer."""
CALLBACK = "page/login/callback"
_TIMEOUT_SECONDS = 10.0
_AT_ONCE = 8
"""Codes that are exchanged at a time: an issuer that is slow must not take all threads."""
_LONGEST = 4096
_LARGEST = 100_000
"""The bytes that an answer to a code may have: three tokens."""
_SCOPES = ("profile", "email", "groups")
"""Scopes whose claims may give a role; the third only where the issuer says that it has it."""
_SEAL = {"alg": "dir", "enc": "A256GCM"}
_ERROR = re.compile(r"[a-z_]{1,60}")


class LoginRefusedError(Exception):
    """A sign-in that proves nothing; its text says why, without secrets."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun. `address`: of the issuer; `cookie`: for the browser, under that `name`."""

    address: str
    name: str
    cookie: str


class Login:
    """Signs in persons by an issuer. Thread-safe; methods block while the issuer is asked.

    Args:
        issuer: Whose ID tokens count. Its keys and addresses are kept there.
        client_id: The name that the issuer knows this service by.
        secret: What it proves that name with; None for a public client.
        page: The page's address as browsers see it, with a slash at its end; "": as each request says.
        longest: Seconds that a sign-in lasts at most.
        clock: For tests.

    Raises:
        RidgelineError: If authlib is missing, or `page` is no address.
    """

    def __init__(
        self,
        issuer: Issuer,
        client_id: str,
        secret: str | None = None,
        page: str = "",
        longest: float = 43_200.0,
        clock: Clock | None = None,
    ) -> None:
        try:
            from authlib.integrations.requests_client import OAuth2Session
            from authlib.oidc.core import CodeIDToken
        except ImportError as error:
            raise RidgelineError(
                "`--oidc-client-id` needs authlib and requests; install the extra `ridgeline[oidc]`"
            ) from error
        from joserfc import jwk

        self._session, self._id_token = OAuth2Session, CodeIDToken
        if page:
            check_address(page, "--public-url")
        self.page = page
        self._issuer, self._client_id, self._secret = issuer, client_id, secret
        self._longest = longest
        self._clock = clock or SystemClock()
        self._key = jwk.OctKey.generate_key(256)
        self._lock = threading.Lock()
        self._used: OrderedDict[str, float] = OrderedDict()
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    @property
    def issuer(self) -> str:
        """The host of the issuer, as people know it."""
        return urllib.parse.urlsplit(self._issuer.url).netloc

    @property
    def prefix(self) -> str:
        """The path of the page as browsers see it, with a slash at both ends."""
        return urllib.parse.urlsplit(self.page).path.rstrip("/") + "/"

    def begin(self, page: str) -> Begun:
        """Begin a sign-in. `page`: the page's address by the request, if none was given.

        Raises LoginRefusedError.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        redirect = f"{self.page or page}{CALLBACK}"
        with self._client(redirect) as client:
            address, _ = client.create_authorization_url(
                self._endpoint("authorization_endpoint"), state=state, code_verifier=verifier, nonce=nonce
            )
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "redirect": redirect}
        return Begun(
            address, cookie_of(state), self._sealed({**kept, "until": self._clock.wall() + BEGUN_SECONDS})
        )

    def finish(self, answer: Mapping[str, str], cookies: Mapping[str, str]) -> Identity:
        """The identity that an answer of the issuer proves in this browser. Raises LoginRefusedError."""
        state = answer.get("state", "")
        begun = self._opened(cookies.get(cookie_of(state), ""))
        if not state or begun is None or not secrets.compare_digest(begun["state"].encode(), state.encode()):
            raise LoginRefusedError("this browser has not begun this sign-in, or too long ago")
        if answer.get("iss", self._issuer.url) != self._issuer.url:
            raise LoginRefusedError("the answer is of another issuer")
        if "error" in answer:
            error = answer["error"]
            raise LoginRefusedError(
                f"the issuer refuses: {error if _ERROR.fullmatch(error) else 'it does not say why'}"
            )
        code = answer.get("code", "")
        if not 0 < len(code) <= _LONGEST:
            raise LoginRefusedError("the answer of the issuer has no code")
        if self._is_used(state):
            raise LoginRefusedError("this sign-in was finished already")
        if not self._places.acquire(blocking=False):
            raise LoginRefusedError("too many sign in at this moment; try again")
        try:
            identity = self._exchanged(code, begun)
            self._use(state)
            return identity
        finally:
            self._places.release()

    def end_address(self, page: str) -> str:
        """Where the issuer ends its own session with the browser; "" if it has no such place."""
        try:
            address = self._endpoint("end_session_endpoint")
        except LoginRefusedError:
            return ""
        mark = "&" if "?" in address else "?"
        query = {"client_id": self._client_id, "post_logout_redirect_uri": self.page or page}
        return f"{address}{mark}{urllib.parse.urlencode(query)}"

    def _exchanged(self, code: str, begun: Mapping[str, Any]) -> Identity:
        """The identity of the ID token that the issuer gives for a code. Raises LoginRefusedError."""
        from authlib.common.errors import AuthlibBaseError
        from requests.exceptions import RequestException

        try:
            with self._client(begun["redirect"]) as client:
                found = client.fetch_token(
                    self._endpoint("token_endpoint"),
                    code=code,
                    code_verifier=begun["verifier"],
                    timeout=_TIMEOUT_SECONDS,
                    allow_redirects=False,
                )
        except RequestException as error:
            raise LoginRefusedError(
                f"the issuer does not answer ({type(error).__name__}); try again"
            ) from None
        except AuthlibBaseError as error:
            said = error.error if _ERROR.fullmatch(str(error.error)) else "it does not say why"
            raise LoginRefusedError(f"the issuer refuses the code: {said}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LoginRefusedError("the issuer's answer to the code is none") from None
        token = found.get("id_token")
        if not isinstance(token, str):
            raise LoginRefusedError("the issuer gave no ID token")
        return self._identity(token, begun["nonce"], found.get("access_token"))

    def _identity(self, token: str, nonce: str, access_token: object) -> Identity:
        """The identity that an ID token proves. Raises LoginRefusedError."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError

        now = self._clock.wall()
        try:
            header, claims = self._issuer.verified(token.encode())
            params = {"nonce": nonce, "client_id": self._client_id}
            if isinstance(access_token, str):
                params["access_token"] = access_token
            options = {
                "iss": {"essential": True, "value": self._issuer.url},
                "aud": {"essential": True, "value": self._client_id},
                "sub": {"essential": True},
                "nonce": {"essential": True, "value": nonce},
            }
            checked = self._id_token(dict(claims), dict(header), options, params)
            checked.validate(now=int(now), leeway=int(SKEW_SECONDS))
        except TokenRefusedError as error:
            raise LoginRefusedError(f"the ID token is refused: {error}") from None
        except (AuthlibBaseError, JoseError) as error:
            said = printable(str(getattr(error, "description", "") or error))[:200]
            raise LoginRefusedError(f"the ID token is refused: {said or type(error).__name__}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise LoginRefusedError("the ID token is refused: its claims are of wrong kinds") from None
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise LoginRefusedError("the ID token names nobody (`sub`)")
        mail = claims.get("email")
        name = mail if isinstance(mail, str) and claims.get("email_verified") is True else subject
        return Identity(printable(name)[:200], "oidc", subject, (), claims, now + self._longest)

    def _client(self, redirect: str) -> Any:
        """A client of the issuer, for one request."""
        methods = self._issuer.metadata.get("token_endpoint_auth_methods_supported") or ()
        scopes = self._issuer.metadata.get("scopes_supported") or _SCOPES[:2]
        posts = "client_secret_post" in methods and "client_secret_basic" not in methods
        how = ("client_secret_post" if posts else "client_secret_basic") if self._secret else "none"
        client = self._session(
            self._client_id,
            self._secret,
            token_endpoint_auth_method=how,
            scope=" ".join(["openid", *(one for one in _SCOPES if one in scopes)]),
            redirect_uri=redirect,
            code_challenge_method="S256",
        )
        client.hooks["response"].append(_read)
        client.verify = os.environ.get("SSL_CERT_FILE") or client.verify  # as for the issuer's keys
        return client

    def _endpoint(self, name: str) -> str:
        """An address of the issuer. Raises LoginRefusedError."""
        address = self._issuer.metadata.get(name)
        try:
            if isinstance(address, str):
                check_address(address, name)
                return address
        except RidgelineError as error:
            raise LoginRefusedError(str(error)) from None
        raise LoginRefusedError(f"the issuer names no `{name}`")

    def _is_used(self, state: str) -> bool:
        """Whether a sign-in is over already; those that are too old to count are forgotten."""
        with self._lock:
            while self._used and next(iter(self._used.values())) < self._clock.monotonic() - BEGUN_SECONDS:
                self._used.popitem(last=False)
            return state in self._used

    def _use(self, state: str) -> None:
        """Note that a person has signed in; not what proves nothing, of which there may be a flood."""
        with self._lock:
            self._used[state] = self._clock.monotonic()

    def _sealed(self, values: Mapping[str, Any]) -> str:
        from joserfc import jwe

        return jwe.encrypt_compact(_SEAL, json.dumps(values).encode(), self._key)

    def _opened(self, cookie: str) -> Mapping[str, Any] | None:
        """The values of a cookie of this process that is not too old; None otherwise."""
        from joserfc import jwe
        from joserfc.errors import JoseError

        if not 0 < len(cookie) <= _LONGEST:
            return None
        try:
            opened = jwe.decrypt_compact(cookie, self._key, algorithms=list(_SEAL.values()))
            found = json.loads(opened.plaintext or b"")
        except (JoseError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return found if isinstance(found, dict) and self._clock.wall() <= found["until"] else None


def _read(answer: Response, **_: Any) -> None:
    """Read the answer to a code, within size and time: requests bounds neither.

    Raises ValueError, and RequestException if it comes too slowly.
    """
    from requests.exceptions import Timeout

    data, begun = bytearray(), SystemClock().monotonic()
    for piece in answer.iter_content(1):  # more at a time would be waited for
        data += piece
        if len(data) > _LARGEST:
            raise ValueError("it is too large")
        if SystemClock().monotonic() - begun > MOST_SECONDS:
            raise Timeout
    answer._content = bytes(data)  # noqa: SLF001  as its `content` does


def cookie_of(state: str) -> str:
    """The name of the cookie of a sign-in: several tabs have one each. Empty for what is no state."""
    return f"ridgeline-login-{state[:12]}" if re.fullmatch(r"[\w-]{40,100}", state) else ""


__all__ = ["BEGUN_SECONDS", "CALLBACK", "Begun", "Login", "LoginRefusedError", "cookie_of"]
