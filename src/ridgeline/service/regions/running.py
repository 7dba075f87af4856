"""Run all regions of an application in one driver, each in a thread of its own, with one web service."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.text import Text

from ridgeline.api.application import Application
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import FencedError, RidgelineError
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import printable
from ridgeline.engine.driver.checkpoint.folder import remove_temporary, temporary_checkpoint
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.driver.run.launch import Claim, claim_by, hadoop_storage, slot_shares, start_spark
from ridgeline.engine.driver.run.options import Options, Outcome
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import DriverStorage, LocalStorage
from ridgeline.engine.spark.cores import hold_cores
from ridgeline.engine.spark.shared_context import give_back
from ridgeline.engine.spark.submitted import spark_id
from ridgeline.observe.answers import Answers
from ridgeline.observe.identity import own_host, run_info
from ridgeline.observe.watch import Subscriber, Watch
from ridgeline.operators._queue_pair import is_read
from ridgeline.plan.execution import Plan
from ridgeline.regions.joined_run import AnyRun, JoinedRun
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.regions.planning import (
    MakePlanner,
    PlannedRegion,
    keep,
    path_of,
    plan_regions,
    read_kept,
    refuse_lost,
)
from ridgeline.regions.region_run import RegionRun
from ridgeline.service.measured import MeasuredRun, Started, announce, say_unread, serve, write_metrics
from ridgeline.service.options import ServiceOptions
from ridgeline.service.origin import Origin, driver_lines
from ridgeline.service.store.presence import ended_by, presence_of

if TYPE_CHECKING:
    from pyspark import SparkContext


_LOOK_SECONDS = 0.2
"""How often the regions are looked at."""


def run_regions(  # noqa: PLR0913  what surrounds a run
    app: Application,
    whole: Plan,
    make_planner: MakePlanner,
    options: Options,
    service: ServiceOptions | None = None,
    *,
    observe: Subscriber | None = None,
    stop: threading.Event | None = None,
    console: Console | None = None,
    clock: Clock | None = None,
    context: Any = None,
    started: Started | None = None,
    origin: Origin | None = None,
) -> Outcome:
    """Run an application of several regions, as `run_measured` runs one of a single one; blocks.

    Regions that fail do not end the others, until these have read what is in their queues. `options.windows`
    is of regions that read no queue; the others end once they have read all. `started` gets joined views.

    Raises:
        RidgelineError: As `run_measured`; of a region that cannot start, or that has failed, at the end.
    """
    run = _Regions(
        app,
        whole,
        options,
        service or ServiceOptions(),
        console or Console(),
        clock or SystemClock(),
        origin,
    )
    return run.run(make_planner, observe, stop or threading.Event(), context, started)


class _Regions:
    """The regions of one run, and what they share."""

    def __init__(
        self,
        app: Application,
        whole: Plan,
        options: Options,
        service: ServiceOptions,
        console: Console,
        clock: Clock,
        origin: Origin | None = None,
    ) -> None:
        self._app = app
        self._whole = whole
        self._options = options
        self._service = service
        self._console = console
        self._clock = clock
        self._origin = origin
        self._name = whole.logical.application
        root = options.checkpoint or temporary_checkpoint(self._name)
        self._root = local_path(root) if is_local(root) else root
        self._regions: list[RegionRun] = []
        self._page = ""
        self._log = OperatorLog()
        """The lines that operators of all regions say."""
        self._presence = presence_of(
            service.store,
            service.store_name,
            self._name,
            options.where,
            self._warn,
            clock,
        )
        self._failed: set[str] = set()
        """The regions of which a failure was said."""

    def run(
        self,
        make_planner: MakePlanner,
        observe: Subscriber | None,
        stop: threading.Event,
        context: Any,
        started: Started | None,
    ) -> Outcome:
        """Plan the regions, start Spark where there is none, and run them; see `run_regions`."""
        say_unread(self._console)
        ended = False
        try:
            with contextlib.ExitStack() as surroundings:
                presence = self._presence
                surroundings.enter_context(driver_lines(self._log, self._name))
                if presence is not None:
                    surroundings.enter_context(presence)
                    presence.on_lost = stop.set
                    presence.before_spark(self._root)
                storage: DriverStorage | None = LocalStorage(self._root) if is_local(self._root) else None
                planned = None if storage is None else self._plan(storage, make_planner)
                if context is None:
                    plans = [self._whole] if planned is None else [one.plan for one in planned]
                    runs = len(self._whole.logical.regions)
                    claim = Claim() if presence is None else presence
                    context = start_spark(plans, self._options, self._root, runs, claim)
                    surroundings.callback(give_back, context)
                if presence is not None:
                    claim_by(presence, self._root, context)
                if storage is None or planned is None:
                    storage = hadoop_storage(self._root, context)
                    planned = self._plan(storage, make_planner)
                if presence is not None:
                    for one in planned:
                        presence.free(one.folder)
                keep(storage, planned, read_kept(storage))
                shares = slot_shares(context, [one.plan for one in planned])
                hold_cores(context, sum(shares))
                surroundings.callback(hold_cores, context, -sum(shares))
                self._regions = [
                    self._region(one, share, context) for one, share in zip(planned, shares, strict=True)
                ]
                if observe is not None:
                    for region in self._regions:
                        region.watch.subscribe(observe)
                outcome = self._drive(stop, surroundings, started)
                ended = outcome.ended
                if presence is not None:
                    if presence.lost:
                        raise FencedError(presence.lost)
                    final = ended or not stop.is_set()  # a signal ends this driver alone
                    presence.end(ended_by(outcome), failed=False, final=final)
                return outcome
        finally:
            nothing = all(one.outcome is None or one.outcome.last_window < 0 for one in self._regions)
            failed = any(one.error is not None for one in self._regions)
            if self._options.checkpoint is None and (ended or (nothing and not failed)):
                remove_temporary(self._root)

    def _plan(self, storage: DriverStorage, make_planner: MakePlanner) -> list[PlannedRegion]:
        kept = read_kept(storage)
        planned = plan_regions(self._app, self._whole, make_planner, self._root, kept)
        refuse_lost(storage, self._name, planned, kept)
        return planned

    def _region(self, planned: PlannedRegion, share: int, context: SparkContext) -> RegionRun:
        """A region that has not started. It plans what its checkpoint keeps each time it starts."""
        windows = None if planned.region.reads else self._options.windows
        options = Options(self._options.master, self._options.conf, planned.folder, windows)
        starts = count(1)

        def launch(region: RegionRun) -> Outcome:
            def before_first_window(run: AnyRun, _watch: Answers, _web: object) -> None:
                region.started(cast("ApplicationRun", run))

            log = self._event_log(planned, next(starts))
            run = MeasuredRun(
                region.plan,
                options,
                replace(self._service, port=None, event_log=log, metrics_file=None, store=None),
                self._console,
                self._clock,
                planned.planner,
                watch=region.watch,
                share=share,
                page=self._page,
                log=self._log,
            )
            return run.launch(region.stop, context, before_first_window)

        watch = Watch(self._clock.wall, own_host())
        return RegionRun(planned.region, planned.number, planned.plan, watch, launch)

    def _event_log(self, planned: PlannedRegion, start: int) -> str | None:
        """The event log of a region: the name that was given, with that of the region.

        One that is started again has a log for each `start`, from the second on with its number.
        """
        if self._service.event_log is None:
            return None
        path = Path(self._service.event_log)
        number = "" if start == 1 else f"-{start}"
        return str(path.with_name(f"{path.stem}-{planned.region.name}{number}{path.suffix}"))

    def _drive(
        self, stop: threading.Event, surroundings: contextlib.ExitStack, started: Started | None
    ) -> Outcome:
        """Run all regions to their end."""
        watch, run = JoinedWatch(self._regions), JoinedRun(self._regions, self._root, self._whole)
        write_metrics(watch, self._service, surroundings, self._warn)
        joined: Any = watch
        server = serve(
            joined, run.plan, self._service, surroundings, self._warn, log=self._log, origin=self._origin
        )
        if server is not None:
            server.app.state.run, self._page = run, server.url
        try:
            self._start(stop)
            if not stop.is_set():
                checkpoint = run.checkpoint
                number = f"{checkpoint.run_id}-{checkpoint.epoch}"
                if self._presence is not None:
                    self._presence.running(number, server, spark_id())
                if server is not None:
                    announced = announce(
                        server,
                        self._service.token,
                        run.plan,
                        number,
                        self._clock.wall(),
                        run_info("", checkpoint.storage.uri, {}),
                        self._console,
                    )
                    surroundings.enter_context(announced)
                if started is not None:
                    started(run, watch, server)
            while any(one.is_running or one.halted for one in self._regions) and not stop.is_set():
                self._look()
                self._clock.wait(_LOOK_SECONDS, stop)
        finally:
            for region in self._regions:
                region.stop.set()
            for region in self._regions:
                region.join()
        self._look()
        for region in self._regions:
            if region.error is not None:
                raise region.error
        outcomes = [region.outcome for region in self._regions if region.outcome is not None]
        return Outcome(
            sum(one.windows_committed for one in outcomes),
            max((one.last_window for one in outcomes), default=-1),
            all(one.ended for one in outcomes),
            self._root,
        )

    def _warn(self, text: str) -> None:
        self._console.print(Text(printable(text), "yellow"), soft_wrap=True)

    def _start(self, stop: threading.Event) -> None:
        """Start all regions; returns once they have, or `stop` is set. Raises what one of them raises."""
        for region in self._regions:
            region.start()
        for region in self._regions:
            while region.state == "STARTING" and not stop.is_set():
                region.wait_until_started(_LOOK_SECONDS)
            if region.error is not None:
                raise region.error

    def _look(self) -> None:
        """Say which regions have failed; end those that have nothing to come any more."""
        for region in self._regions:
            if region.error is None:
                self._failed.discard(region.name)
            elif region.name not in self._failed:
                self._failed.add(region.name)
                text = f"region `{region.name}` has failed, others go on: {region.error}"
                if any(other.is_running for other in self._regions):
                    self._console.print(Text(printable(text), "red"), soft_wrap=True)
        running = {region.name: region.is_running or region.halted for region in self._regions}
        finished = {one.name for one in self._regions if one.outcome is not None and one.outcome.ended}
        for region in self._regions:
            edges = region.region.reads
            if not edges or not region.is_running or region.stop.is_set():
                continue
            if any(running[edge.writer_region] for edge in edges):
                continue
            if self._options.windows is None and finished.issuperset(edge.writer_region for edge in edges):
                continue  # it has the ends of its queues, and finishes once its own inputs have
            with contextlib.suppress(OSError, RidgelineError):
                if all(is_read(path_of(self._root, edge), self._name, edge.reader) for edge in edges):
                    region.stop.set()
