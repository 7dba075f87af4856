"""The web service of an application of several regions, and its entry in the registry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ridgeline.api.support.secrets.providers import provided_option
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.observe.identity import run_info
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.region_run import RegionRun
from ridgeline.service.measured import announce
from ridgeline.service.options import ServiceOptions
from ridgeline.service.origin import Origin
from ridgeline.service.tls.serving import secured

if TYPE_CHECKING:
    from ridgeline.service.http.server import WebServer


class Serving:
    """The web service of a run, if it has one: `web`."""

    def __init__(
        self, run: JoinedRun, server: WebServer | None, surroundings: contextlib.ExitStack, console: Console
    ) -> None:
        self._run = run
        self.web = server
        self._surroundings = surroundings
        self._console = console

    def begin(self, own_token: str | None, started: float) -> None:
        """All regions have started: register the application for this user's other commands."""
        if self.web is None:
            return
        checkpoint = self._run.checkpoint
        number = f"{checkpoint.run_id}-{checkpoint.epoch}"
        info = run_info("", checkpoint.storage.uri, {})
        plan, console = self._run.plan, self._console
        announced = announce(self.web, own_token, plan, number, started, info, console)
        self._surroundings.enter_context(announced)


@contextlib.contextmanager
def serving(
    regions: Sequence[RegionRun],
    watch: JoinedWatch,
    run: JoinedRun,
    service: ServiceOptions,
    console: Console,
    origin: Origin | None = None,
    log: OperatorLog | None = None,
) -> Iterator[Serving]:
    """Serve the joined figures of regions until the end of the block. Raises RidgelineError."""
    with contextlib.ExitStack() as surroundings:
        server = None
        if service.port is not None:
            from ridgeline.service.http.server import WebServer
            from ridgeline.service.http.web import create_app

            joined: Any = watch
            token = provided_option(service.token, "--token")
            read_token = provided_option(service.read_token, "--read-token")
            name = run.plan.logical.application
            audit = service.audit(name, console.print)
            if audit is not None:
                surroundings.callback(audit.close)
            app = create_app(
                joined,
                run.plan,
                token=token,
                read_token=read_token,
                log=log,
                access=service.access(name, console.print),
                audit=audit,
            )
            app.state.run, app.state.regions = run, regions
            app.state.origin = origin
            tls = secured(service)
            server = WebServer(app, service.host, service.port, service.names, tls=tls)
            surroundings.callback(server.close)
        yield Serving(run, server, surroundings, console)
