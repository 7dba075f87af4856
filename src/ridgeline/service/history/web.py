"""The web service of a history: the page of the application over runs that have ended, nothing to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from ridgeline.service.access.roles import Role
from ridgeline.service.history.runs import Runs
from ridgeline.service.http.bodies import reply
from ridgeline.service.http.endpoint import BASE, Call, needs_running
from ridgeline.service.http.endpoints import ENDPOINTS
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import answering_route, guarded, live_route
from ridgeline.service.page.routes import page_or, page_routes, shown_rights


def serve(runs: Runs, port: int = 0) -> WebServer:
    """The history at an address of this machine, until it is closed. Raises RidgelineError."""
    return WebServer(create_history(runs), port=port)


def create_history(runs: Runs) -> Starlette:
    """The web application of a history.

    Below `/run/ID/` are the page and the answers of an application. Changes and all
    else that needs a running one are answered with 409. Who reaches it may read all that a log has.
    """
    routes = [
        Mount("/run/{run}", routes=_of_a_run(runs)),
        Route("/", page_or(lambda _: reply({"name": "history", "links": {"runs": "/runs"}}), "history.html")),
        Route("/runs", lambda _: reply({"runs": runs.rows()})),
        page_routes(),
        Route("/run/{run}", lambda request: RedirectResponse(f"{request.url.path}/")),
    ]
    return guarded(routes, ENDPOINTS, lambda _: Role.READ, pages=runs)


def _of_a_run(runs: Runs) -> list[BaseRoute]:
    """The routes below the address of a run."""

    def call_of(request: Request, values: Mapping[str, Any]) -> Call:
        run = runs.of(request.path_params["run"])
        return Call(run.watch, run.plan, values)

    def index(request: Request) -> Response:
        name = runs.of(request.path_params["run"]).plan.application
        return reply({"name": name, "readOnly": True})

    posts = [f"{BASE}/page", *(one.path for one in ENDPOINTS if one.method != "GET")]
    return [
        Route("/", page_or(index)),
        page_routes(_rights),
        live_route(lambda request: runs.of(request.path_params["run"]).pages),
        *(Route(path, _refused, methods=["POST"]) for path in posts),
        *(answering_route(one, call_of) for one in ENDPOINTS if one.method == "GET"),
    ]


async def _rights(request: Request) -> Response:
    """The rights of a browser about a run, of which nothing can be changed."""
    caller = request.app.state.access.caller(request.scope)
    return reply({**shown_rights(caller), "reads": True, "readOnly": True})


def _refused(_request: Request) -> Response:
    raise needs_running()
