"""The runs of all regions as one: what the web service and the handle use of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias, cast

from ridgeline.api.publisher import Publisher
from ridgeline.engine.container.samples import Port, SampleRequest
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.measure.answers.application import DebugDumpAnswer
from ridgeline.measure.deciding.key_load import KeyLoad
from ridgeline.plan.change.difference import PlanDifference
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import ExecutionPlan, Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.physical import PhysicalPlan
from ridgeline.plan.region import IDS
from ridgeline.plan.validation import validate
from ridgeline.regions.joined_changes import JoinedChanges, region_of
from ridgeline.regions.region_run import RegionRun
from ridgeline.regions.sums import greatest, in_order, joined, least

_OF_REGION = ("windows", "events")
"""What a dump has that is of one region."""


def joined_plan(regions: Sequence[RegionRun], whole: Plan | None = None) -> Plan:
    """The plans of all regions, with the ends of queues, in topological order.

    `whole`: the plan of the application before it was divided: what is of no region comes from it. A stream
    that is decoupled is there for each region that has a part of it, under the same name.
    """
    plans = [region.plan for region in regions]
    operators, streams, containers = (
        tuple(chain.from_iterable(map(attrgetter(name), plans)))
        for name in ("physical.operators", "physical.streams", "execution.containers")
    )
    return Plan(
        _logical(regions, whole),
        PhysicalPlan(operators, streams),
        ExecutionPlan(containers),
        sum(plan.version for plan in plans),
    )


def _logical(regions: Sequence[RegionRun], whole: Plan | None) -> LogicalPlan:
    """The logical plans of all regions, with what is of no region from the whole."""
    plans = [region.plan.logical for region in regions]
    base = plans[0] if whole is None else whole.logical
    names = ["operators", "streams", "affinity", "given_up", *(["modules"] if whole is None else [])]
    together: Any = {name: tuple(chain.from_iterable(map(attrgetter(name), plans))) for name in names}
    return replace(
        base,
        **together,
        listeners={name: who for plan in plans for name, who in plan.listeners.items()},
        regions=tuple(region.region for region in regions),
        region="",
    )


@dataclass(frozen=True, slots=True)
class JoinedStorage:
    """Where the checkpoint of an application of several regions is."""

    uri: str


@dataclass(frozen=True, slots=True)
class JoinedCheckpoint:
    """The checkpoint of an application of several regions. `epoch`: the greatest of theirs."""

    storage: JoinedStorage
    run_id: str
    epoch: int


class JoinedData:
    """What is looked at in the runs of regions: samples of streams, and how tuples are spread over keys."""

    def __init__(self, regions: Sequence[RegionRun]) -> None:
        self._regions = regions

    def request(self, ports: Iterable[Port], count: int) -> SampleRequest:
        """As that of `StreamSamples` of the ports' region. Raises ChangeError if that does not run."""
        wanted = list(ports)
        region = next(one for one in self._regions if one.number == wanted[0][0] // IDS)
        return region.running().samples.request(wanted, count)

    def forget(self, request: SampleRequest) -> None:
        """Drop a request: its reader waits no longer."""
        for region in self._regions:
            if region.run is not None:
                region.run.samples.forget(request)

    def load(self, operator: str, seconds: float = 60.0) -> KeyLoad | None:
        """The keys of an operator, as its region's run knows them; None if that does not run."""
        for region in self._regions:
            if region.run is not None and any(one.name == operator for one in region.plan.logical.operators):
                return region.run.keys.load(operator, seconds)
        return None


class JoinedRun:
    """The runs of all regions of an application, with what is used of `ApplicationRun` beside its loop.

    `regions`: in topological order. `root`: the folder of the checkpoint. `whole`: the plan of the
    application before it was divided.
    """

    def __init__(self, regions: Sequence[RegionRun], root: str, whole: Plan | None = None) -> None:
        self.regions = tuple(regions)
        self.changes = JoinedChanges(self.regions)
        self.samples = self.keys = JoinedData(self.regions)
        self._root = root
        self._whole = whole

    @property
    def next_window(self) -> int:
        """The greatest of all regions: 0 if none has committed a window."""
        return max((one.run.next_window for one in self.regions if one.run is not None), default=0)

    @property
    def plan(self) -> Plan:
        """The plans of the next windows of all regions, joined."""
        return joined_plan(self.regions, self._whole)

    def whole(self) -> LogicalPlan:
        """The plan of the application as if it were one region, with the changes of all regions.

        Raises ValidationError where a change is of an end of a queue.
        """
        source = None if self._whole is None else self._whole.logical.source
        if source is None:
            raise LookupError(f"`{self.plan.logical.application}` does not know what it was made of")
        app, given = source
        sources = [region.plan.logical.source for region in self.regions]
        edits = [one[1].edits for one in sources if one is not None]
        kept = [one[1].kept for one in sources if one is not None]
        return validate(
            app,
            given.properties,
            given.attributes,
            edits=_each_once(edits),
            kept=_each_once(kept),
        )

    def preview(self, edits: tuple[Edit, ...]) -> PlanDifference:
        """The effect of a change of the plan; nothing is done. Raises as `ApplicationRun.preview`."""
        return region_of(self.regions, edits).running().preview(edits)

    @property
    def _runs(self) -> list[ApplicationRun]:
        return [region.run for region in self.regions if region.run is not None]

    @property
    def publishers(self) -> Mapping[str, Publisher]:
        """The publishers of output operators of all regions, by operator."""
        return {name: one for run in self._runs for name, one in run.publishers.items()}

    @property
    def stopping(self) -> bool:
        """True once no window of any region begins any more, as a user has asked."""
        return bool(self._runs) and all(one.stopping for one in self._runs)

    @property
    def slots(self) -> int | None:
        """How many slots the containers of all regions could have now; None if a region does not say."""
        found = [run.slots for run in self._runs]
        return None if not found or None in found else sum(cast("list[int]", found))

    def kill(self, host: str, pid: int, reason: str) -> bool:
        """End the process of a slot of any region, see `WindowExecutor.kill`."""
        return any(run.kill(host, pid, reason) for run in self._runs)

    @property
    def checkpoint(self) -> JoinedCheckpoint:
        """The checkpoint: its folder, and the id of the run, which is that of its first region."""
        first = self._runs[0].checkpoint
        return JoinedCheckpoint(
            JoinedStorage(self._root), first.run_id, max(run.checkpoint.epoch for run in self._runs)
        )

    def debug_dump(self, error: BaseException | None = None) -> DebugDumpAnswer:
        """The windows in flight, and the last events and instructions, of all regions."""
        dumps: list[Any] = []
        for region in self.regions:
            if region.run is not None:
                dump: Any = region.run.debug_dump(error)
                own = {name: [{**row, "region": region.name} for row in dump[name]] for name in _OF_REGION}
                dumps.append({**dump, **own})
        found: DebugDumpAnswer = joined(dumps, at=greatest, committed=least, events=in_order)
        return found


def _each_once(edits: Iterable[Iterable[Edit]]) -> tuple[Edit, ...]:
    """All edits of all regions, in order. Values of edits may have no hash."""
    found: list[Edit] = []
    for edit in chain.from_iterable(edits):
        if edit not in found:
            found.append(edit)
    return tuple(found)


AnyRun: TypeAlias = ApplicationRun | JoinedRun
"""The run of an application, of one region or of several."""
