"""The web service of the list: the page with all applications, and what it asks for."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ridgeline.observe import identity
from ridgeline.service.http.bodies import AnswerError
from ridgeline.service.http.guard import Guard
from ridgeline.service.http.replies import answer_error, reply
from ridgeline.service.listing.asking import Asking
from ridgeline.service.page.assets import SafeHeaders
from ridgeline.service.page.routes import page_or, page_routes
from ridgeline.service.page.session import Sessions

PATH = "/ws/v2/apps"


def create_list(asking: Asking) -> Starlette:
    """The web service of the list; `WebServer` serves it.

    All but the files of the page needs the token or a session, on loopback, too. For the list can open pages
    with the right to change something. It also shows applications that are read with a token only.
    """

    def index(_request: Request) -> Response:
        return reply({"name": "applications", "version": identity.version(), "links": {"apps": PATH}})

    async def apps(_request: Request) -> Response:
        return reply(await asking.answer())

    async def page(request: Request) -> Response:
        try:
            return reply({"url": await asking.page(request.path_params["key"])})
        except KeyError:
            raise AnswerError(404, "there is no such application in the list", f"see `{PATH}`") from None

    app = Starlette(
        routes=[
            Route("/", page_or(index, "apps.html")),
            Route(PATH, apps),
            Route(f"{PATH}/{{key}}/page", page, methods=["POST"]),
            page_routes(),
        ],
        middleware=[Middleware(SafeHeaders), Middleware(Guard)],
        exception_handlers={AnswerError: answer_error, HTTPException: _no_such},
    )
    app.state.token = secrets.token_urlsafe(32)
    app.state.read_token = app.state.write_token = app.state.hosts = None
    app.state.sessions = Sessions()
    app.state.access = app.state.audit = None
    app.state.overviews = app.state.pages = asking  # what `WebServer` closes
    return app


def _no_such(request: Request, error: Any) -> Response:
    what = f"`{request.method} {request.url.path[:200]}`: {error.detail}"
    return reply({"error": what, "hint": f"the list is at `{PATH}`"}, error.status_code)
