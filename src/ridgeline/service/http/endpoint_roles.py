"""The roles of endpoints: which a request needs, how long a stream lasts, and what is noted of a change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from ridgeline.api.support.masking import mask
from ridgeline.service.access.roles import Role
from ridgeline.service.http.bodies import AnswerError, reply
from ridgeline.service.http.endpoint import BASE, Call, Endpoint, Handler
from ridgeline.service.http.guard import CALLER

if TYPE_CHECKING:
    from ridgeline.service.access.audit import AuditLog

LOOK_SECONDS = 1.0
"""Seconds after which an open stream looks again whether its reader may still read."""
_CHANGES = ("id", "state", "what", "name", "path")


class EndpointRoles:
    """Finds the role of a request by the routes that answer it, so that no way to write a path differs."""

    def __init__(self, routes: Sequence[BaseRoute], endpoints: Sequence[Endpoint]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._roles = {(one.method, one.path): one.needs for one in endpoints}
        self._roles["GET", BASE] = Role.READ

    def of(self, scope: Scope) -> Role | None:
        """The role that is enough; None: the endpoint has none.

        Reading is enough for a path or a method that there is not, which is then answered so.
        """
        for route in self._routes:
            if route.matches(scope)[0] is Match.FULL:
                method = "GET" if scope["method"] == "HEAD" else scope["method"]
                return self._roles.get((method, route.path))
        return Role.READ


async def while_allowed(streaming: Coroutine[Any, Any, None], scope: Scope) -> None:
    """Answer a stream of events as long as its reader may read: a role may be taken away meanwhile."""
    access, caller = scope["app"].state.access, scope.get(CALLER)
    if caller is None or not caller.is_named:
        await streaming
        return
    task = asyncio.ensure_future(streaming)
    try:
        while not task.done() and access.role(caller.identity) is not None:
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
    finally:
        if not task.done():
            task.cancel()  # the connection ends without the end of the answer
            with contextlib.suppress(asyncio.CancelledError):
                await task
    if not task.cancelled():
        task.result()


def audited(
    audit: AuditLog, request: Mapping[str, str], endpoint: Endpoint, handler: Handler, call: Call
) -> Response:
    """Answer a change: it is noted before it is made, and what came of it afterwards.

    Raises AnswerError, (503) if it cannot be noted: then nothing is changed.
    """
    from ridgeline.service.access.audit import AuditError

    what = endpoint.noted(call) if endpoint.noted else _shown(call.values)
    line = {**request, "what": what}
    try:
        number = audit.asked(call.caller, line)
    except AuditError as error:
        raise AnswerError(
            503,
            f"the audit log cannot be written: {error}",
            "nothing is changed; make room for the log, or end the application on its own host",
        ) from None
    try:
        answer = handler(call)
    except AnswerError as error:
        audit.done(number, call.caller, line, error.status, reason=str(mask("error", error.error)))
        raise
    except BaseException as error:
        audit.done(number, call.caller, line, 500, reason=type(error).__name__)
        raise
    result = {name: answer[name] for name in _CHANGES if isinstance(answer, dict) and name in answer}
    result.pop("path", None)  # a code that opens the page
    audit.done(number, call.caller, line, 200, result=result)
    return reply(answer, headers={"x-request-id": number})


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a request with secrets masked."""
    return {name: mask(name, value) for name, value in values.items()}
