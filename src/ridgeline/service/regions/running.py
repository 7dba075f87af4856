"""Run all regions of an application in one driver, each in a thread of its own, with one web service."""

from __future__ import annotations

import contextlib
import shutil
import threading
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.text import Text

from ridgeline.api.application import Application
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import printable
from ridgeline.engine.driver.checkpoint.folder import temporary_checkpoint
from ridgeline.engine.driver.operator_log import OperatorLog
from ridgeline.engine.driver.run.launch import claim_by, hadoop_storage, slot_shares, start_spark
from ridgeline.engine.driver.run.options import Options, Outcome
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import DriverStorage, LocalStorage
from ridgeline.engine.spark.cores import hold_cores
from ridgeline.engine.spark.shared_context import give_back
from ridgeline.observe.identity import own_host, run_info
from ridgeline.observe.watch import Subscriber, Watch
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
from ridgeline.regions.queues import is_read
from ridgeline.regions.region_run import RegionRun
from ridgeline.service.measured import Host, MeasuredRun, Started, say_unread
from ridgeline.service.options import ServiceOptions
from ridgeline.service.origin import Origin

if TYPE_CHECKING:
    from pyspark import SparkContext


_LOOK_SECONDS = 0.2
"""How often the regions are looked at."""


@dataclass(eq=False)
class RegionsRun:
    """An application of several regions and what they share: `run` is `run_measured` of a single one.

    Regions that fail do not end the others, until these have read what is in their queues. `options.windows`
    is of regions that read no queue; the others end once they have read all. `started` gets joined views.
    """

    app: Application
    whole: Plan
    make_planner: MakePlanner
    options: Options
    service: ServiceOptions = field(default_factory=ServiceOptions)
    observe: Subscriber | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    console: Console = field(default_factory=Console)
    clock: Clock = field(default_factory=SystemClock)
    context: SparkContext | None = None
    started: Started | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        """Choose the folder of the checkpoint, and be known as running."""
        self._name = self.whole.logical.application
        root = self.options.checkpoint or temporary_checkpoint(self._name)
        self._root = local_path(root) if is_local(root) else root
        self._regions: list[RegionRun] = []
        self._page = ""
        self._log = OperatorLog()
        """The lines that operators of all regions say."""
        where = self.options.where
        self._host = Host(self.service, self.whole, where, self.console, self.clock, self.stop, self._log)
        self._failed: set[str] = set()
        """The regions of which a failure was said."""

    def run(self) -> Outcome:
        """Plan the regions, start Spark where there is none, and run them; blocks.

        Raises RidgelineError as `run_measured`; of a region that cannot start, or that has failed, at the
        end.
        """
        say_unread(self.console)
        ended = False
        try:
            with self._host as host:
                if host.presence is not None:
                    host.presence.before_spark(self._root)
                self._prepare(host)
                outcome = self._drive(host)
                ended = outcome.ended
                host.check_name()
                host.ended(outcome)
                return outcome
        finally:
            nothing = all(one.outcome is None or one.outcome.last_window < 0 for one in self._regions)
            failed = any(one.error is not None for one in self._regions)
            if self.options.checkpoint is None and (ended or (nothing and not failed)):
                shutil.rmtree(self._root, ignore_errors=True)

    def _prepare(self, host: Host) -> None:
        """Plan the regions, with Spark where there is none, and claim their checkpoints and cores."""
        presence, context = host.presence, self.context
        storage: DriverStorage | None = LocalStorage(self._root) if is_local(self._root) else None
        planned = None if storage is None else self._plan(storage)
        if context is None:
            plans = [self.whole] if planned is None else [one.plan for one in planned]
            runs = len(self.whole.logical.regions)
            context = start_spark(plans, self.options, self._root, runs)
            host.callback(give_back, context)
        if presence is not None:
            claim_by(presence, self._root, context)
        if storage is None or planned is None:
            storage = hadoop_storage(self._root, context)
            planned = self._plan(storage)
        if presence is not None:
            for one in planned:
                presence.free(one.folder)
        keep(storage, planned, read_kept(storage))
        shares = slot_shares(context, [one.plan for one in planned])
        hold_cores(context, sum(shares))
        host.callback(hold_cores, context, -sum(shares))
        self._regions = [
            self._region(one, share, context) for one, share in zip(planned, shares, strict=True)
        ]

    def _plan(self, storage: DriverStorage) -> list[PlannedRegion]:
        kept = read_kept(storage)
        planned = plan_regions(self.app, self.whole, self.make_planner, self._root, kept)
        refuse_lost(storage, self._name, planned, kept)
        return planned

    def _region(self, planned: PlannedRegion, share: int, context: SparkContext) -> RegionRun:
        """A region that has not started. It plans what its checkpoint keeps each time it starts."""
        windows = None if planned.region.reads else self.options.windows
        options = Options(self.options.master, self.options.conf, planned.folder, windows)
        starts = count(1)

        def launch(region: RegionRun) -> Outcome:
            def started(run: AnyRun, _watch: Watch, _web: object) -> None:
                region.started(cast("ApplicationRun", run))

            log = self._event_log(planned, next(starts))
            run = MeasuredRun(
                region.plan,
                options,
                replace(self.service, port=None, event_log=log, metrics_file=None, store=None),
                self.console,
                self.clock,
                planned.planner,
                watch=region.watch,
                share=share,
                page=self._page,
                log=self._log,
            )
            return run.launch(region.stop, context, started)

        watch = Watch(self.clock.wall, own_host())
        if self.observe is not None:
            watch.subscribe(self.observe)
        return RegionRun(planned.region, planned.number, planned.plan, watch, launch)

    def _event_log(self, planned: PlannedRegion, start: int) -> str | None:
        """The event log of a region: the name that was given, with that of the region.

        One that is started again has a log for each `start`, from the second on with its number.
        """
        if self.service.event_log is None:
            return None
        path = Path(self.service.event_log)
        number = "" if start == 1 else f"-{start}"
        return str(path.with_name(f"{path.stem}-{planned.region.name}{number}{path.suffix}"))

    def _drive(self, host: Host) -> Outcome:
        """Run all regions to their end."""
        watch, run = JoinedWatch(self._regions), JoinedRun(self._regions, self._root, self.whole)
        server = host.serve(watch, run.plan, self.origin)
        if server is not None:
            server.app.state.run, self._page = run, server.url
        try:
            self._start()
            if not self.stop.is_set():
                checkpoint = run.checkpoint
                info = run_info("", checkpoint.storage.uri, {})
                host.announce(f"{checkpoint.run_id}-{checkpoint.epoch}", self.clock.wall(), info)
                if self.started is not None:
                    self.started(run, watch, server)
            while any(one.is_running or one.halted for one in self._regions) and not self.stop.is_set():
                self._look()
                self.clock.wait(_LOOK_SECONDS, self.stop)
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

    def _start(self) -> None:
        """Start all regions; returns once they have, or `stop` is set. Raises what one of them raises."""
        for region in self._regions:
            region.start()
        for region in self._regions:
            while region.state == "STARTING" and not self.stop.is_set():
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
                    self.console.print(Text(printable(text), "red"), soft_wrap=True)
        running = {region.name: region.is_running or region.halted for region in self._regions}
        finished = {one.name for one in self._regions if one.outcome is not None and one.outcome.ended}
        for region in self._regions:
            edges = region.region.reads
            if not edges or not region.is_running or region.stop.is_set():
                continue
            if any(running[edge.writer_region] for edge in edges):
                continue
            if self.options.windows is None and finished.issuperset(edge.writer_region for edge in edges):
                continue  # it has the ends of its queues, and finishes once its own inputs have
            with contextlib.suppress(OSError, RidgelineError):
                if all(is_read(path_of(self._root, edge), self._name, edge.reader) for edge in edges):
                    region.stop.set()
