"""A simulated application of several regions: each is a `World` of its own, and all are one driver.

Regions share time, chance, the disk with the queues, and the driver's fate: it is killed, overtaken and
started again as a whole, though a region may die alone. Each has its slots, connections, journal and
checkpoint disk. Both ends of the queues are the library's own code, over the simulated disk
(`queue_files.py`). So are the planner of regions, live repartitions, and restarts with other partitions. The
loop that looks after the regions (`service/regions/running.py`) is not there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeline.api.errors import OperatorError
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.run.changes import APPLIED, REFUSED, Asked
from ridgeline.engine.state import state_files
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.edits import Edit, Repartition
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import StateVersion
from ridgeline.regions.queues import is_read
from ridgeline.stram.changes import EditPlan
from support.simulation.changing import CHANGE
from support.simulation.disk import Disk
from support.simulation.driver import DriverProcess, SlotProcess
from support.simulation.ledger import Ledger
from support.simulation.platform import simulated_platform
from support.simulation.process import Process, SimulatedClock, ViolationError
from support.simulation.queue_files import FOLDER, SYSTEM, at_work, queue_patches
from support.simulation.region_model import Shape, planned, region_layout, regions_of, specs_of, with_parts
from support.simulation.world import PATIENCE, Case, Fault, Timeline, World

_FIRST_MOMENTS = 150
_MOMENTS_A_ROW = 40
"""About so many moments pass for each row of a source and region: faults strike within."""
RESTART = "restart"
"""The kind of a fault in which the driver dies, and the application begins with other partitions."""
ALL = "kill all"
"""The kind of a fault in which the driver dies with all its regions; others kill one region."""
QUEUE_FULL, QUEUE_SYNC = "queue full", "queue sync"
REGION_KINDS = (
    "kill slot", "job", "cut", "late", "no answer", "stop slot", "disown", "raise",
    "kill driver", "stop driver", "second driver", ALL, ALL, RESTART, CHANGE, CHANGE,
    "power", "full", "bad sync", QUEUE_FULL, QUEUE_SYNC,
)  # fmt: skip
_FORMS = 96
"""So many applications are simulated: planning one takes longer than a run."""
_MOST_PARTS = 3
_EMPTY = 0.02
"""How likely it is that a region begins a window though nothing has come."""
_THREAD = 0.1
_IDLES = 0.05
_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((),),
    ((), (0,)),
    ((), (0,)),
    ((), (0,), (1,)),
    ((), (0,), (0,)),
    ((), (), (0, 1)),
    ((), (0,), (1,), (2,)),
    ((), (0,), (0,), (1, 2)),
    ((), (0,), (0,), (0,)),
    ((), (0,), (0, 1)),
)
"""What regions read: one, chains, fans, diamonds."""


@dataclass(frozen=True)
class RegionCase(Case):
    """All that a simulation of regions depends on."""

    reads: tuple[tuple[int, ...], ...] = ((), (0,))
    sinks: tuple[int, ...] = ()
    """The regions that have a sink though others read them."""
    parts: tuple[int, ...] = (2, 2)
    keep: float = 3600.0
    roll_entries: int = 4096
    queue_bytes: int = 1 << 20

    @classmethod
    def of(cls, seed: int, kinds: Sequence[str] = REGION_KINDS) -> RegionCase:
        """The case of a seed, with faults of these kinds."""
        luck, form = random.Random(f"regions of {seed}"), random.Random(f"shape {seed % _FORMS}")
        reads = form.choice(_SHAPES)
        total = luck.choice((1, 2, 4, 8))
        count = luck.choice((0, 1, 2, 3, 4, 6))
        kinds, all_kinds = luck.sample(kinds, luck.randint(1, len(kinds))), kinds
        changes = luck.randint(1, 5) if seed % 2 and CHANGE in all_kinds else 0
        if changes:
            total = luck.choice((8, 16))
        last = _FIRST_MOMENTS + _MOMENTS_A_ROW * total * len(reads)
        faults = sorted(
            [
                *(
                    Fault(luck.randint(1, last), luck.choice(kinds), luck.randrange(1 << 16))
                    for _ in range(count)
                ),
                *(Fault(luck.randint(1, last // 3), CHANGE, luck.randrange(1 << 16)) for _ in range(changes)),
            ]
        )
        return cls(
            seed,
            sources=form.choice((1, 1, 2)),
            slots=luck.choice((1, 1, 2, 3)),
            in_flight=form.choice((2, 3, 5)),
            burst=luck.choice((2, 8)),
            total=total,
            large=luck.choice((0.0, 0.3)),
            interval=form.choice((2, 8)),
            segment_bytes=luck.choice((1, 1000, 1 << 20)),
            faults=tuple(faults),
            forgets=luck.random() < 0.5,
            reads=reads,
            sinks=tuple(one for one in range(len(reads)) if form.random() < 0.3),
            parts=tuple(form.choice((1, 1, 2, 3)) for _ in reads),
            keep=form.choice((3600.0, 3600.0, 2.0, 0.5)),
            roll_entries=luck.choice((1, 3, 4096)),
            queue_bytes=luck.choice((1, 2000, 1 << 20)),
        )

    @property
    def shape(self) -> Shape:
        """The application as it is first."""
        read = {one for reads in self.reads for one in reads}
        ends = {one for one in range(len(self.reads)) if one not in read}
        return Shape(
            self.reads, frozenset(ends.union(self.sinks)), self.parts, self.sources, self.keep,
            self.in_flight, self.interval, self.kept,
        )  # fmt: skip

    def world(self, log: Callable[[str], None] | None = None) -> Any:
        """Where it is simulated."""
        return RegionsWorld(self, log)


class RegionLedger(Ledger):
    """What is true of a region: which windows are committed, which rows readers see."""

    def __init__(self, part: RegionPart) -> None:
        self.total = part.case.total
        self.large = part.case.large
        self.last = -1
        self.needed = set()
        self.rewinds = 0
        self.plans = Changes(self)  # type: ignore[assignment]  of regions
        self.readers = None
        self._part = part
        self._values = {}
        self._versions: dict[int, Mapping[str, Any]] = {}
        self._seen: dict[tuple[int, int], int] = {}
        """The number of the next row that readers are to see, by key and path."""
        self.windows: dict[int, list[Any]] = {}
        """The rows of published windows."""

    @property
    def violation(self) -> ViolationError | None:  # type: ignore[override]
        """The first of all regions."""
        return self._part.all.violation

    def violate(self, what: str) -> Any:
        world = self._part.all
        world.violation = world.violation or ViolationError(f"region {self._part.number}: {what}")
        raise world.violation

    def commit(self, window_id: int, states: Mapping[str, StateVersion]) -> None:
        versions = {key: tuple(map(state_files.covered, tuple(one)[-1:])) for key, one in states.items()}
        if (known := self._versions.get(window_id)) is not None:
            if known != versions:
                self.violate(f"window {window_id} was committed twice: {known}, {versions}")
        elif window_id <= self.last:
            self.violate(f"window {window_id} was committed after {self.last}")
        else:
            self._versions[window_id] = versions
            self.last = window_id
        if window_id == self.last:
            self.needed = {name for version in states.values() for name in version}

    def publish(self, window_id: int, values: Sequence[Any]) -> None:
        """Readers see rows of a window, or again those that they have seen of it."""
        if window_id not in self._versions:
            self.violate(f"window {window_id} was published before it was committed")
        if (known := self.windows.get(window_id)) is not None:
            if known != list(values):
                self.violate(f"window {window_id} was published with {known}, with {values} again")
            return
        self.windows[window_id] = list(values)
        for key, number, path in values:
            due = self._seen.get((key, path), 0)
            if number != due:
                self.violate(f"readers see row {number} of key {key} on path {path}, {due} is due")
            self._seen[key, path] = due + 1

    def check_end(self) -> None:
        """All rows have come to the sink."""
        part = self._part
        if part.number in part.all.case.shape.sinks:
            count = len(part.all.case.reads)
            wanted = {
                (key, path * 5 + part.number + 1): rows
                for (key, path), rows in part.all.case.shape.wanted(part.number, self.total).items()
            }
            assert count < 5
            if self._seen != wanted:
                self.violate(f"readers have seen {self._seen} at the end, not {wanted}")


class Changes:
    """What somebody asks of a region while it runs."""

    def __init__(self, ledger: RegionLedger) -> None:
        self.applied = self.refused = 0
        self._ledger = ledger
        self._open: list[Asked] = []

    def ask(self, driver: DriverProcess, number: int) -> None:
        """Repartition one of the operators that can be, which are the checks and readers of queues."""
        assert driver.run is not None
        names = [
            one.name
            for one in driver.run.plan.logical.operators
            if one.name.startswith("check") or "_to_" in one.name
        ]
        number, which = divmod(number, len(names))
        edits: tuple[Edit, ...] = (Repartition(names[which], 1 + number % _MOST_PARTS),)
        self._open.append(driver.run.changes.ask(EditPlan(edits), "somebody"))

    def begins(self, plan: Plan, last: Manifest | None) -> None:
        """A driver begins."""

    def committed(self, manifest: Manifest) -> None:
        """A driver takes a window for committed."""

    def check(self) -> None:
        """Note what came of it."""
        for asked in [one for one in self._open if one.done.is_set()]:
            self._open.remove(asked)
            self.applied += asked.state == APPLIED
            self.refused += asked.state == REFUSED


class RegionDriver(DriverProcess):
    """The part of a driver that runs a region."""

    def __init__(self, world: RegionPart, number: int) -> None:
        super().__init__(world, number)
        self.name = f"driver {number} of region {world.number}"
        self.threads: list[Any] = []
        self._part = world
        self._read = -1
        """How often somebody had appended to a log when the last window began."""
        self._tried = world.all.shape
        self._full = False
        """A full queue held it back in its last turn."""

    @property
    def _has_news(self) -> bool:
        return not self._part.reads or SYSTEM.appended != self._read

    @property
    def has_work(self) -> bool:
        if self.run is None or self.endpoint.events or self.commits.done:
            return True
        return self._has_news and self.run.master.can_begin and not self._full

    def turn(self) -> bool:
        run, luck = self.run, self.world.luck
        if run is None:
            self.run = self._start()
            return False
        if self.threads and luck.random() < _THREAD:
            luck.choice(self.threads).turn()
            return False
        master = run.master
        if master.ended and not master.under_way:
            run.close(orderly=True)
            return True
        if luck.random() < _IDLES:
            run.idle()
        elif run.may_begin and luck.random() < (0.7 if self._has_news else _EMPTY):
            self._read = SYSTEM.appended
            run.begin(master.next_window)
        else:
            run.turn(0.0)
        self._full = run.outputs.full is not None
        self._part.all.held += self._full
        return False

    def print(self, text: object, **_named: object) -> None:
        """A publisher warns: of a registration that a power cut has taken, and of nothing else."""
        if ".json` is corrupt" not in str(text):
            self.world.ledger.violate(f"warned: {text}")

    def _planned(self, values: Mapping[str, object], kept: Sequence[Edit], edits: Sequence[Edit]) -> Plan:
        part, (kept, edits) = self._part, (tuple(kept), tuple(edits))
        plan = planned(self._tried, part.number, kept, edits)
        if not edits:
            part.plans[id(plan)] = plan, specs_of(self._tried, part.number, kept)
        return plan


class RegionPart(World):
    """One region: its driver, slots, connections and checkpoint."""

    case: RegionCase

    def __init__(self, all_regions: RegionsWorld, number: int) -> None:
        self.all = all_regions
        self.number = number
        case: RegionCase = all_regions.case
        self.reads = case.reads[number]
        self._begin(
            case, region_layout(case.shape, number), all_regions.luck, all_regions.clock, (),
            all_regions.log, number,
        )  # fmt: skip
        self.plans: dict[int, Any] = {}
        self.ledger = RegionLedger(self)

    def specs_of(self, plan: Plan) -> Mapping[int, ContainerSpec]:
        if (known := self.plans.get(id(plan))) is not None:
            return known[1]  # type: ignore[no-any-return]
        return super().specs_of(plan)

    @property
    def works(self) -> bool:
        """Whether something can happen without waiting."""
        if self.busy or self.waiting or not self.drivers:
            return not self.done
        return any(one.has_work for one in self.slots) or any(
            one.commits.waits or one.has_work for one in self.drivers if not one.stopped
        )

    def moment(self, process: Process | None, what: str) -> None:
        self.all.moment(process, what)

    def after(self, moments: int, action: Callable[[], None]) -> None:
        self.all.after(moments, action)

    def step(self) -> int:
        return self.all.step()

    def act(self) -> int:
        """Let something happen in this region."""
        return World.step(self)

    def _pass_time(self, steps: int) -> int:
        if any(one.works for one in self.all.parts if one is not self and not one.done):
            return 1
        passed = self.all.pass_time(steps)
        self._idle_steps = min(2 * passed, 8)
        return passed

    def _start_driver(self) -> None:
        self._count += 1
        self.drivers.append(RegionDriver(self, self._count))
        self._rivals |= len(self.drivers) > 1

    def _turns(self) -> Any:
        turns, passed = super()._turns()
        return [_CommitTurn(one) if not isinstance(one, Process) else one for one in turns], passed

    def _turn_driver(self, driver: DriverProcess) -> None:
        with at_work(driver):
            super()._turn_driver(driver)

    def _turn_slot(self, one: SlotProcess) -> None:
        with at_work(one):
            super()._turn_slot(one)

    @property
    def _disk_disturbs(self) -> bool:
        queues = self.all.queues
        return super()._disk_disturbs or queues.full or queues.bad_syncs > 0

    def _excuses_output(self, driver: DriverProcess, error: Exception) -> bool:
        return super()._excuses_output(driver, error) or (self._disturbed and "simulated" in str(error))

    def excuses(self, slot: SlotProcess, error: Exception) -> bool:
        overtaken = self._rivals or not slot.driver.alive or slot.disowned
        if isinstance(error, OperatorError) and overtaken and "queue" in error.failure.operator:
            return True
        return super().excuses(slot, error)

    def strike(self, fault: Fault, process: Process | None) -> None:
        """A fault is of this region."""
        self._strike(fault, process)

    def disturb(self) -> None:
        """The disk with the queues does something."""
        self._disturbed = True

    def fall(self) -> None:
        """Its driver is gone."""
        for driver in list(self.drivers):
            self._forget(driver)
        self.done = False

    def lose_power(self) -> None:
        """All processes die."""
        self._lose_power()
        self.done = False

    def _strike_disk(self, kind: str, number: int) -> None:
        if kind == "power":
            self.all.lose_power()
        else:
            super()._strike_disk(kind, number)


class _CommitTurn:
    """The turn of a thread that commits."""

    def __init__(self, thread: Any) -> None:
        self._thread = thread

    def turn(self) -> None:
        """Commit."""
        with at_work(self._thread._driver):
            self._thread.turn()


class RegionsWorld(Timeline):
    """All regions, and what they share."""

    def __init__(self, case: RegionCase, log: Callable[[str], None] | None = None) -> None:
        super().__init__(case.faults, log)
        self.case = case
        self.patience = PATIENCE * len(case.reads)
        self.shape = case.shape
        """The application that the next driver begins with."""
        self.luck = random.Random(case.seed)
        self.clock = SimulatedClock()
        self.queues = Disk(random.Random(case.seed))
        self.queues.forgets = case.forgets
        self.violation: ViolationError | None = None
        self.held = 0
        """In so many turns a full queue held a region back."""
        self.parts = [RegionPart(self, number) for number in range(len(case.reads))]

    @property
    def ledger(self) -> RegionsWorld:
        """Where the violation is."""
        return self

    def run(self) -> None:
        """Live until all regions have ended. Raises ViolationError."""
        SYSTEM.begin(self.queues, self.luck)
        patches = tuple(queue_patches(self.case.roll_entries, self.case.queue_bytes))
        with simulated_platform(self.case.segment_bytes, patches):
            while not all(part.done for part in self.parts):
                self.step()
            for part in self.parts:
                part.ledger.check_end()
            self._check_queues()

    def _check_queues(self) -> None:
        """Each reader has registered that it has read all.

        Unless the disk refused that, or an older driver lived.
        """
        if {QUEUE_FULL, QUEUE_SYNC, "bad sync", "power", "second driver"}.intersection(
            fault.kind for fault in self.case.faults
        ):
            return
        with at_work(Process(self.parts[0], "somebody")):
            for region, _ in regions_of(self.shape):
                for edge in region.reads:
                    if not is_read(f"{FOLDER}/{edge.stream}", "app", edge.reader):
                        self.parts[0].ledger.violate(f"`{edge.reader}` has not read all at the end")

    def step(self) -> int:
        """Let something happen in one of the regions that have not ended."""
        left = [part for part in self.parts if not part.done]
        return left[int(self.luck.random() * len(left))].act() if left else 1

    def _stands_still(self) -> None:
        last = [part.ledger.last for part in self.parts]
        part = next(part for part in self.parts if not part.done)
        part.ledger.violate(f"it does not go on, {last} are committed")

    def _strike(self, fault: Fault, process: Process | None) -> None:
        number, which = divmod(fault.number, len(self.parts))
        part = self.parts[which]
        match fault.kind:
            case "kill all":
                self._fall()
            case "restart":
                self._fall()
                self.shape = with_parts(self.shape, which, 1 + number % _MOST_PARTS)
            case "queue full":
                self.queues.full = True
                self._disturb()
                self.after(number % 100, self._free)
            case "queue sync":
                self.queues.bad_syncs = 1
                self._disturb()
            case "second driver" if number % 2:
                number //= 2
                here = process if isinstance(process, DriverProcess | SlotProcess) else None
                for one in self.parts:
                    if here is None or one is not here.world:
                        one.strike(Fault(fault.moment, fault.kind, number), None)
                if here is not None and isinstance(here.world, RegionPart):
                    here.world.strike(Fault(fault.moment, fault.kind, number), process)
            case _:
                part.strike(Fault(fault.moment, fault.kind, number), process)

    def _fall(self) -> None:
        """The driver dies with all its regions."""
        SYSTEM.opened.clear()
        if not all(part.done for part in self.parts):
            for part in self.parts:
                part.fall()

    def _disturb(self) -> None:
        for part in self.parts:
            part.disturb()

    def _free(self) -> None:
        self.queues.full = False

    def lose_power(self) -> None:
        """All processes die, the disks keep what was synced."""
        SYSTEM.opened.clear()
        for part in self.parts:
            part.lose_power()
        self.queues.lose_power()
