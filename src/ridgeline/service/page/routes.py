"""The paths of the page: its files, and the session of its browser."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from ridgeline.service.http.bodies import AnswerError, read_object, to_json
from ridgeline.service.page.assets import Assets, wants_page
from ridgeline.service.page.session import Session, cookie_name, credentials, same_origin

_LARGEST = 10_000
_BODY_SECONDS = 10.0
_FORBIDDEN = 403


def page_or(index: Callable[[Request], Response], page: str = "index.html") -> Callable[[Request], Response]:
    """The handler of `/`: the page for a browser, the index for a program."""
    assets = Assets()

    def answer(request: Request) -> Response:
        if wants_page(request.headers.get("accept", "")):
            return assets.answer(request, page)
        response = index(request)
        response.headers["vary"] = "accept"
        return response

    return answer


def page_routes() -> Mount:
    """Below `/page`: the files of the page, and its session."""
    assets = Assets()

    def file(request: Request) -> Response:
        return assets.answer(request, request.path_params["path"])

    return Mount(
        "/page",
        routes=[
            Route("/session", _rights),
            Route("/session", _begin, methods=["POST"]),
            Route("/session/end", _end, methods=["POST"]),
            Route("/{path:path}", file),
        ],
    )


def _rights(request: Request) -> Response:
    """The rights of the browser: `reads`, `writes`."""
    state = request.app.state
    writes = state.sessions.writes(*credentials(request.scope))
    free = state.token is None and state.write_token is None
    known = getattr(request.state, "identity", None) is not None
    reads = known or writes is not None or (state.token is None and state.read_token is None)
    return _json({"reads": free or reads, "writes": free or bool(writes)})


async def _begin(request: Request) -> Response:
    """A session for a code or a token. Raises AnswerError (400, 403)."""
    _check_origin(request)
    document = await _body(request)
    session = _session(request.app.state, document)
    if session is None:
        if "code" in document:
            what = "this address was used already, or is too old"
            hint = "give the token; or open the newest address that was shown"
            raise AnswerError(_FORBIDDEN, what, hint)
        raise AnswerError(_FORBIDDEN, "this is not the token", "the driver printed it at start")
    response = _json({"key": session.key, "writes": session.writes})
    response.set_cookie(
        cookie_name(request.scope),
        session.cookie,
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )
    return response


def _session(state: Any, document: dict[str, Any]) -> Session | None:
    """The session that a code or a token opens; None if it is none."""
    code, token = document.get("code"), document.get("token")
    if isinstance(code, str):
        found: Session | None = state.sessions.exchange(code)
        return found
    if not isinstance(token, str):
        return None
    for known, writes in ((state.token or state.write_token, True), (state.read_token, False)):
        if known is not None and hmac.compare_digest(token.encode(), known.encode()):
            opened: Session = state.sessions.open(writes=writes)
            return opened
    return None


async def _end(request: Request) -> Response:
    """End the session of the browser."""
    _check_origin(request)
    request.app.state.sessions.close(*credentials(request.scope))
    response = _json({})
    response.delete_cookie(
        cookie_name(request.scope), httponly=True, samesite="strict", secure=_is_secure(request)
    )
    return response


def _is_secure(request: Request) -> bool:
    """True for a browser that speaks HTTPS, with this service or with a proxy before it."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


def _check_origin(request: Request) -> None:
    if not same_origin(request.scope):
        raise AnswerError(_FORBIDDEN, "a page of another site sent this request", "open the page itself")


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a small body. Raises AnswerError."""
    document = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                document += chunk
                if len(document) > _LARGEST:
                    raise AnswerError(413, "the body is too large", "send a code or a token")
    except TimeoutError:
        late = f"the body was not there within {_BODY_SECONDS:g} s"
        raise AnswerError(408, late, "send it at once", {"connection": "close"}) from None
    return read_object(document, request.headers.get("content-type", ""))


def _json(value: object) -> Response:
    return Response(to_json(value), headers={"cache-control": "no-store"}, media_type="application/json")
