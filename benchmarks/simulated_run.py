"""A run whose slots are simulated: the driver as it is, from the trigger of windows to its answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.simulated_clock import Agenda, SimulatedClock
from benchmarks.simulated_costs import Costs, MeasuredCosts
from benchmarks.simulated_slots import SimulatedHeartbeats, SimulatedNetwork, SimulatedSlots
from benchmarks.simulated_spark import Failures, SimulatedSpark, Trouble
from benchmarks.simulated_windows import SimulatedWindows
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint.compactions import AtOnce
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.heartbeats import Heartbeats
from ridgeline.engine.driver.run.committing import Commits
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.run.triggers import Limits, TickTrigger
from ridgeline.engine.driver.slots import contents
from ridgeline.engine.driver.slots.executor import SlotExecutor
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.process.garbage import collect_after, short_pauses
from ridgeline.measure.events import WindowCommitted
from ridgeline.observe.event_lines import EventLines
from ridgeline.observe.identity import own_host, run_info
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.execution import Plan

ONE_HOST = "simulated"


@dataclass(frozen=True)
class Cluster:
    """What is simulated.

    `places`: of each host; one host: there is nothing to choose. `works`: as of `SimulatedClock`. `moves`:
    whether tuples move in a container. `small_bytes`: how much of its state a container changes in a window.
    With `heartbeats` slots send some.
    """

    places: Mapping[str, int]
    costs: Costs = field(default_factory=Costs)
    failures: Failures = field(default_factory=Failures)
    heartbeats: MeasuredCosts | None = None
    works: float = 1.0
    moves: Callable[[int], bool] = bool
    small_bytes: int = 0
    seed: int = 0


class SimulatedRun:
    """The driver of a plan on a simulated cluster, with its checkpoint in a folder on this machine's disk."""

    def __init__(self, plan: Plan, folder: Path, cluster: Cluster) -> None:
        self.clock = clock = SimulatedClock(cluster.works)
        agenda = Agenda(clock)
        self.spark = SimulatedSpark(agenda, cluster.places, cluster.costs)
        windows = SimulatedWindows(plan, cluster.costs, cluster.moves, cluster.small_bytes)
        self.network = SimulatedNetwork(agenda, self.spark, windows, cluster.costs)
        self.beside: list[Callable[[], None]] = []
        """Called while the driver waits; no time passes for it."""
        self.network.on_call = self._beside
        self.trouble = Trouble(agenda, self.spark, cluster.failures, cluster.seed)
        self.watch = Watch(clock.wall, own_host())
        lines = EventLines()
        self.watch.subscribe(lines.apply, lines.kinds)
        heartbeats = None
        if cluster.heartbeats is not None:
            SimulatedHeartbeats(agenda, self.spark, self.network, cluster.heartbeats)
            heartbeats = Heartbeats(self.watch.observe, clock)
            self.watch.subscribe(heartbeats.follow, (WindowCommitted,))
        checkpoint = Checkpoint(LocalStorage(str(folder / "checkpoint")), plan.logical.application)
        (folder / "checkpoint" / "state").mkdir(exist_ok=True)  # the first state file makes it
        self.executor = SlotExecutor(
            SimulatedSlots(self.network, self.spark, several=len(cluster.places) > 1),
            plan,
            checkpoint.storage,
            checkpoint.run_id,
            checkpoint.epoch,
            clock=clock,
            observe=self.watch.observe,
            heartbeats=heartbeats,
        )

        def context(operator: str) -> PublisherContext:
            return PublisherContext(
                plan.logical.application, operator, checkpoint.run_id, clock, Console(quiet=True),
                f"{folder}/staging", spark=_no_spark, epoch=checkpoint.epoch,
                check_owner=checkpoint.check_owner,
            )  # fmt: skip

        self.run = ApplicationRun(
            plan,
            checkpoint,
            self.executor,
            clock,
            context,
            self.watch.observe,
            settle=self.watch.settle,
            commits=Commits(_SimulatedDisk(agenda, cluster.costs), self.network.wake),
        )
        info = run_info("simulated", checkpoint.storage.uri)
        self.watch.observe(planned_event(plan, at=clock.wall(), application_id="simulated", info=info))
        self.watch.settle()

    def drive(self, windows: int) -> None:
        """Run so many windows until they are committed. Raises what a run raises."""
        stop = threading.Event()
        with short_pauses(), _plan_files_here():
            collect_after(reports=len(self.run.plan.physical.operators))
            TickTrigger(self.run, self.clock, stop).drive(Limits(self.run, windows, stop))

    def close(self) -> None:
        """The run ends, and all slots."""
        self.network.closing = True
        with _plan_files_here():
            self.run.close(orderly=True)

    def _beside(self) -> None:
        for do in self.beside:
            do()

    def worked(self) -> float:
        """Processor seconds of this thread that were not the simulation's."""
        return time.thread_time() - self.clock.apart_seconds


class _Here(AtOnce):
    """Does in `submit` what it is given: time would not pass for a thread."""

    def __init__(self, *_given: object) -> None:
        pass


class _SimulatedDisk(_Here):
    """What a commit computes takes the driver's time, its sync that of a disk."""

    def __init__(self, agenda: Agenda, costs: Costs) -> None:
        super().__init__()
        self._agenda = agenda
        self._costs = costs

    def submit(self, do: Callable[..., Any], /, *values: Any, **named: Any) -> Future[Any]:
        synced: Future[Any] = Future()
        written = do(*values, **named)
        self._agenda.after(self._costs.sync(), lambda: synced.set_result(written))
        return synced


@contextmanager
def _plan_files_here() -> Iterator[None]:
    usual = contents.ThreadPoolExecutor
    contents.ThreadPoolExecutor = _Here  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        contents.ThreadPoolExecutor = usual  # type: ignore[misc]


def _no_spark() -> Any:
    raise AssertionError("there is no Spark")
