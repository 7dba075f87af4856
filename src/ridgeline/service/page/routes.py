"""The paths of the page: its files, and the session of its browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from ridgeline.service.access.access import Access
from ridgeline.service.access.roles import ANYBODY, Caller, Role
from ridgeline.service.http.bodies import AnswerError, read_body, read_object, reply
from ridgeline.service.http.guard import noted
from ridgeline.service.page.assets import Assets, wants_page
from ridgeline.service.page.session import Session, cookie_name, same_origin

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


def page_routes(rights: Callable[[Request], Awaitable[Response]] | None = None) -> Mount:
    """Below `/page`: the files of the page, and its session. `rights`: says what its browser may."""
    assets = Assets()

    def file(request: Request) -> Response:
        return assets.answer(request, request.path_params["path"])

    return Mount(
        "/page",
        routes=[
            Route("/session", rights or _rights),
            Route("/session", begin_session, methods=["POST"]),
            Route("/{path:path}", file),
        ],
    )


async def _rights(request: Request) -> Response:
    """The rights of the browser: `reads`, `writes`, its `role`, and `name`, who it is."""
    return reply(shown_rights(request.app.state.access.caller(request.scope)))


def shown_rights(caller: Caller) -> dict[str, Any]:
    """The rights of a caller, as the page knows them."""
    return {
        "reads": caller.may(Role.READ),
        "writes": caller.may(Role.OPERATE),
        "role": None if caller.role is None else caller.role.word,
        "name": caller.identity.name if caller.is_named else "",
    }


async def begin_session(request: Request) -> Response:
    """A session for a code or a token. Raises AnswerError (400, 403)."""
    _check_origin(request)
    body = await read_body(request, _LARGEST, _BODY_SECONDS)
    document = read_object(body, request.headers.get("content-type", ""))
    state = request.app.state
    session, why = _session(state.access, document)
    if session is None:
        if state.audit is not None:
            unknown = Caller(ANYBODY, None)
            await state.audit.denied_beside(unknown, noted(request.scope), _FORBIDDEN, why)
        if "code" in document:
            what = "this address was used already, or is too old"
            raise AnswerError(_FORBIDDEN, what, "give the token; or open the newest address that was shown")
        raise AnswerError(_FORBIDDEN, why, "the driver printed it at start, or `ridgeline token add` did")
    caller = Caller(session.identity, state.access.role(session.identity))
    response = reply({"key": session.key, **shown_rights(caller)})
    response.set_cookie(
        cookie_name(request.scope),
        session.cookie,
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )
    return response


def _session(access: Access, document: dict[str, Any]) -> tuple[Session | None, str]:
    """The session that a code or a token opens; None with the reason if it is none."""
    code, token = document.get("code"), document.get("token")
    if isinstance(code, str):
        return access.sessions.exchange(code), "this code was used already, or is too old"
    found = access.of_token(token.strip().encode()) if isinstance(token, str) else None
    if found is None:
        return None, "this is not the token"
    if access.role(found) is None:
        return None, f"`{found.name}` has no role here, or none any more"
    return access.sessions.open(found), ""


def _is_secure(request: Request) -> bool:
    """True for a browser that speaks HTTPS, with this service or with a proxy before it."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


def _check_origin(request: Request) -> None:
    if not same_origin(request.scope):
        raise AnswerError(_FORBIDDEN, "a page of another site sent this request", "open the page itself")
