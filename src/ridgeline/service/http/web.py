"""STRAM's web service: REST under `/ws/v2/stram`, server-sent events, metrics for Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from ridgeline.observe import identity
from ridgeline.service.access.access import Access
from ridgeline.service.access.roles import ANYBODY, Caller, Role
from ridgeline.service.export.prometheus import MEDIA_TYPE, Readings, exposition
from ridgeline.service.http.answers import IndexAnswer, PagePathAnswer
from ridgeline.service.http.bodies import answer_error, http_error, read_body, reply, server_error
from ridgeline.service.http.endpoint import BASE, AnswerError, Call, Endpoint, Parameter, needs_running
from ridgeline.service.http.endpoint_roles import EndpointRoles, audited, while_allowed
from ridgeline.service.http.endpoints import ENDPOINTS
from ridgeline.service.http.guard import CALLER, Guard, noted
from ridgeline.service.page.assets import SafeHeaders
from ridgeline.service.page.live import EVERY_MS, LiveStream, most_clients
from ridgeline.service.page.routes import page_or, page_routes
from ridgeline.service.probes import PROBES

if TYPE_CHECKING:
    from ridgeline.engine.driver.operator_log import OperatorLog
    from ridgeline.observe.watch import Watch
    from ridgeline.plan.execution import Plan
    from ridgeline.service.access.audit import AuditLog

_LARGEST_BODY = 1_000_000
BODY_SECONDS = 30.0
"""How long the body of a request may take to come."""
STREAMED = {"cache-control": "no-store", "x-accel-buffering": "no"}
StackOf = Callable[[str, int], str | None]

_METRICS = Endpoint(
    "/metrics",
    None,
    "The metrics for Prometheus.",
    str,
    media_type="text/plain",
    tag="metrics",
)
LIVE = Endpoint(
    f"{BASE}/live",
    None,
    "Server-sent events for the page: `event: whole` with all that it shows, then `event: delta` with a JSON "
    "merge patch, the windows that were added, and those of which more is known now (`changed`); at last "
    "`event: end`.",
    dict[str, Any],
    query=(
        Parameter(
            "every", "integer", f"milliseconds between two events at least; default: {EVERY_MS}", 100, 60_000
        ),
    ),
    media_type="text/event-stream",
    tag="events",
)


def create_app(
    watch: Watch,
    plan: Plan,
    *,
    token: str | None = None,
    read_token: str | None = None,
    stack_of: StackOf | None = None,
    log: OperatorLog | None = None,
    access: Access | None = None,
    audit: AuditLog | None = None,
) -> Starlette:
    """The web service of one application.

    It answers GET and HEAD, and POST where something is asked for. Handlers run in threads, so that a client
    never holds up another, nor the application. Call `app.state.pages.close()` before ending
    the server: it ends all streams.

    Args:
        watch: The figures.
        plan: The plan that is to run; `app.state.plan` may be set to another one before the first window.
            Once `app.state.run` is set, the run says what its plan is.
        token: If given, requests need `Authorization: Bearer TOKEN`, but for `/healthz` and
            `/readyz`. `app.state.hosts` (a `Hosts`) may be set later, outside of which no request is
            answered. A server makes a token where none is given and one is needed.
        read_token: If given, requests that only read may have this one.
        stack_of: Where the thread of a process (host, pid) is now, or None if that cannot be had; may take a
            second.
        log: The last lines that operators have said.
        access: Who else may do what. Then reading needs a role too.
        audit: Has a line of each change before it is made, and of each denied try.
    """
    readings = Readings(watch)
    pages = LiveStream(watch, lambda: _plan(app.state))
    version = identity.version()
    index = Endpoint("/", lambda call: _index(call, version), "What there is.", IndexAnswer, tag="info")
    described = Endpoint(
        f"{BASE}/openapi.json", lambda _: document(), "This description.", dict[str, Any], tag="info"
    )
    access = access or Access()
    access.token, access.read_token = token, read_token
    opened = Endpoint(
        f"{BASE}/page",
        lambda call: {"path": f"/#code={access.sessions.code(call.caller.identity)}"},
        "An address of the page that may change something; it can be opened once, within an hour.",
        PagePathAnswer,
        method="POST",
        role=Role.OPERATE,
        tag="info",
    )
    answering = (index, opened, *ENDPOINTS, described, *PROBES)
    endpoints = (*answering, LIVE, _METRICS)

    @cache
    def document() -> dict[str, Any]:
        # Not at the start: modules, types and schemas take 4 MB and 0.2 s, and few ask for it.
        from ridgeline.service.http.openapi import describe

        return describe(endpoints, version)

    def metrics(request: Request) -> Response:
        _METRICS.parse(request)  # which refuses parameters
        return Response(exposition(readings), media_type=MEDIA_TYPE)

    def call_of(request: Request, values: Mapping[str, Any]) -> Call:
        state = request.app.state
        caller = request.scope.get(CALLER) or Caller(ANYBODY, None)
        return Call(watch, _plan(state), values, stack_of, state.run, state.origin, log, caller)

    first, *others = (answering_route(endpoint, call_of) for endpoint in answering)
    routes: list[BaseRoute] = [Route("/", page_or(first.endpoint)), *others]
    routes += [live_route(lambda _: pages), Route(_METRICS.path, metrics), page_routes()]
    app = guarded(
        routes,
        endpoints,
        EndpointRoles(routes, endpoints).of,
        plan=plan,
        pages=pages,
        access=access,
        audit=audit,
    )
    return app


def guarded(
    routes: Sequence[BaseRoute],
    endpoints: Sequence[Endpoint],
    role_of: Callable[[Scope], Role | None],
    **state: Any,
) -> Starlette:
    """A web application whose requests the guard lets through. `state`: what it has beside nothing."""
    app = Starlette(
        routes=routes,
        middleware=[Middleware(SafeHeaders), Middleware(Guard)],
        exception_handlers={
            AnswerError: answer_error,
            HTTPException: partial(http_error, paths=[endpoint.path for endpoint in endpoints]),
            Exception: server_error,
        },
    )
    app.state.plan = app.state.hosts = app.state.run = app.state.origin = app.state.audit = None
    for name, value in {"access": Access(), "role_of": role_of, **state}.items():
        setattr(app.state, name, value)
    return app


def live_route(pages_of: Callable[[Request], LiveStream]) -> Route:
    """The route of the events for a page. `pages_of` may block."""

    async def live(request: Request) -> Response:
        values = LIVE.parse(request)
        if request.method == "HEAD":
            return Response(headers=STREAMED, media_type=LIVE.media_type)
        pages = await run_in_threadpool(pages_of, request)
        return _EventStream(pages, pages.events(values.get("every", EVERY_MS)))

    return Route(LIVE.path, live)


class _EventStream(StreamingResponse):
    """The events for one client; 503 if there are as many clients as there may be."""

    def __init__(self, pages: LiveStream, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers=STREAMED, media_type=LIVE.media_type)
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a place before the first byte, so that a burst of clients cannot take more than there are."""
        with self._pages.place() as free:
            if free:
                await while_allowed(super().__call__(scope, receive, send), scope)
                return
        hint = "close some of them, or read `/metrics`"
        full = reply({"error": f"{most_clients()} clients read events already", "hint": hint}, 503)
        await full(scope, receive, send)


def _plan(state: Any) -> Plan:
    """The plan that runs, which may change while it does."""
    plan: Plan = state.plan if state.run is None else state.run.plan
    return plan


def answering_route(endpoint: Endpoint, call_of: Callable[[Request, Mapping[str, Any]], Call]) -> Route:
    """The route of an endpoint that answers JSON: its handler runs in a thread."""
    handler = endpoint.handler
    assert handler is not None  # noqa: S101  others have routes of their own

    def result(request: Request, body: Mapping[str, Any]) -> Response:
        call = call_of(request, {**endpoint.parse(request), **body})
        if call.is_logged and endpoint.needs_run:
            raise needs_running()
        audit = request.app.state.audit
        if endpoint.method == "GET" or audit is None or not endpoint.is_noted:
            return reply(handler(call))
        return audited(audit, noted(request.scope), endpoint, handler, call)

    def answer(request: Request) -> Response:
        return result(request, {})

    async def act(request: Request) -> Response:
        document = await read_body(request, _LARGEST_BODY, BODY_SECONDS)
        body = endpoint.parse_body(document, request.headers.get("content-type", ""))
        return await run_in_threadpool(result, request, body)

    if endpoint.method == "GET":
        return Route(endpoint.path, answer)
    return Route(endpoint.path, act, methods=[endpoint.method])


def _index(call: Call, version: str) -> IndexAnswer:
    links = {
        "info": f"{BASE}/info",
        "events": LIVE.path,
        "openapi": f"{BASE}/openapi.json",
        "metrics": _METRICS.path,
    }
    return {"name": call.plan.logical.application, "version": version, "links": links}
