"""Answers of the web service: values as JSON, and errors in one shape."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.api.errors import did_you_mean
from ridgeline.service.http.bodies import AnswerError, to_json


def reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The answer with a value as JSON, not to be cached."""
    return Response(
        to_json(value), status, {"cache-control": "no-store", **(headers or {})}, "application/json"
    )


def answer_error(_request: Request, error: Exception) -> Response:
    """The answer for an AnswerError."""
    if not isinstance(error, AnswerError):
        raise error
    return reply({"error": error.error, "hint": error.hint}, error.status, error.headers)


def http_error(request: Request, error: Exception, paths: list[str]) -> Response:
    """The answer for a path or a method that there is not; `paths`: those that there are."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 404:  # noqa: PLR2004  HTTP's number
        what, hint = f"there is no `{request.url.path[:200]}`", did_you_mean(request.url.path[:200], paths)
    elif error.status_code == 405:  # noqa: PLR2004  HTTP's number
        what, hint = f"`{request.method}` is not allowed here", "use GET; the description says where POST is"
    else:
        what, hint = error.detail, ""
    return reply({"error": what, "hint": hint}, error.status_code, error.headers)


def server_error(_request: Request, error: Exception) -> Response:
    """The answer where a handler has failed."""
    return reply(
        {
            "error": f"the service failed: {type(error).__name__}",
            "hint": "this is a fault of Ridgeline; please report it",
        },
        500,
    )
