"""The web service of a driver that waits: probes of a cluster find it alive, and not ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.secrets.providers import provided_option
from ridgeline.observe.identity import own_host
from ridgeline.observe.watch import Watch
from ridgeline.service.options import ServiceOptions
from ridgeline.service.tls.serving import secured

if TYPE_CHECKING:
    from ridgeline.plan.execution import Plan
    from ridgeline.service.http.server import WebServer


def serve_waiting(plan: Plan, service: ServiceOptions, warn: Callable[[str], None]) -> WebServer:
    """The web service of an application that has not begun here, at a port that is given. `close` it.

    `/healthz` answers 200 and `/readyz` 503; who may read more is as in the run. Raises RidgelineError if the
    port is in use.
    """
    from ridgeline.service.http.server import WebServer
    from ridgeline.service.http.web import create_app

    name = plan.logical.application
    app = create_app(
        Watch(SystemClock().wall, own_host()),
        plan,
        token=provided_option(service.token, "--token"),
        read_token=provided_option(service.read_token, "--read-token"),
        access=service.access(name, warn),
    )
    return WebServer(app, service.host, service.port or 0, service.names, secured=secured(service, name))
