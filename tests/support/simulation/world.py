"""A simulated world: one seed says all that happens in it. See `tests/simulation`.

The engine's own code there: STRAM (`stram/`), `ApplicationRun`, checkpoint, journal, retention, state repair,
compactions (at once, in the driver's turn), outputs' half on the driver, `SlotExecutor`, `SlotGroup`, `Slot`,
`SlotLoop`, messages with their encoding, state files and segments. One seed in `REAL` also runs `Container`
with operators, blocks and routing; others run `LightContainer`, over the engine's cells and state files. In a
case of `Case.changing` somebody also asks for changes of the plan (`changing.py`): planner, moved states,
following slots and containers are the engine's own there, and what threads do is done at once.

Not there: what moves bytes (`Sockets`, `Connection`, handshake, frames, TLS: `Wires` delivers whole messages
in order). Nor `SlotJobs` and Spark, `hosting` and `slot_task` (signals, heartbeats, black box), the watchdog,
blocks by reference, plan files (only their presence), Spark sources, triggers, threads.

In some seeds the output is a `FileOutput`: its publisher, marker and segments are the engine's own over
`SimulatedOutputFiles`, and `Readers` look at the folder after each change. With light containers only the
segments are written by the simulation. In others a publisher of the simulation hands windows to the ledger.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from ridgeline import Application
from ridgeline.api.errors import CheckpointError, FencedError, OperatorError, RidgelineError, StateError
from ridgeline.engine.exchange.network import Peer
from ridgeline.plan.container_spec import ContainerSpec, container_specs
from ridgeline.plan.execution import Plan
from support.simulation.changing import CHANGE, changes_of
from support.simulation.disk import Disk, File
from support.simulation.driver import CommitThread, DriverProcess, SlotProcess
from support.simulation.ledger import Ledger
from support.simulation.model import Layout, application, cannot_write, layout
from support.simulation.platform import Platform, simulated_platform
from support.simulation.process import Killed, Process, SimulatedClock, ViolationError
from support.simulation.readers import Readers
from support.simulation.wires import Way, Wires

_FIRST_MOMENTS = 120
_MOMENTS_A_NUMBER = 18
"""About so many moments pass without faults: they strike within."""
SOCKETS = 7
"""One seed of so many has the engine's own network."""
REAL = 5
"""One seed of so many runs the engine's own containers, which take most of the time."""
FILES = 3
"""In one seed of so many the output writes files."""
REAL_FILES = 2 * REAL
"""Also in those of so many, which run the engine's own containers."""
_CHANGES = 4
"""In one of so many seeds with a spare slot the plan changes."""
_POWER_CUTS = 3
"""In one of so many seeds with rewinds the power fails besides."""
PATIENCE = 8000
"""So many moments after the last fault the application must have ended."""
_COUNTED = ("; the cluster has failed so for ", " times in a row, the last time so: ")
"""What a driver says that ends by the patience with its cluster."""
_NEWS_SECONDS = 5.0
"""So long it takes at most until a driver ends for what a fault has broken; one second is for a suspicion."""
_STEP_SECONDS = 0.0004
_IDLE_SECONDS = 0.1
"""So much time passes in a step where nobody has anything to do."""
_IDLE_STEPS = 8
"""So many such steps are one at most if a driver waits for a time to come: it has one turn in them."""
_DELIVERY = 0.5
_START = 0.3
_IDLE_TURN = 0.05
_IMPATIENCE = 0.02
"""How likely it is that a second driver is started in place of one that is stopped."""
_ASK_AGAIN = 20
"""So many moments later a change is asked for again that nobody was there to hear of."""
_MENDED = 0.3
"""How likely it is that a damaged file is mended once a container could not read it."""
_OF_SLOTS = ("kill slot", "job", "cut", "late", "no answer", "stop slot", "disown", "raise")
_BREAKING = ("kill slot", "job", "cut", "disown")
"""What a driver may count as a failure of the cluster. What is late or stands still only keeps news of it."""
_OF_DRIVERS = ("kill driver", "stop driver", "second driver")
_OF_DISKS = ("power", "full", "bad sync", "old file", "rot", "lost answer")
REWIND = "rewind"
"""The kind of a fault in which the driver dies and the next one goes back to an earlier window."""
TAKE = "take"
"""The kind of a fault in which readers take away all files that they see."""
KINDS = (*_OF_SLOTS, *_OF_DRIVERS, *_OF_DISKS)


class Fault(NamedTuple):
    """What strikes, and when; `number` chooses whom, how long, or how much."""

    moment: int
    kind: str
    number: int


@dataclass(frozen=True)
class Case:
    """All that a simulation depends on."""

    seed: int
    sources: int = 1
    partitions: int = 2
    slots: int = 2
    in_flight: int = 3
    burst: int = 1
    """So many frames of a connection may arrive at once."""
    total: int = 20
    """How many numbers each source emits."""
    large: float = 0.2
    """How many changes of state go to files."""
    interval: int = 3
    kept: int = 1
    segment_bytes: int = 1 << 20
    """A file of the journal is followed by the next from this size on."""
    real: bool = True
    """The containers are the engine's own; otherwise light ones, see `LightContainer`."""
    sockets: bool = False
    """The engine's own `Sockets` move bytes; otherwise whole messages travel, see `Ether` and `Wires`."""
    store: bool = False
    """The checkpoint lies in an object store."""
    forgets: bool = False
    """What a failed sync has not written stays unwritten, though later ones succeed; so Linux does it."""
    faults: tuple[Fault, ...] = ()
    speculates: bool = False
    """There is a spare slot for what a late one hosts."""
    folders: bool = False
    """Folders of the checkpoint are made when they are needed; others are there from the beginning."""
    files: str = ""
    """The format of the files that the output writes; "": it hands numbers over."""
    roll_seconds: float = 0.0
    """The files' property."""

    @classmethod
    def speculating(cls, seed: int, kinds: Sequence[str] = KINDS) -> Case:
        """The case of a seed with a spare slot, in which slots stand still besides; in some the plan changes.

        Others strike only once there is a past to be late by.
        """
        case = cls.changing(seed, kinds) if seed % _CHANGES == 0 else cls.of(seed, kinds)
        luck, total = random.Random(f"stops of {seed}"), max(case.total, 16)
        last = _FIRST_MOMENTS + _MOMENTS_A_NUMBER * total
        stops = [
            Fault(luck.randint(_FIRST_MOMENTS, last), "stop slot", luck.randrange(1 << 16))
            for _ in range(luck.randint(1, 5))
        ]
        return replace(case, total=total, faults=tuple(sorted([*case.faults, *stops])), speculates=True)

    @classmethod
    def changing(cls, seed: int, kinds: Sequence[str] = KINDS) -> Case:
        """The case of a seed in which somebody asks for changes of the plan beside the faults."""
        case, luck = cls.of(seed, kinds), random.Random(f"changes of {seed}")
        total = luck.choice((16, 32, 64))
        last = _FIRST_MOMENTS + _MOMENTS_A_NUMBER * total // 4
        asked = [Fault(moment, CHANGE, number) for moment, number in changes_of(luck, last)]
        return replace(case, total=total, real=True, faults=tuple(sorted([*case.faults, *asked])))

    @classmethod
    def rewinding(cls, seed: int, kinds: Sequence[str] = KINDS) -> Case:
        """The case of a seed in which somebody rewinds the run between two drivers, beside the faults."""
        luck = random.Random(f"rewinds of {seed}")
        case = replace(
            cls.of(seed, kinds), total=luck.choice((16, 32)), kept=luck.choice((3, 8))
        )._with_files()
        last = _FIRST_MOMENTS + _MOMENTS_A_NUMBER * case.total
        back = [
            Fault(luck.randint(_FIRST_MOMENTS, last), REWIND, luck.randrange(1 << 16))
            for _ in range(luck.randint(1, 4))
        ]
        if seed % _POWER_CUTS == 0:
            back.append(Fault(luck.randint(_FIRST_MOMENTS, last), "power", 0))
        others = [fault for fault in case.faults if fault.kind != TAKE]
        return replace(case, faults=tuple(sorted([*others, *back])), folders=True)

    @classmethod
    def of(cls, seed: int, kinds: Sequence[str] = KINDS) -> Case:
        """The case of a seed, with faults of these kinds."""
        luck = random.Random(seed)
        total = luck.choice((1, 2, 4, 8, 16))
        count = luck.choice((0, 1, 2, 3, 4, 6))
        kinds = luck.sample(kinds, luck.randint(1, len(kinds)))
        last = _FIRST_MOMENTS + _MOMENTS_A_NUMBER * total
        faults = sorted(
            Fault(luck.randint(1, last), luck.choice(kinds), luck.randrange(1 << 16)) for _ in range(count)
        )
        case = cls(
            seed,
            sources=luck.choice((1, 1, 2)),
            partitions=luck.choice((2, 2, 3)),
            slots=luck.choice((1, 2, 3)),
            in_flight=luck.choice((2, 3, 5)),
            burst=luck.choice((1, 2, 8)),
            total=total,
            large=luck.choice((0.0, 0.3, 1.0)),
            interval=luck.choice((2, 3, 8)),
            kept=luck.choice((1, 2)),
            segment_bytes=luck.choice((1, 1000, 1 << 20)),
            store=luck.random() < 0.3,
            real=seed % REAL == 0,
            sockets=seed % SOCKETS == 0,
            faults=tuple(faults),
            forgets=luck.random() < 0.5,
        )
        return case._with_files() if seed % FILES == 0 or seed % REAL_FILES == 0 else case

    def world(self, log: Callable[[str], None] | None = None) -> World:
        """Where it is simulated."""
        return World(self, log)

    def _with_files(self) -> Case:
        """The same with an output that writes files, which readers may take away."""
        luck = random.Random(f"files of {self.seed}")
        taken = [
            Fault(luck.randint(_FIRST_MOMENTS, _FIRST_MOMENTS + _MOMENTS_A_NUMBER * self.total), TAKE, 0)
            for _ in range(luck.choice((0, 0, 1, 3)))
        ]
        return replace(
            self,
            files="parquet" if self.real and luck.random() < 0.2 else "jsonl",
            roll_seconds=luck.choice((0.0, 0.01, 0.5)),
            faults=tuple(sorted([*self.faults, *taken])),
        )


class Timeline:
    """Moments, and what is due at them: faults, and what they have put off."""

    patience = PATIENCE
    """So many moments after the last fault it must have ended."""
    clock: SimulatedClock

    def __init__(self, faults: Sequence[Fault], log: Callable[[str], None] | None) -> None:
        self.log = log
        self.moments = 0
        self._faults = list(faults)
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._last_fault = 0
        self._due = 0
        """The moment from which on a fault strikes, or the world has been waiting for too long."""

    def moment(self, process: Process | None, what: str) -> None:
        """Something happens now; faults that are due strike."""
        self.moments += 1
        if self.log is not None:
            self.log(f"{self.moments} {process.name if process else '-'}: {what}")
        if self.moments >= self._due:
            self._happen(process)

    def _happen(self, process: Process | None) -> None:
        """Do what is due."""
        while self._later and self._later[0][0] <= self.moments:
            self._later.pop(0)[1]()
        while self._faults and self._faults[0].moment <= self.moments:
            fault = self._faults.pop(0)
            if self.log is not None:
                self.log(f"{self.moments} {fault}")
            self._last_fault = self.moments
            self._strike(fault, process)
        if not self._faults and self.moments > self._last_fault + self.patience:
            self._stands_still()
        self._plan()

    def _plan(self) -> None:
        """Note when something is due next."""
        due = self._faults[0].moment if self._faults else self._last_fault + self.patience + 1
        self._due = min(due, self._later[0][0]) if self._later else due

    def after(self, moments: int, action: Callable[[], None]) -> None:
        """Do something later."""
        due = self.moments + moments
        self._last_fault = max(self._last_fault, due)
        self._later.append((due, action))
        self._later.sort(key=lambda one: one[0])
        self._plan()

    def pass_time(self, steps: int) -> int:
        """Nothing happens for so many steps, or until something is due."""
        steps = min(steps, max(1, self._due - self.moments))
        self.moments += steps - 1
        self.clock.seconds += steps * _IDLE_SECONDS
        return steps

    def _strike(self, fault: Fault, process: Process | None) -> None:
        """A fault is there."""

    def _stands_still(self) -> None:
        """The patience is over."""


class World(Timeline):
    """Everything there is: processes, disk, wires, clock, and what is true."""

    def __init__(self, case: Case, log: Callable[[str], None] | None = None) -> None:
        shape = case.sources, case.partitions, case.in_flight, case.interval, case.kept
        kinds = [fault.kind for fault in case.faults]
        attempts = kinds.count("raise")  # what slots and the network do counts as none
        if {CHANGE, REWIND, *_OF_DRIVERS, *_OF_DISKS}.intersection(kinds):
            attempts = 1000
        self._shape = *shape, case.speculates, attempts, case.files, case.roll_seconds
        self._begin(case, layout(*self._shape), random.Random(case.seed), SimulatedClock(), case.faults, log)
        self.changes = any(fault.kind == CHANGE for fault in case.faults)
        self.ledger = Ledger(self.layout, case.total, case.large)
        self.readers = Readers(self.disk, self.ledger)
        if case.files:
            self.ledger.readers, self.disk.on_change = self.readers, self.readers.look

    def _begin(
        self,
        case: Case,
        layout: Layout,
        luck: random.Random,
        clock: SimulatedClock,
        faults: Sequence[Fault],
        log: Callable[[str], None] | None,
        number: int = 0,
    ) -> None:
        """What each world has. `number`: of a region, which is a part of a world."""
        super().__init__(faults, log)
        self.case, self.layout, self.luck, self.clock = case, layout, luck, clock
        self.specs: dict[str, Mapping[int, ContainerSpec]] = {}
        """The containers of each plan, by the name of its file."""
        self.changes = True
        """The plan changes."""
        self.rewind: int | None = None
        """The next driver rewinds, to the window that this chooses."""
        self.ends = 0
        """How often a driver has ended by its patience with the cluster."""
        self.hedges = 0
        """How often the spare slot took the place of a late one."""
        self.disk = Disk(random.Random(case.seed + number))
        self.disk.on_delete = lambda name: self.ledger.deleted(name, self.disk.names)
        self.disk.forgets = case.forgets
        self.busy: dict[Way, Wires] = {}
        self.drivers: list[DriverProcess] = []
        self.slots: list[SlotProcess] = []
        self.waiting: list[tuple[DriverProcess, int, int]] = []
        """Tasks of slots that Spark is to begin."""
        self.done = False
        self._count = 0
        self._disturbed = False
        """The disk has done something that a driver may stop for."""
        self._rivals = False
        """There were two drivers at once."""
        self._noted = False
        self._broken_at = -1e9
        """When a fault has broken something in the cluster last, or let go of news of it."""
        self._mend: Callable[[], None] | None = None
        self._idle_steps = 1

    def application(self) -> Application:
        """The application, as its file says."""
        return application(*self._shape)

    def specs_of(self, plan: Plan) -> Mapping[int, ContainerSpec]:
        """The containers of a plan."""
        return {spec.id: spec for spec in container_specs(plan)}

    # Time ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Live until the application has ended. Raises ViolationError."""
        with simulated_platform(self.case.segment_bytes):
            while not self.done:
                self.step()
            for _ in range(200):
                if not any(one.stopped == 0 for one in self.drivers):
                    break
                self.step()
            self.ledger.check_end()

    def _stands_still(self) -> None:
        if not self.done:
            self.ledger.violate(f"the application does not go on: {self.ledger.last} is committed")

    def step(self) -> int:
        """Let something happen; returns for how many steps it counts."""
        self.moment(None, "step")
        passed = 1
        random = self.luck.random
        chance = random()
        self.clock.seconds += _STEP_SECONDS * chance
        if self.busy and chance < _DELIVERY:
            self._deliver()
        elif self.waiting and random() < _START:
            self._begin_task()
        else:
            turns, passed = self._turns()
            if turns:
                one = turns[int(random() * len(turns))]
                if isinstance(one, SlotProcess):
                    self._turn_slot(one)
                elif isinstance(one, DriverProcess):
                    self._turn_driver(one)
                else:
                    one.turn()
        return passed

    def _deliver(self) -> None:
        """Let what is on some way arrive."""
        ways = list(self.busy)
        way = ways[int(self.luck.random() * len(ways))]
        wires = self.busy[way]
        for _ in range(self.case.burst):
            if not wires.deliver(way):
                break

    def _turns(self) -> tuple[list[DriverProcess | SlotProcess | CommitThread], int]:
        """Who could do something now, and how many steps have passed.

        If no driver could, one may be started.
        """
        random = self.luck.random
        turns: list[DriverProcess | SlotProcess | CommitThread] = [one for one in self.slots if one.has_work]
        turns += [one.commits for one in self.drivers if one.commits.waits]
        idle = not (turns or self.busy or self.waiting)
        drivers = [one for one in self.drivers if not one.stopped]
        working: list[DriverProcess | SlotProcess | CommitThread] = [one for one in drivers if one.has_work]
        if not idle or working:
            self._idle_steps = 1
        passed = self._pass_time(self._idle_steps if drivers else 1) if idle else 1
        if idle:
            turns += drivers
        else:
            turns += working or [one for one in drivers if random() < _IDLE_TURN]
        if not drivers and not self.done and (not self.drivers or random() < _IMPATIENCE):
            self._start_driver()
            return [], passed
        return turns, passed

    def _pass_time(self, steps: int) -> int:
        """As `pass_time`; twice as long the next time."""
        passed = self.pass_time(steps)
        self._idle_steps = min(2 * passed, _IDLE_STEPS)
        return passed

    def nested(self, process: Process, steps: int) -> None:
        """A process is stopped, in the midst of something, while others go on."""
        process.stopped += 1
        try:
            while steps > 0 and process.alive and not self.done:
                steps -= self.step()
        finally:
            process.stopped -= 1
            self.breaks()

    def go_on(self, process: Process, steps: int) -> None:
        """A thread of a process waits while others go on, and its other threads."""
        while steps > 0 and process.alive and not self.done:
            steps -= self.step()

    def wait_for(self, process: Process, condition: Callable[[], bool], seconds: float) -> None:
        """A process waits, at most so long."""
        deadline = self.clock.seconds + seconds
        process.stopped += 1
        try:
            while process.alive and not condition() and self.clock.seconds < deadline:
                self.clock.seconds += 0.01
                self.step()
        finally:
            process.stopped -= 1

    # Processes ----------------------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        """Start a driver, perhaps beside one that lives."""
        self._count += 1
        self.drivers.append(DriverProcess(self, self._count))
        self._rivals |= len(self.drivers) > 1

    def _turn_driver(self, driver: DriverProcess) -> None:
        driver.stopped += 1
        try:
            if driver.turn():
                self.done = True
                self._forget(driver)
        except Killed:
            self._forget(driver)
        except FencedError as error:
            self._forget(driver)
            if not self._rivals:
                self._unexpected(error)
        except (CheckpointError, StateError, OSError) as error:
            self._forget(driver)
            if not self._disturbed and not self._rivals:
                self._unexpected(error)
            if self._mend is not None:
                self._mend()
            self._mend, self._disturbed = None, self._disk_disturbs
        except Exception as error:  # noqa: BLE001  a violation, but for some
            self._forget(driver)
            if not self._excuses_output(driver, error) and not self._excuses_patience(driver, error):
                self._unexpected(error)
            self._disturbed = self._disk_disturbs
        finally:
            driver.stopped -= 1
        if self.changes:
            self.ledger.plans.check()
        if self.ledger.violation is not None:
            raise self.ledger.violation

    @property
    def _disk_disturbs(self) -> bool:
        """Whether what a disk or a store has begun to do is not over."""
        return self.disk.full or self.disk.bad_syncs > 0 or self.disk.unanswered > 1

    def _unexpected(self, error: BaseException) -> NoReturn:
        text = "".join(traceback.format_exception(error)[-6:])
        self.ledger.violate(f"unexpected {type(error).__name__}: {error}\n{text}")

    def _excuses_output(self, driver: DriverProcess, error: Exception) -> bool:
        """True if a publisher may end its driver so: by what the disk does, or by a later driver."""
        return isinstance(error, RidgelineError) and (driver.is_overtaken or cannot_write(error))

    def _excuses_patience(self, driver: DriverProcess, error: Exception) -> bool:
        """True if a driver may end so by its patience with the cluster, see `docs/clusters.md`.

        It may once no window has run for so long, and a fault has then broken something again. What is
        committed is kept: the next driver goes on.
        """
        if not isinstance(error, OperatorError):
            return False
        what, now = error.failure.error, self.clock.seconds
        counted = any(text in what for text in _COUNTED)
        waited = now - driver.went_on >= Platform.patience_seconds
        excused = counted and waited and now - self._broken_at <= _NEWS_SECONDS
        self.ends += excused
        return excused

    def hung_up(self, slot: SlotProcess, peer: Peer) -> None:
        """A slot ends its connection with another one. If both are there, that is a failure of an attempt.

        It is allowed with a spare: which slot that is may be another one by the time that it is read.
        """
        group = slot.driver.executor._group
        there = group is not None and slot.driver.alive and group.has(slot.endpoint.me) and group.has(peer)
        if there and not self.case.speculates:
            self.ledger.violate(f"{slot.name} hangs up on {peer}, which is there")

    def breaks(self) -> None:
        """A fault breaks something in the cluster, or lets go of news of it."""
        self._broken_at = self.clock.seconds

    def excuses(self, slot: SlotProcess, error: Exception) -> bool:
        """True if a container may fail so: by what the disk does, or by what others have removed since.

        These are a later driver, and the one that has given the slot up, or has another one run what it was
        late with: it keeps no file for that one.
        """
        overtaken = self._rivals or not slot.driver.alive or slot.disowned or slot.is_spare
        excused = isinstance(error, StateError | OSError) and (self._disturbed or overtaken)
        if cannot_write(error):
            return True
        if excused and self._mend is not None and self.luck.random() < _MENDED:
            self._mend()
            self._mend = None
        return excused

    def _forget(self, driver: DriverProcess) -> None:
        """A driver is gone, and so are its connections."""
        driver.alive = False
        if self.disk.owner is driver:
            self.disk.owner = None
        if driver in self.drivers:
            self.drivers.remove(driver)
        for peer, endpoint in list(driver.wires.endpoints.items()):
            if peer.slot < 0:
                driver.wires.kill(endpoint, 0)
        self.waiting = [one for one in self.waiting if one[0] is not driver]

    def _begin_task(self) -> None:
        driver, slot, attempt = self.waiting.pop(int(self.luck.random() * len(self.waiting)))
        self.slots.append(SlotProcess(self, driver, slot, attempt))

    def _turn_slot(self, one: SlotProcess) -> None:
        one.stopped += 1
        try:
            one.loop.turn(0.0)
        except Killed:
            return
        except Exception as error:  # noqa: BLE001  a violation
            self._unexpected(error)
        finally:
            one.stopped -= 1
        if self.ledger.violation is not None:
            raise self.ledger.violation
        if one.slot.over and one.alive:
            self.kill_slot(one, lost=0, leaves=True)

    def kill_slot(self, one: SlotProcess, *, lost: int, for_good: bool = False, leaves: bool = False) -> None:
        """A slot's process is gone."""
        one.alive = False
        self.slots.remove(one)
        one.driver.wires.kill(one.endpoint, lost)
        if one.driver.jobs is not None and one.driver.alive and not one.disowned:
            if leaves:
                one.driver.jobs.left(one.number, one.attempt)
            else:
                one.driver.jobs.died(one.number, one.attempt, for_good=for_good)

    # Faults -------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault, process: Process | None) -> None:
        kind, number = fault.kind, fault.number
        if kind == CHANGE:
            self._ask(number)
        elif kind == REWIND:
            self.rewind = number
            for driver in list(self.drivers):
                self._forget(driver)
        elif kind == TAKE:
            self.readers.take()
        elif kind in _OF_SLOTS:
            if self.slots:
                self._strike_slot(kind, self.slots[number % len(self.slots)], number, process)
        elif kind in _OF_DRIVERS:
            if self.drivers and not self.done:
                self._strike_driver(kind, self.drivers[-1], number, process)
        else:
            self._strike_disk(kind, number)

    def _ask(self, number: int) -> None:
        """Ask for a change, once there is somebody to ask."""
        driver = next((one for one in reversed(self.drivers) if one.run is not None), None)
        if driver is not None:
            self.ledger.plans.ask(driver, number)
        elif not self.done:
            self.after(_ASK_AGAIN, lambda: self._ask(number))

    def _strike_slot(self, kind: str, slot: SlotProcess, number: int, process: Process | None) -> None:
        if kind in _BREAKING:
            self.breaks()
        match kind:
            case "kill slot":
                self.kill_slot(slot, lost=number % 4)
            case "job":
                self.kill_slot(slot, lost=number % 4, for_good=True)
            case "cut":
                self._cut(slot, number)
            case "late":
                self._hold(slot, number)
            case "no answer":
                slot.endpoint.refuses = 1 + number % 3
            case "stop slot":
                self._stop(slot, 20 + number % 300, process)
            case "disown":
                if slot.driver.jobs is not None and not slot.disowned:
                    slot.disowned = True
                    slot.driver.jobs.died(slot.number, slot.attempt, for_good=False)
                    self._stop(slot, number % 300, process)
            case "raise":
                slot.containers.life.fail_after = 1 + number % 8

    def _strike_driver(self, kind: str, driver: DriverProcess, number: int, process: Process | None) -> None:
        match kind:
            case "kill driver":
                self._forget(driver)
            case "stop driver":
                self._stop(driver, 20 + number % 300, process)
            case "second driver":
                self.disk.lock_is_broken = True
                self._start_driver()
                self._stop(driver, number % 600, process)

    def _strike_disk(self, kind: str, number: int) -> None:
        match kind:
            case "power":
                self._lose_power()
            case "full":
                self._disturbed = self.disk.full = True
                self.after(number % 100, self._free)
            case "bad sync":
                self._disturbed = True
                self.disk.bad_syncs = 1
            case "old file" if self._noted and not self.case.store and self._mend is None:
                self._damage("journal", number, old=True)
            case "rot" if self._noted and not self.case.store and self._mend is None:
                self._damage("state" if number % 2 else "journal", number // 2, old=False)
            case "lost answer":
                self._disturbed |= number % 2 > 0
                self.disk.unanswered = 1 + number % 2

    def _free(self) -> None:
        self.disk.full = False

    def _stop(self, one: DriverProcess | SlotProcess, steps: int, process: Process | None) -> None:
        """Stop a process: here and now if it is the one that does something."""
        if one is process:
            self.nested(one, steps)
            return
        one.stopped += 1

        def go_on() -> None:
            one.stopped -= 1
            self.breaks()

        self.after(steps, go_on)

    def _cut(self, slot: SlotProcess, number: int) -> None:
        """Cut a connection of a slot."""
        peers = list(slot.endpoint.outward)
        if peers:
            slot.driver.wires.cut(slot.endpoint, peers[number // 7 % len(peers)], lost=number % 3)

    def _lose_power(self) -> None:
        """All processes die, the disk keeps what was synced."""
        for slot in list(self.slots):
            slot.alive = False
        self.slots.clear()
        self.busy.clear()
        for driver in list(self.drivers):
            self._forget(driver)
        self.busy.clear()
        if not self.case.store:
            self.disk.lose_power()
        if self.case.files:
            self.readers.look_again()
        self._noted = False

    def _damage(self, folder: str, number: int, *, old: bool) -> None:
        """The driver dies; its next one finds a file as it was before, or with another byte."""
        for driver in list(self.drivers):
            self._forget(driver)
        names = sorted(self.disk.folders.get(folder, ()))
        if not names:
            return
        file: File = self.disk.names[f"{folder}/{names[-1 if old else number % len(names)]}"]
        if file.data:
            place = number % len(file.data)
            self._mend = file.cut(place) if old else file.rot(place, 1 + number % 255)
            self._disturbed = True

    def _hold(self, slot: SlotProcess, number: int) -> None:
        """Let what goes to a slot, or comes from it, be late."""
        ways = slot.endpoint.inward if number % 2 else slot.endpoint.outward
        if ways:
            way = ways[list(ways)[number // 2 % len(ways)]]
            wires = slot.driver.wires
            wires.hold(way)

            def release() -> None:
                wires.release(way)
                self.breaks()

            self.after(number % 400, release)

    def committed(self) -> None:
        """A driver has committed a window: see whether there is a note of it beside the journal."""
        note = self.disk.names.get("committed/last")
        self._noted = note is not None and f" {self.ledger.last:012d} ".encode() in note.data


def simulate(case: Case, log: Callable[[str], None] | None = None) -> World:
    """Run a case. Raises ViolationError."""
    world = case.world(log)
    try:
        world.run()
    except ViolationError:
        if world.ledger.violation is not None:
            raise world.ledger.violation from None
        raise
    return world
