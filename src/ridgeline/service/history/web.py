"""The web service of a history: the page of the application over runs that have ended, nothing to change."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import Scope

from ridgeline.service.access.roles import Role
from ridgeline.service.history.answering import answer, needs_running
from ridgeline.service.history.runs import Runs
from ridgeline.service.http.bodies import answer_error, http_error, reply, server_error
from ridgeline.service.http.endpoint import BASE, AnswerError, Endpoint
from ridgeline.service.http.endpoints import ENDPOINTS
from ridgeline.service.http.guard import Guard, caller_of
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import LIVE, STREAMED
from ridgeline.service.page.assets import SafeHeaders
from ridgeline.service.page.live import EVERY_MS
from ridgeline.service.page.routes import page_or, page_routes, shown_rights
from ridgeline.service.page.session import Sessions


def serve(runs: Runs, port: int = 0) -> WebServer:
    """The history at an address of this machine, until it is closed. Raises RidgelineError."""
    return WebServer(create_history(runs), port=port)


def create_history(runs: Runs) -> Starlette:
    """The web application of a history.

    Below `/run/ID/` are the page and the answers of an application. Changes and all
    else that needs a running one are answered with 409.
    """
    app = Starlette(
        routes=[
            Mount("/run/{run}", routes=_of_a_run(runs)),
            Route(
                "/", page_or(lambda _: reply({"name": "history", "links": {"runs": "/runs"}}), "history.html")
            ),
            Route("/runs", lambda _: reply({"runs": runs.rows()})),
            page_routes(),
            Route("/run/{run}", lambda request: RedirectResponse(f"{request.url.path}/")),
        ],
        middleware=[Middleware(SafeHeaders), Middleware(Guard)],
        exception_handlers={
            AnswerError: answer_error,
            HTTPException: partial(http_error, paths=[endpoint.path for endpoint in ENDPOINTS]),
            Exception: server_error,
        },
    )
    app.state.token = app.state.read_token = app.state.write_token = app.state.hosts = None
    app.state.sessions = Sessions()
    app.state.access = app.state.audit = None
    app.state.role_of = _role_of
    app.state.pages = runs
    return app


def _of_a_run(runs: Runs) -> list[Any]:
    """The routes below the address of a run."""

    async def live(request: Request) -> Response:
        run = await run_in_threadpool(runs.of, request.path_params["run"])
        every = LIVE.parse(request).get("every", EVERY_MS)
        return StreamingResponse(run.pages.events(every), 200, STREAMED, LIVE.media_type)

    def index(request: Request) -> Response:
        name = runs.of(request.path_params["run"]).plan.application
        return reply({"name": name, "readOnly": True})

    return [
        Route("/", page_or(index)),
        page_routes(_rights),
        Route(LIVE.path, live),
        Route(f"{BASE}/page", _refused, methods=["POST"]),
        *(_route(runs, endpoint) for endpoint in ENDPOINTS),
    ]


def _route(runs: Runs, endpoint: Endpoint) -> Route:
    """The route of an endpoint, which runs in a thread."""

    def get(request: Request) -> Response:
        run = runs.of(request.path_params["run"])
        return reply(answer(endpoint, run.watch, run.plan, endpoint.parse(request)))

    return Route(endpoint.path, _refused if endpoint.method != "GET" else get, methods=[endpoint.method])


async def _rights(request: Request) -> Response:
    """The rights of a browser about a run, of which nothing can be changed."""
    caller = caller_of(request.scope, request.app.state)
    return reply({**shown_rights(caller), "reads": True, "readOnly": True})


def _role_of(_scope: Scope) -> Role | None:
    """All that a log has is to read."""
    return Role.READ


def _refused(_request: Request) -> Response:
    raise needs_running()
