"""Run an application with all that watches it: figures, heartbeats, web service, registry, event log."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.text import Text

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import FencedError, RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.api.support.secrets.providers import provided_option
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.driver.run.launch import Claim, launch
from ridgeline.engine.driver.run.options import Options, Outcome
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.spark.submitted import spark_id
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    RunEvent,
    WindowCommitted,
)
from ridgeline.measure.notices import TOLD, notices_of
from ridgeline.observe.event_lines import EventLines
from ridgeline.observe.identity import RunInfo, own_host, run_info
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Subscriber, Watch
from ridgeline.operators.sql_query import SqlQuery
from ridgeline.plan.execution import Plan
from ridgeline.regions.joined_run import AnyRun
from ridgeline.service.event_log import EventLogWriter
from ridgeline.service.export.traces import exporting_traces, traces_of
from ridgeline.service.options import ServiceOptions
from ridgeline.service.origin import Origin, driver_lines
from ridgeline.service.promise_thread import PolicyThread, PromiseThread
from ridgeline.service.registry import own_entry, register, remove_own
from ridgeline.service.store.presence import Presence, ended_by
from ridgeline.service.tls.serving import secured
from ridgeline.settings.environment import unread_variables

if TYPE_CHECKING:
    from ridgeline.service.http.server import WebServer

_log = logging.getLogger(__name__)
Started = Callable[[AnyRun, Watch, "WebServer | None"], None]


class Host(contextlib.ExitStack):
    """What an application has around it in its driver, of one region or of several, for `with`.

    It keeps the lines of the driver and the name in a store from the start, the web service from `serve` on.
    What others put on it is closed in the reverse order.

    Args:
        service: The options that say what there is.
        plan: The plan that is to run; of a region, the driver's lines are kept for all together.
        master: Where Spark runs.
        console: Where warnings and what a user needs to know are printed.
        clock: Where the time comes from.
        stop: Set where another driver takes the name.
        log: Takes the lines of the driver.
    """

    def __init__(
        self,
        service: ServiceOptions,
        plan: Plan,
        master: str,
        console: Console,
        clock: Clock,
        stop: threading.Event,
        log: OperatorLog,
    ) -> None:
        super().__init__()
        self.server: WebServer | None = None
        self._service, self._name, self._region = service, plan.logical.application, plan.logical.region
        self._console, self._clock, self._log, self._stop = console, clock, log, stop
        name = service.store_name or self._name
        self.presence: Presence | None = None
        if (store := service.store) is not None:
            self.presence = Presence(store, name, self._name, master, self.warn, clock)

    def __enter__(self) -> Self:
        super().__enter__()
        if self.presence is not None:
            self.enter_context(self.presence)
            self.presence.on_lost = self._stop.set
        if not self._region:
            self.enter_context(driver_lines(self._log, self._name))
        return self

    def serve(
        self,
        watch: Watch,
        plan: Plan,
        origin: Origin | None,
        stack_of: Callable[[str, int], str | None] | None = None,
    ) -> WebServer | None:
        """Begin what options ask for: the web service, and the file of metrics. Raises RidgelineError."""
        service, name = self._service, self._name
        if service.metrics_file is not None:
            from ridgeline.service.export.prometheus import MetricsFile

            self.callback(MetricsFile(service.metrics_file).write, watch, self.warn)
        if service.port is None:
            return None
        from ridgeline.service.http.server import WebServer  # who wants no web service need not wait for it
        from ridgeline.service.http.web import create_app

        audit = service.audit(name, self.warn)
        if audit is not None:
            self.callback(audit.close)
        app = create_app(
            watch,
            plan,
            token=provided_option(service.token, "--token"),
            read_token=provided_option(service.read_token, "--read-token"),
            access=service.access(name, self.warn),
            audit=audit,
            stack_of=stack_of,
            log=self._log,
        )
        app.state.origin = origin
        self.server = WebServer(app, service.host, service.port, service.allow_host, tls=secured(service))
        self.callback(self.server.close)
        return self.server

    def announce(self, number: str, started: float, info: Mapping[str, Any] | RunInfo) -> None:
        """Let this user's other commands, and other drivers, find the application, if that can be.

        A token that was made is shown. `number`: the application's id. `info`: as of `run_info`.
        """
        server = self.server
        if self.presence is not None:
            self.presence.running(number, server, spark_id())
        if server is None:
            return
        if server.token is not None and self._service.token is None:
            self._console.print(Text(f"the web service at {server.url} asks for the token {server.token}"))
            once = f"this opens its page without it, once: {server.page()}"
            self._console.print(Text(once), soft_wrap=True)
        try:
            entry = own_entry(
                number,
                self._name,
                server.url,
                token=server.write_token,
                started=started,
                user=info["user"],
                checkpoint=info["checkpoint"],
                certificate="" if server.tls is None else server.tls.fingerprint,
            )
            self.callback(remove_own, register(entry))
        except RidgelineError as error:
            self.warn(str(error))
            return
        if server.tls is not None:
            server.tls.on_renewed = lambda fingerprint: register(replace(entry, certificate=fingerprint))

    def check_name(self) -> None:
        """Raise FencedError if another driver has taken the name."""
        if self.presence is not None and self.presence.lost:
            raise FencedError(self.presence.lost)

    def ended(self, outcome: Outcome, *, asked: bool = False) -> None:
        """Say how it has ended. `asked`: by a user; a signal ends this driver alone."""
        if self.presence is not None:
            final = asked or outcome.ended or not self._stop.is_set()
            self.presence.end(ended_by(outcome), failed=False, final=final)

    def warn(self, text: str) -> None:
        """Print what the application does without."""
        self._console.print(Text(printable(text), "yellow"), soft_wrap=True)


def run_measured(  # noqa: PLR0913  what surrounds a run
    plan: Plan,
    options: Options,
    service: ServiceOptions | None = None,
    *,
    observe: Subscriber | None = None,
    stop: threading.Event | None = None,
    console: Console | None = None,
    clock: Clock | None = None,
    context: Any = None,
    started: Started | None = None,
    planner: Planner | None = None,
    origin: Origin | None = None,
) -> Outcome:
    """Run a plan as `ridgeline.engine.driver.run.launch.launch`, watched; blocks until it has ended.

    `started(run, watch, server)` is called before the first window (`server` None: no web service),
    `observe` with every event once it is folded. Observers cannot make the run fail once Spark is started:
    what breaks then is reported on the console and left out.

    Raises:
        RidgelineError: As `launch`. Before Spark is started: the event log cannot be written, a port is in
            use, or OpenTelemetry is missing to send traces.
    """
    console = console or Console()
    say_unread(console)
    clock, service = clock or SystemClock(), service or ServiceOptions()
    watch = Watch(clock.wall, own_host())
    run = MeasuredRun(plan, options, service, console, clock, planner, watch, origin=origin)
    if observe is not None:
        watch.subscribe(observe)
    return run.launch(stop, context, started)


def say_unread(console: Console) -> None:
    """Name the environment variables of Ridgeline that nothing reads."""
    for warning in unread_variables(os.environ):
        console.print(Text(printable(warning), "yellow"), soft_wrap=True)


@dataclass(eq=False)
class MeasuredRun:
    """One run and its surroundings. `watch`: has its figures. `share`: as of `launch`.

    `page`: the address of the page that shows it, where it has no web service of its own. `log`: takes what
    its operators say.
    """

    plan: Plan
    options: Options
    service: ServiceOptions
    console: Console
    clock: Clock
    planner: Planner | None
    watch: Watch
    share: int = 0
    origin: Origin | None = None
    page: str = ""
    log: OperatorLog = field(default_factory=OperatorLog)
    _planned: bool = False
    _promises: PromiseThread | None = None
    _broken: bool = False

    def __post_init__(self) -> None:
        lines = EventLines(traced=traces_of(self.service) is not None)
        self._end_lines = self.watch.subscribe(lines.apply, lines.kinds)
        self._master = self.options.where

    def launch(self, stop: threading.Event | None, context: Any, started: Started | None) -> Outcome:
        """Start what watches the run, run it, and close all of it in the reverse order."""
        stop = stop or threading.Event()
        self._master = self._master if context is None else str(context.master)
        host = Host(self.service, self.plan, self._master, self.console, self.clock, stop, self.log)
        with host:  # closed in the reverse order, once the end is reported
            host.callback(self._end_lines)  # the watch of a region outlives this run
            if self.service.event_log is not None:
                log = EventLogWriter(self.service.event_log, self._warn, self.service.rotation)
                host.callback(log.close)
                host.callback(self.watch.subscribe(log.write))
            heartbeats = Heartbeats(self._observe_heartbeat, self.clock, log=self.log)
            host.callback(self.watch.subscribe(heartbeats.follow, (WindowCommitted,)))
            region = self.plan.logical.region
            host.enter_context(exporting_traces(self.watch, self.service, self._warn, region))
            server = host.serve(self.watch, self.plan, self.origin, heartbeats.stack_of)
            begun: list[ApplicationRun] = []

            def before_first_window(run: ApplicationRun) -> None:
                begun.append(run)
                self._begin(run, host)
                if started is not None:
                    started(run, self.watch, server)

            with self._until_the_end() as end:
                outcome = launch(
                    self.plan,
                    self.options,
                    observe=self._observe,
                    stop=stop,
                    console=self.console,
                    clock=self.clock,
                    context=context,
                    started=before_first_window,
                    heartbeats=heartbeats,
                    settle=self.watch.settle,
                    planner=self.planner,
                    share=self.share,
                    page=self.page if server is None else server.url,
                    claim=host.presence or Claim(),
                )
                host.check_name()
                end.append("finished" if outcome.ended else "stopped")
            host.ended(outcome, asked=any(run.stopping for run in begun))
            return outcome

    def _begin(self, run: ApplicationRun, host: Host) -> None:
        """Report the plan; register the application for this user's other commands."""
        self.plan, uri = run.plan, run.checkpoint.storage.uri
        at, number = self.clock.wall(), f"{run.checkpoint.run_id}-{run.checkpoint.epoch}"
        if host.server is not None:
            host.server.app.state.plan, host.server.app.state.run = self.plan, run

        def planned(plan: Plan) -> ApplicationPlanned:
            """The plan that the run begins with, or that it has now."""
            self.plan = plan
            shown = {} if self.planner is None else self.planner.shown
            info = run_info(self._master, uri, shown)
            logged = self._logged(plan)
            return planned_event(plan, at=self.clock.wall(), application_id=number, info=info, logical=logged)

        run.on_plan(planned)
        event = planned(self.plan)
        self._observe(event)
        self.watch.settle()  # what is made of the plan is there before `short_pauses`
        self._planned = True
        logical = self.plan.logical
        self._promises = PromiseThread(logical.promises, self.watch, self._observe, self.clock)
        host.callback(PolicyThread(run, self.watch, self._observe).close)
        if any(isinstance(one.operator, SqlQuery) for one in run.plan.logical.operators):
            from ridgeline.service.queries import queries_of

            queries_of(run)  # those of a run before: they are removed if nobody reads them
        host.announce(number, at, event.info)

    def _logged(self, plan: Plan) -> Mapping[str, object]:
        """The logical plan for an event log, which alone needs it."""
        if self.service.event_log is None:
            return {}
        from ridgeline.service.http.apex import logical_plan

        return logical_plan(plan.logical)

    @contextlib.contextmanager
    def _until_the_end(self) -> Iterator[list[str]]:
        """Report how the run ended: as the yielded list says, or by an error."""
        ended: list[str] = []
        reason = ""
        try:
            yield ended
        except BaseException as error:
            reason = str(error) or type(error).__name__
            raise
        finally:
            if self._promises is not None:
                self._promises.close()
            if self._planned:
                self._observe(ApplicationEnded(self.clock.wall(), ended[0] if ended else "failed", reason))

    def _observe_heartbeat(self, event: RunEvent) -> None:
        """Pass on a heartbeat, or what was refused; before the plan is reported it would refer to nothing."""
        if self._planned:
            self._observe(event)

    def _observe(self, event: RunEvent) -> None:
        """Pass an event to the watch. A failure of it is reported once and never ends the run."""
        for notice in notices_of(event) if type(event) in TOLD else ():
            if notice.told:
                self._warn(notice.text)
        try:
            self.watch.observe(event)
        except Exception as error:  # noqa: BLE001  figures must never be the end of a run
            if not self._broken:
                self._broken = True
                _log.exception("figures are not reliable any more")
                self._warn(
                    f"figures are not reliable any more: {type(error).__name__}: {error}; please report "
                    "this fault of Ridgeline"
                )

    def _warn(self, text: str) -> None:
        self.console.print(Text(printable(text), "yellow"), soft_wrap=True)
