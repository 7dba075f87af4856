"""The paths of the page by which a person signs in at an issuer: `/page/login`, and the way back."""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ridgeline.service.access.login import BEGUN_SECONDS, Login, LoginRefusedError, cookie_of
from ridgeline.service.access.roles import ANYBODY, Caller, Identity
from ridgeline.service.http.callers import noted, role_of
from ridgeline.service.page.session import cookie_name

SIGNED_SECONDS = 60.0
"""How long the page may take to begin its session once the issuer has led back to it."""
_FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 403, 404, 405
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Not signed in</title>
<h1>Not signed in</h1><p>{why}.</p><p><a href="{again}">Try again</a></p></html>
"""


def login_routes() -> list[Route]:
    """Below `/page`."""
    return [Route("/login", _begin), Route("/login/callback", _finish)]


def login_of(state: Any) -> Login | None:
    """The sign-in by an issuer of a service; None if it has none."""
    found: Login | None = getattr(getattr(state, "access", None), "login", None)
    return found


def signed_cookie(request: Request) -> str:
    """The name of the cookie that has the code for the session of who has just signed in."""
    return f"{cookie_name(request.scope)}-signed"


def page_of(request: Request) -> str:
    """The page's address as a request names it: its host is one that the service answers to."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}/"


def cookie_options(login: Login, request: Request) -> dict[str, Any]:
    """Where and how cookies of a sign-in are sent."""
    secure = urlsplit(login.page or page_of(request)).scheme == "https"
    return {"path": f"{login.prefix}page/", "secure": secure, "httponly": True}


async def _begin(request: Request) -> Response:
    """Lead the browser to the issuer."""
    login = login_of(request.app.state)
    if login is None or request.method != "GET":
        return Response(status_code=_NOT_FOUND if login is None else _NOT_ALLOWED)
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return _failed("a page of another site has asked for this sign-in", "login")
    try:
        begun = await run_in_threadpool(login.begin, page_of(request))
    except LoginRefusedError as error:
        return _failed(str(error), "login")
    response = RedirectResponse(begun.address, 303, _HEADERS)
    options = cookie_options(login, request)
    # The issuer leads back from its own site, so the cookie is `Lax`: a strict one would not be sent.
    response.set_cookie(begun.name, begun.cookie, max_age=int(BEGUN_SECONDS), samesite="lax", **options)
    return response


async def _finish(request: Request) -> Response:
    """Take the issuer's answer, and lead on to the page, which begins its session."""
    state = request.app.state
    login = login_of(state)
    if login is None or request.method != "GET":
        return Response(status_code=_NOT_FOUND if login is None else _NOT_ALLOWED)
    options = cookie_options(login, request)
    try:
        identity = await _identity(request, login)
    except LoginRefusedError as error:
        if getattr(state, "audit", None) is not None:
            unknown = Caller(ANYBODY, None)
            await state.audit.denied_beside(unknown, noted(request.scope), _FORBIDDEN, str(error))
        return _failed(str(error), "../login")
    response = RedirectResponse("../../#signed-in", 303, _HEADERS)
    code = state.sessions.code(identity, SIGNED_SECONDS)
    response.set_cookie(
        signed_cookie(request), code, max_age=int(SIGNED_SECONDS), samesite="strict", **options
    )
    response.delete_cookie(cookie_of(request.query_params["state"]), samesite="lax", **options)
    return response


async def _identity(request: Request, login: Login) -> Identity:
    """Who has signed in, with a role here. Raises LoginRefusedError."""
    answer = dict(request.query_params)
    if len(answer) != len(request.query_params.multi_items()):
        raise LoginRefusedError("the answer of the issuer says something twice")
    identity = await run_in_threadpool(login.finish, answer, request.cookies)
    if role_of(identity, request.app.state) is None:
        raise LoginRefusedError(f"`{identity.name}` has no role here; ask who started the application")
    return identity


def _failed(why: str, again: str) -> Response:
    text = why[:1].upper() + why[1:]
    content = _PAGE.format(why=html.escape(text), again=again)
    return Response(content, _FORBIDDEN, _HEADERS, "text/html; charset=utf-8")


__all__ = ["cookie_options", "login_of", "login_routes", "page_of", "signed_cookie"]
