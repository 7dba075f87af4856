"""Bodies: of requests, JSON objects with values that can be stored; of answers, strict JSON."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ridgeline.api.errors import did_you_mean, shorten

DEEPEST = 50
"""Levels to which values may be nested: they are read, masked and written by recursion."""


class AnswerError(Exception):
    """An error answer: an HTTP status, the fault, and a hint at the remedy."""

    def __init__(
        self, status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.hint = hint
        self.headers = dict(headers or {})


async def read_body(request: Request, largest: int, seconds: float) -> bytes:
    """The body of a request, of so many bytes at most. Raises AnswerError (408, 413)."""
    document = b""
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                document += chunk
                if len(document) > largest:
                    raise AnswerError(413, f"the body has more than {largest:,} bytes", "send less")
    except TimeoutError:
        what = f"the body was not there within {seconds:g} s"
        raise AnswerError(408, what, "send it at once", {"connection": "close"}) from None
    return document


def read_object(document: bytes, media_type: str) -> dict[str, Any]:
    """The JSON object that a body is. Raises AnswerError (400, 415).

    Pages of other sites cannot send JSON without being asked first, which this service refuses. Values are
    refused that JSON itself has not (NaN), that no file can hold (half a surrogate pair), or that are nested
    deeper than `DEEPEST`.
    """
    if media_type.partition(";")[0].strip().lower() != "application/json":
        raise AnswerError(415, "the body must be JSON", "send the header `Content-Type: application/json`")
    try:
        given = json.loads(document or b"{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise AnswerError(400, "the body is no JSON object", 'send `{"name": value}`')
    _check(given, 0)
    return given


def _check(value: object, depth: int) -> None:
    """Raise AnswerError (400) for a value that cannot be kept."""
    if depth > DEEPEST:
        raise AnswerError(400, f"the body is nested deeper than {DEEPEST} levels", "send flatter values")
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise AnswerError(400, "a text in the body has half a surrogate pair", "send whole characters")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise AnswerError(400, f"the body has {shorten(value)}, which is no JSON", "send finite numbers")
    elif isinstance(value, dict):
        for name, part in value.items():
            _check(name, depth)
            _check(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _check(part, depth + 1)


def to_json(value: object) -> bytes:
    """Compact JSON in UTF-8, on one line.

    What is no finite number becomes null: JSON has no NaN and no Infinity.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value


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
