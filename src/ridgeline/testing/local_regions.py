"""Run an application of several regions in process: a step of each in turn, on one clock."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ridgeline.api.application import Application
from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.engine.files.storage import DriverStorage, LocalStorage, MemoryStorage
from ridgeline.operators._queue_pair import is_read
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

    def _sum(self, operator: str, count: Callable[[Any], int]) -> int:
        return sum(run._sum(operator, count) for run in self.regions.values())  # noqa: SLF001

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
    run_of: Callable[[Planner, Plan, DriverStorage, Edits], InProcessRun],
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
            _Region(one, run_of(one.planner, one.plan, part, divided[one.name]), windows)
            for one, part in zip(planned, storages, strict=True)
        ]
        for region in found:
            stack.callback(region.close)
        # without `windows` regions finish with their inputs, of which queues are some
        ends = (lambda _region: False) if windows is None else partial(_has_read, root, name)
        _run(found, clock, ends)
        result = LocalRegionsRun(whole, clock)
        result.end({one.name: one.run.result for one in found}, _joined(found, planned))
        return result


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


class _Region:
    """One region, and its steps."""

    def __init__(self, planned: PlannedRegion, run: InProcessRun, windows: int | None) -> None:
        self.planned = planned
        self.run = run
        run.alone = False
        self.name = planned.region.name
        self.width = planned.plan.logical.window_seconds
        self.over = False
        self._steps = run.steps(None if planned.region.reads else windows)
        self.close = self._steps.close

    def step(self) -> float:
        """Take a step; returns for how many seconds there is nothing to do."""
        left = next(self._steps, None)
        self.over = left is None
        return left or 0.0


def _run(regions: Sequence[_Region], clock: Clock, has_read: Callable[[_Region], bool]) -> None:
    """Take steps of all regions in turn until all are over. The clock moves when none has anything to do."""
    left = list(regions)
    while left:
        waits = [region.step() for region in left]
        left = [region for region in left if not region.over]
        running = {region.name for region in left}
        for region in left:
            reads = region.planned.region.reads
            if reads and not running.intersection(edge.writer_region for edge in reads) and has_read(region):
                region.run.stop.set()
        held = [wait for wait in waits if wait]
        due = sum(not region.width for region in left)  # their windows have no width: they never wait
        if left and held and len(held) + due >= len(waits):
            idle = all(region.run.current is None or region.run.current.master.idle for region in left)
            if idle:
                SystemClock().wait(_POLL_SECONDS)
            clock.wait(min(held))


def _has_read(root: str, application: str, region: _Region) -> bool:
    """Whether a region has committed all that its queues have."""
    return all(is_read(path_of(root, edge), application, edge.reader) for edge in region.planned.region.reads)


def _joined(regions: Sequence[_Region], planned: Sequence[PlannedRegion]) -> Any:
    """The joined figures of regions that have ended."""

    def no_launch(_: RegionRun) -> Outcome:
        raise AssertionError

    runs = []
    for region, one in zip(regions, planned, strict=True):
        run = RegionRun(one.region, one.number, region.run.result.plan, region.run.result.watch, no_launch)
        ids = region.run.result.window_ids
        state = region.run.result.watch.info()["state"]
        run.outcome = Outcome(len(ids), ids[-1] if ids else -1, state == "FINISHED", one.folder)
        runs.append(run)
    joined = JoinedWatch(runs)
    joined.replay({region.name: region.run.result.events for region in regions})
    return joined
