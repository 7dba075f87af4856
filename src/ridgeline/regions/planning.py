"""Plan the regions of an application for a run: their names, folders and queues in its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from ridgeline.api.application import Application
from ridgeline.api.errors import CheckpointError, listed
from ridgeline.connect.output_files import OutputFiles
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.resuming import ResumeOptions
from ridgeline.engine.driver.checkpoint.run_description import (
    NAME,
    REGIONS,
    read_if_there,
    read_regions,
    write_regions,
)
from ridgeline.engine.files.storage import DriverStorage
from ridgeline.operators._queue_files import folder_of, reader_name
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.region import QueueEdge, Region, renamed
from ridgeline.plan.regional import QueueEnds, RegionPlans
from ridgeline.regions.queues import is_read_by_all, queue_reader, queue_writer


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of options: one region, by its name, or the whole application.

    `elsewhere`: the operators of other regions. `names`: those of all regions.
    """

    name: str = ""
    elsewhere: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()

    def __contains__(self, option: str) -> bool:
        """Whether `operator` or `operator.property` is of an operator here; also of one that changes add."""
        parts = option.split(".")
        return not any(".".join(parts[:length]) in self.elsewhere for length in range(len(parts), 0, -1))


WHOLE = Scope()
MakePlanner = Callable[[Application, Scope], Planner]
"""Makes the planner of one region, with the options that are of it."""


@dataclass(frozen=True, slots=True)
class PlannedRegion:
    """A region that is about to run. `folder`: of its checkpoint."""

    region: Region
    number: int
    folder: str
    planner: Planner
    plan: Plan

    @property
    def name(self) -> str:
        """The name of the region."""
        return self.region.name


@dataclass(frozen=True, slots=True)
class Kept:
    """A region of the run before, as the checkpoint keeps it."""

    name: str
    number: int
    operators: tuple[str, ...]


def read_kept(storage: DriverStorage) -> list[Kept]:
    """The regions that a checkpoint keeps; none of a fresh one. Raises CheckpointError, OSError."""
    rows = read_regions(storage)
    if rows is None:
        if read_if_there(storage, NAME) is not None:
            msg = f"checkpoint folder `{storage.uri}` holds a run without regions, and streams are decoupled "
            msg += "now: its state cannot be divided; give another `--checkpoint`, or decouple none"
            raise CheckpointError(msg)
        if read_if_there(storage, _description_of(0)) is not None:
            msg = (
                f"`{storage.uri}/{REGIONS}` is missing, though the folder holds regions: without it none of "
            )
            msg += "them can be told from others; restore the checkpoint from a copy"
            raise CheckpointError(msg)
        return []
    return [Kept(one["name"], one["number"], tuple(one["operators"])) for one in rows]


def keep(storage: DriverStorage, regions: Sequence[PlannedRegion], before: Sequence[Kept]) -> None:
    """Write down the regions that run now; those that are gone keep their numbers. Raises OSError."""
    now = [Kept(one.region.name, one.number, one.region.operators) for one in regions]
    names = {one.name for one in now}
    found = [*now, *(one for one in before if one.name not in names)]
    rows = [{"name": one.name, "number": one.number, "operators": list(one.operators)} for one in found]
    if list(before) != found:
        write_regions(storage, rows)


def settled_names(logical: LogicalPlan, kept: Sequence[Kept], named: Collection[str]) -> tuple[Region, ...]:
    """The regions with the names that they had in the run before: operators at their queues are named so.

    `named`: names that the application gives. Raises CheckpointError where an operator has changed its
    region, or a region its name.
    """
    homes = {operator: one for one in kept for operator in one.operators}
    names: dict[str, str] = {}
    for region in logical.regions:
        before = dict.fromkeys(homes[name].name for name in region.operators if name in homes)
        if len(before) > 1:
            what = f"the run before had its operators in the regions {listed(list(before))}"
            msg = f"region `{region.name}`: {what}; state cannot go from one to another: decouple the same "
            msg += "streams as before, or begin with a fresh checkpoint"
            raise CheckpointError(msg)
        for name in before:
            if region.name in named and region.name != name:
                msg = f"region `{region.name}` was called `{name}` in the run before; give it that name again"
                raise CheckpointError(msg)
            names[region.name] = name
    settled = renamed(logical.regions, names)
    for name in (region.name for region in settled):
        if [region.name for region in settled].count(name) > 1:
            what = f"the operators of region `{name}` of the run before are in several regions now"
            msg = f"{what}; decouple the same streams as before, or begin with a fresh checkpoint"
            raise CheckpointError(msg)
    return settled


def plan_regions(
    app: Application, whole: Plan, make_planner: MakePlanner, root: str, kept: Sequence[Kept]
) -> list[PlannedRegion]:
    """Plan all regions, in topological order, as far as their checkpoints can be read before Spark is there.

    Raises ValidationError, CheckpointError.
    """
    named = [str(added.name) for added in app.regions]
    regions = settled_names(whole.logical, kept, named)
    logical = replace(whole.logical, regions=regions)
    ends = QueueEnds(
        partial(_writer, root, logical.application),
        lambda edge, schema: queue_reader(path_of(root, edge), schema),
    )
    made = RegionPlans(app, logical, ends)
    numbers = {one.name: one.number for one in kept}
    free = max(numbers.values(), default=-1) + 1
    found = []
    for region in regions:
        number = numbers.get(region.name)
        if number is None:
            number, free = free, free + 1
        others = frozenset(name for other in regions if other is not region for name in other.every_operator)
        scope = Scope(region.name, others, tuple(one.name for one in regions))
        planner = make_planner(made.application(region, number), scope)
        folder = f"{root}/{_folder_of(number)}"
        plan = planner.first(folder, logical.application)
        found.append(PlannedRegion(region, number, folder, planner, plan))
    return found


def refuse_lost(
    storage: DriverStorage, application: str, planned: Sequence[PlannedRegion], before: Sequence[Kept]
) -> None:
    """Raise CheckpointError for a region of the run before whose folder is gone, while its queues are there.

    It would begin again, and give to its sinks or its queue what it has given before. So for a queue with
    rows that were not read, if no stream has its name now.
    """
    root, names = storage.uri, {one.name for one in before}
    for one in planned:
        if one.name not in names or read_if_there(storage, _description_of(one.number)) is not None:
            continue
        wrote = any(folder_of(path_of(root, edge)).logs() for edge in one.region.writes)
        if wrote or any(
            folder_of(path_of(root, edge)).runs_of(reader_name(application, edge.reader))
            for edge in one.region.reads
        ):
            msg = f"`{one.folder}` is gone, the checkpoint of region `{one.name}`, whose queues are there: "
            msg += "restore it from a copy, or give another `--checkpoint`"
            raise CheckpointError(msg)
    _refuse_unread(storage, planned)


def _refuse_unread(storage: DriverStorage, planned: Sequence[PlannedRegion]) -> None:
    """See `refuse_lost`."""
    now = {path_of(storage.uri, edge) for one in planned for edge in one.region.writes}
    queues = OutputFiles(f"{storage.uri}/queues")
    for stream in queues.names(queues.root):
        path = f"{storage.uri}/queues/{stream}"
        if path not in now and not is_read_by_all(path):
            raise CheckpointError(
                f"`{path}` holds rows of stream `{stream}` that were not read, and no decoupled stream has "
                "that name now; give it that name again until they are read, or give another `--checkpoint`"
            )


def resume_of(resume: ResumeOptions, scope: Scope) -> ResumeOptions:
    """The options of a run that continues another one, as far as they are of a region.

    Raises CheckpointError for a window of which it is not clear which region it is of.
    """
    own = dict(resume)
    if dropped := resume.get("drop_state"):
        own["drop_state"] = [name for name in dropped if name in scope]
    if renamed := resume.get("rename"):
        own["rename"] = {old: new for old, new in renamed.items() if new in scope}
    region = resume.get("region")
    if scope.names and resume.get("from_window") is not None:
        if region not in scope.names:
            given = "windows are of regions" if region is None else f"there is no region `{region}`"
            raise CheckpointError(
                f"{given}, and one is started again: give `--region` with {listed(list(scope.names))}"
            )
        if region != scope.name:
            own["from_window"] = None
    return cast("ResumeOptions", own)


def _folder_of(number: int) -> str:
    """The folder of a region in the checkpoint."""
    return f"regions/{number}"


def _description_of(number: int) -> str:
    return f"{_folder_of(number)}/{NAME}"


def path_of(root: str, edge: QueueEdge) -> str:
    """The folder of a queue in the checkpoint."""
    return f"{root}/queues/{edge.stream}"


def _writer(root: str, application: str, edges: Sequence[QueueEdge]) -> Any:
    readers = [edge.reader for edge in edges]
    return queue_writer(path_of(root, edges[0]), edges[0].keep, readers, application)
