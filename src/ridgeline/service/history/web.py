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

from ridgeline.service.history.answering import ENDPOINTS, Asked, answer, needs_running
from ridgeline.service.history.comparing import compare
from ridgeline.service.history.runs import Runs
from ridgeline.service.http.endpoint import AnswerError, Endpoint
from ridgeline.service.http.endpoints import BASE
from ridgeline.service.http.guard import Guard
from ridgeline.service.http.replies import answer_error, http_error, reply, server_error
from ridgeline.service.http.server import WebServer
from ridgeline.service.page.assets import Assets, SafeHeaders
from ridgeline.service.page.live import EVERY_MS
from ridgeline.service.page.routes import page_or
from ridgeline.service.page.session import Sessions

_STREAMED = {"cache-control": "no-store", "x-accel-buffering": "no"}


def serve(runs: Runs, port: int = 0) -> WebServer:
    """The history at an address of this machine, until it is closed. Raises RidgelineError."""
    return WebServer(create_history(runs), port=port, read_only=True)


def create_history(runs: Runs) -> Starlette:
    """The web application of a history.

    Below `/run/ID/` are the page and the answers of an application. Changes and all
    else that needs a running one are answered with 409.
    """
    assets = Assets()
    app = Starlette(
        routes=[
            Mount("/run/{run}", routes=_of_a_run(runs)),
            Route(
                "/", page_or(lambda _: reply({"name": "history", "links": {"runs": "/runs"}}), "history.html")
            ),
            Route("/runs", lambda _: reply({"runs": runs.rows()})),
            Route("/page/session", _rights),
            Route("/page/{path:path}", lambda request: assets.answer(request, request.path_params["path"])),
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
    app.state.overviews = app.state.pages = runs
    return app


def _of_a_run(runs: Runs) -> list[Any]:
    """The routes below the address of a run."""
    assets = Assets()

    def page(request: Request) -> Response:
        return assets.answer(request, "index.html")

    def file(request: Request) -> Response:
        return assets.answer(request, request.path_params["path"])

    async def live(request: Request) -> Response:
        run = await run_in_threadpool(runs.of, request.path_params["run"])
        every = _every(request)
        return StreamingResponse(run.pages.events(every), 200, _STREAMED, "text/event-stream")

    def index(request: Request) -> Response:
        run = runs.of(request.path_params["run"])
        return reply({"name": run.plan.application, "readOnly": True})

    def compared(request: Request) -> Response:
        other = request.query_params.get("with")
        if not other:
            raise AnswerError(400, "`with` is missing", "give the id of another run, from `/runs`")
        first = runs.of(request.path_params["run"])
        return reply(compare(first.watch, runs.of(other).watch))

    return [
        Route("/", page),
        Route("/page/session", _rights),
        Route("/page/session", _refused, methods=["POST"]),
        Route("/page/{path:path}", file),
        Route("/index.json", index),
        Route(f"{BASE}/live", live),
        Route(f"{BASE}/compare", compared),
        Route(f"{BASE}/page", _refused, methods=["POST"]),
        *(_route(runs, endpoint) for endpoint in ENDPOINTS),
    ]


def _route(runs: Runs, endpoint: Endpoint) -> Route:
    """The route of an endpoint, which runs in a thread."""

    def get(request: Request) -> Response:
        run = runs.of(request.path_params["run"])
        return reply(answer(endpoint, Asked(run.watch, run.plan, endpoint.parse(request))))

    return Route(endpoint.path, _refused if endpoint.method != "GET" else get, methods=[endpoint.method])


def _every(request: Request) -> int:
    text = request.query_params.get("every", "")
    return min(60_000, max(100, int(text))) if text.isascii() and text.isdigit() else EVERY_MS


def _rights(_request: Request) -> Response:
    """The rights of a browser: to read."""
    return reply({"reads": True, "writes": False, "readOnly": True})


def _refused(_request: Request) -> Response:
    raise needs_running()
