"""The web service of an application of several regions, and its entry in the registry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.observe.identity import run_info
from ridgeline.regions.joined_run import JoinedRun
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.region_run import RegionRun
from ridgeline.service.measured import folders_of
from ridgeline.service.options import ServiceOptions
from ridgeline.service.registry import own_entry, register

if TYPE_CHECKING:
    from ridgeline.service.http.server import WebServer


class Serving:
    """The web service of a run, if it has one. `url`: where it answers."""

    def __init__(
        self, run: JoinedRun, server: WebServer | None, surroundings: contextlib.ExitStack, console: Console
    ) -> None:
        self._run = run
        self._server = server
        self._surroundings = surroundings
        self._console = console

    @property
    def url(self) -> str | None:
        """Where it answers; None: there is none."""
        return None if self._server is None else self._server.url

    def begin(self, own_token: str | None, started: float) -> None:
        """All regions have started: register the application for this user's other commands."""
        if self._server is None:
            return
        if self._server.token is not None and own_token is None:
            text = f"the web service at {self._server.url} asks for the token {self._server.token}"
            self._console.print(Text(text))
        plan, checkpoint = self._run.plan, self._run.checkpoint
        info = run_info("", checkpoint.storage.uri, {})
        try:
            entry = own_entry(
                f"{checkpoint.run_id}-{checkpoint.epoch}",
                plan.logical.application,
                self._server.url,
                token=self._server.write_token,
                started=started,
                user=info["user"],
                checkpoint=checkpoint.storage.uri,
                folders=folders_of(plan),
            )
            self._surroundings.callback(register(entry).close)
        except RidgelineError as error:
            self._console.print(Text(printable(str(error)), "yellow"), soft_wrap=True)


@contextlib.contextmanager
def serving(
    regions: Sequence[RegionRun],
    watch: JoinedWatch,
    run: JoinedRun,
    service: ServiceOptions,
    console: Console,
) -> Iterator[Serving]:
    """Serve the joined figures of regions until the end of the block. Raises RidgelineError."""
    with contextlib.ExitStack() as surroundings:
        server = None
        if service.port is not None:
            from ridgeline.service.http.server import WebServer
            from ridgeline.service.http.web import create_app

            joined: Any = watch
            app = create_app(joined, run.plan, token=service.token, read_token=service.read_token)
            app.state.run, app.state.regions = run, regions
            server = WebServer(app, service.host, service.port, service.allow_host)
            surroundings.callback(server.close)
        yield Serving(run, server, surroundings, console)
