"""Asks the web service of a running application."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.secrets.providers import provided_option
from ridgeline.cli.errors import CommandError
from ridgeline.service import BASE
from ridgeline.service.tls.calling import opener_of, tls_problem

TIMEOUT_SECONDS = 10.0
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _REFUSED = 401, 403, 404, (400, 409, 413)


class Client:
    """Questions to one application, at `url`. `ca`: as of `opener_of`.

    All methods block for at most ten seconds, `get` for `timeout`.

    They raise CommandError for what is not there or not allowed, RidgelineError if the service cannot be
    reached or fails.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        ca: str | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        try:
            valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise CommandError(f"`{url}` is no address of an application; give `http://host:port`")
        self.url = f"{parts.scheme}://{parts.netloc}"
        token = provided_option(token, "--token")
        self._headers = {
            "Accept": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        self._has_token = bool(token)
        self._timeout = timeout
        self._opener = opener_of(self.url, ca)

    def get(self, path: str, **query: str | int) -> Any:
        """GET `/ws/v2/stram` + `path`; the answer, decoded."""
        asked = f"{BASE}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        with self._answer(asked, self._timeout) as answer:
            return json.load(answer)

    def post(self, path: str, *, patience: float = TIMEOUT_SECONDS, **body: Any) -> Any:
        """POST this JSON to `/ws/v2/stram` + `path`; the answer, decoded. It may take `patience` seconds."""
        given = {name: value for name, value in body.items() if value is not None}
        with self._answer(f"{BASE}{path}", patience, json.dumps(given).encode()) as answer:
            return json.load(answer)

    @contextmanager
    def _answer(self, path: str, timeout: float, body: bytes | None = None) -> Iterator[Any]:
        """The answer to a request, to be read in the block. Raises RidgelineError for what goes wrong."""
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        # only http and https, see `__init__`
        request = urllib.request.Request(f"{self.url}{path}", body, headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                yield answer
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise self._failed(request.full_url, error) from error

    def _failed(self, address: str, error: Exception) -> RidgelineError:
        """The error to raise for what went wrong when `address` was asked."""
        if isinstance(error, urllib.error.HTTPError):
            with error:
                return self._refused(address, error)
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError):
            return RidgelineError(
                f"nothing answers at `{self.url}`; has the application ended? `ridgeline ps` shows "
                "those that run"
            )
        if problem := tls_problem(self.url, reason):
            return RidgelineError(problem)
        if isinstance(reason, TimeoutError):
            return RidgelineError(
                f"`{self.url}` did not answer in time; is its machine overloaded? try again"
            )
        return RidgelineError(
            f"`{self.url}` cannot be asked: {reason or type(error).__name__}; is it the address of a "
            "Ridgeline application?"
        )

    def _refused(self, address: str, error: urllib.error.HTTPError) -> RidgelineError:
        """The error to raise for an HTTP status that is no success, with the service's own words."""
        if error.code == _FORBIDDEN and (reason := _reason_in(error)):
            return CommandError(reason)
        if error.code in {_UNAUTHORIZED, _FORBIDDEN}:
            why = "does not accept this token" if self._has_token else "asks for a token"
            return CommandError(
                f"`{self.url}` {why}; give the one that was shown when the application was started: "
                "`--token TOKEN`"
            )
        reason = _reason_in(error)
        if error.code == _NOT_FOUND:
            return CommandError(
                reason
                or f"`{address}` does not exist; "
                "is it the address of a Ridgeline application of this version?"
            )
        if error.code in _REFUSED and reason:
            return CommandError(reason)
        because = f": {reason}" if reason else ""
        return RidgelineError(f"`{address}` failed with status {error.code}{because}")


def _reason_in(error: urllib.error.HTTPError) -> str:
    """The reason that the service gives for its refusal."""
    try:
        answer = json.loads(error.read())
        return "; ".join(str(answer[name]) for name in ("error", "hint") if answer.get(name))
    except (OSError, ValueError, AttributeError, RecursionError, HTTPException):
        return ""
