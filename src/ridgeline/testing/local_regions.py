"""Run an application of several regions in process: a step of each in turn, on one clock."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

from ridgeline.api.application import Application
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.engine.driver.run.run import IDLE_SECONDS
from ridgeline.engine.files.storage import DriverStorage, LocalStorage, MemoryStorage
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.regions.joined_changes import region_of
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
from ridgeline.testing.local_run import LocalRun

if TYPE_CHECKING:
    from ridgeline.observe.watch import Watch
    from ridgeline.testing.run_local import InProcessRun

_POLL_SECONDS = 0.001
Edits: TypeAlias = dict[int, tuple[Edit, ...]]
"""Edits by the window of their region that is to begin with them."""


class LocalRegionsRun(LocalRun):
    """The result of `run_local` for an application of several regions. `regions`: of each, by name.

    Numbers of windows and ids are of one region: ask `run.regions["slow"]` for what is by window.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,)]))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input, decoupled=True)
        >>> run = run_local(app)
        >>> sorted(run.regions), run.collected("sink")
        (['numbers', 'sink'], [Number(value=1), Number(value=2)])
    """

    def __init__(self, plan: Plan, clock: Clock) -> None:
        super().__init__(plan, clock)
        self.regions: dict[str, LocalRun] = {}
        self._joined: Any = None

    @property
    def watch(self) -> Watch:
        """The metrics of all regions, joined."""
        found: Watch = self._joined
        return found

    @property
    def window_ids(self) -> list[int]:
        """Not there: each region has windows of its own. Raises RidgelineError."""
        raise RidgelineError(
            f"each region has windows of its own; ask `run.regions[...]`, one of {sorted(self.regions)}"
        )

    @property
    def windows_committed(self) -> int:
        """The number of windows committed in all regions."""
        return sum(run.windows_committed for run in self.regions.values())

    @property
    def retries(self) -> list[tuple[int, int, str]]:
        """The failed attempts of all regions."""
        return [retry for run in self.regions.values() for retry in run.retries]

    def _sum(self, operator: str, column: str) -> int:
        return sum(run._sum(operator, column) for run in self.regions.values())  # noqa: SLF001

    def end(self, runs: Mapping[str, LocalRun], joined: Any) -> None:
        """All regions have ended."""
        self.regions = dict(runs)
        self._joined = joined
        for run in runs.values():
            self.collectors |= run.collectors
            self._sinks |= run._sinks  # noqa: SLF001
            self.changes += run.changes
            self.events += run.events


def run_regions(
    app: Application,
    whole: Plan,
    make_planner: MakePlanner,
    storage: DriverStorage,
    clock: Clock,
    run_of: Callable[[Planner, Plan, DriverStorage, Edits, int | None], InProcessRun],
    edits: Edits,
    windows: int | None,
) -> LocalRegionsRun:
    """Run all regions until their ends. `windows` are of those that read no queue; others read what comes.

    The window of `edits` is one of the region that has what they name.

    Raises what a region does; then all end.
    """
    with ExitStack() as stack:
        name = whole.logical.application
        local = isinstance(storage, LocalStorage)
        root = storage.uri if local else _queues_of(storage)
        kept = read_kept(storage)
        planned = plan_regions(app, whole, make_planner, root, kept)
        if local:
            refuse_lost(storage, name, planned, kept)
        keep(storage, planned, kept)
        storages = _storages(storage, planned)
        divided: dict[str, Edits] = {one.name: {} for one in planned}
        for window, some in edits.items():
            divided[region_of(planned, some).name][window] = some
        found = [
            run_of(one.planner, one.plan, part, divided[one.name], None if one.region.reads else windows)
            for one, part in zip(planned, storages, strict=True)
        ]
        for run in found:
            stack.callback(run.steps.close)

        def end(left: Sequence[InProcessRun]) -> None:
            """End the regions that have read all, of which the writers are over."""
            running = {one.name for one, run in zip(planned, found, strict=True) if run in left}
            for one, run in zip(planned, found, strict=True):
                reads = one.region.reads
                fed = running.intersection(edge.writer_region for edge in reads)
                if run in left and reads and not fed and _has_read(root, name, one):
                    run.stop.set()

        # without `windows` regions finish with their inputs, of which queues are some
        drive(found, clock, _nothing if windows is None else end)
        result = LocalRegionsRun(whole, clock)
        results = {one.name: run.result for one, run in zip(planned, found, strict=True)}
        result.end(results, _joined(results, planned))
        return result


def _has_read(root: str, application: str, one: PlannedRegion) -> bool:
    """Whether a region has committed all that its queues have."""
    return all(is_read(path_of(root, edge), application, edge.reader) for edge in one.region.reads)


def _nothing(_left: Sequence[InProcessRun]) -> None:
    pass


def _queues_of(storage: Any) -> str:
    """A folder for the queues of a checkpoint in memory, which is there as long as the checkpoint."""
    if not hasattr(storage, "queues"):
        storage.queues = tempfile.mkdtemp()
        weakref.finalize(storage, shutil.rmtree, storage.queues, ignore_errors=True)
    return str(storage.queues)


def _storages(storage: DriverStorage, planned: Sequence[PlannedRegion]) -> Sequence[DriverStorage]:
    """The storage of each region. In memory they are kept with the application's."""
    if isinstance(storage, LocalStorage):
        return [LocalStorage(one.folder) for one in planned]
    if not hasattr(storage, "regions"):
        storage.regions = {}  # type: ignore[attr-defined]
    parts: dict[int, DriverStorage] = storage.regions  # type: ignore[attr-defined]
    return [parts.setdefault(one.number, MemoryStorage()) for one in planned]


def drive(
    runs: Sequence[InProcessRun], clock: Clock, between: Callable[[Sequence[InProcessRun]], None] = _nothing
) -> None:
    """Take steps of all runs in turn until all are over. The clock moves when none has anything to do.

    `between`: gets those that are left. Raises what a run does.
    """
    left, machine = list(runs), SystemClock()
    while left:
        waits = [next(run.steps, None) for run in left]
        left = [run for run, wait in zip(left, waits, strict=True) if wait is not None]
        between(left)
        held = [wait for wait in waits if wait]
        never = sum(not run.result.plan.logical.window_seconds for run in left)
        if left and held and len(held) + never >= len(waits):
            if all(run.idle for run in left):
                # some of several may wait for what others publish
                machine.wait(_POLL_SECONDS if len(runs) > 1 else held[0], left[0].awake)
                left[0].awake.clear()
                left[0].rested = len(runs) == 1
            clock.wait(min(*held, IDLE_SECONDS))


def _joined(results: Mapping[str, LocalRun], planned: Sequence[PlannedRegion]) -> Any:
    """The joined figures of regions that have ended."""

    def no_launch(_: RegionRun) -> Outcome:
        raise AssertionError

    runs = []
    for one in planned:
        result = results[one.name]
        run = RegionRun(one.region, one.number, result.plan, result.watch, no_launch)
        ids, state = result.window_ids, result.watch.info()["state"]
        run.outcome = Outcome(len(ids), ids[-1] if ids else -1, state == "FINISHED", one.folder)
        runs.append(run)
    joined = JoinedWatch(runs)
    joined.replay({name: result.events for name, result in results.items()})
    return joined
