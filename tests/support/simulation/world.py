"""A simulated world: one seed says all that happens in it. See `tests/simulation`."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from ridgeline.api.errors import CheckpointError, FencedError, StateError
from support.simulation.disk import Disk, File
from support.simulation.driver import DriverProcess, SlotProcess
from support.simulation.ledger import Ledger
from support.simulation.model import layout
from support.simulation.platform import simulated_platform
from support.simulation.process import Killed, Process, SimulatedClock, ViolationError
from support.simulation.wires import Way, Wires

PATIENCE = 8000
"""So many moments after the last fault the application must have ended."""
_STEP_SECONDS = 0.0004
_IDLE_SECONDS = 0.1
"""So much time passes where nobody has anything to do."""
_DELIVERY = 0.5
_START = 0.3
_IDLE_TURN = 0.2
_IMPATIENCE = 0.02
"""How likely it is that a second driver is started in place of one that is stopped."""
_OF_SLOTS = ("kill slot", "job", "cut", "stop slot", "raise")
_OF_DRIVERS = ("kill driver", "stop driver", "second driver")
_OF_DISKS = ("power", "full", "bad sync", "old file")
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
    total: int = 20
    """How many numbers each source emits."""
    large: float = 0.2
    """How many changes of state go to files."""
    interval: int = 3
    kept: int = 1
    segment_bytes: int = 1 << 20
    """A file of the journal is followed by the next from this size on."""
    store: bool = False
    """The checkpoint lies in an object store."""
    forgets: bool = False
    """What a failed sync has not written stays unwritten, though later ones succeed; so Linux does it."""
    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, seed: int) -> Case:
        """The case of a seed."""
        luck = random.Random(seed)
        count = luck.choice((0, 1, 2, 3, 4, 6))
        kinds = luck.sample(KINDS, luck.randint(1, len(KINDS)))
        faults = sorted(
            Fault(luck.randint(1, 400), luck.choice(kinds), luck.randrange(1 << 16)) for _ in range(count)
        )
        return cls(
            seed,
            sources=luck.choice((1, 1, 2)),
            partitions=luck.choice((2, 2, 3)),
            slots=luck.choice((1, 2, 3)),
            in_flight=luck.choice((2, 3, 5)),
            total=luck.choice((2, 4, 8, 12, 25)),
            large=luck.choice((0.0, 0.3, 1.0)),
            interval=luck.choice((2, 3, 8)),
            kept=luck.choice((1, 2)),
            segment_bytes=luck.choice((1, 1000, 1 << 20)),
            store=luck.random() < 0.3,
            faults=tuple(faults),
            forgets=luck.random() < 0.5,
        )


class World:
    """Everything there is: processes, disk, wires, clock, and what is true."""

    def __init__(self, case: Case, log: Callable[[str], None] | None = None) -> None:
        self.case = case
        self.luck = random.Random(case.seed)
        self.layout = layout(case.sources, case.partitions, case.in_flight, case.interval, case.kept)
        self.ledger = Ledger(self.layout, case.total, case.large)
        self.disk = Disk(random.Random(case.seed))
        self.disk.on_delete = lambda name: self.ledger.deleted(name, self.disk.names)
        self.disk.forgets = case.forgets
        self.clock = SimulatedClock()
        self.busy: dict[Way, Wires] = {}
        self.drivers: list[DriverProcess] = []
        self.slots: list[SlotProcess] = []
        self.waiting: list[tuple[DriverProcess, int, int]] = []
        """Tasks of slots that Spark is to begin."""
        self.moments = 0
        self.done = False
        self._log = log
        self._faults = list(case.faults)
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._count = 0
        self._last_fault = 0
        self._disturbed = False
        """The disk has done something that a driver may stop for."""
        self._rivals = False
        """There were two drivers at once."""
        self._noted = False
        self._mend: Callable[[], None] | None = None
        self._depth = 0

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

    def moment(self, process: Process | None, what: str) -> None:
        """Something happens now; faults that are due strike."""
        self.moments += 1
        if self._log is not None:
            self._log(f"{self.moments} {process.name if process else '-'}: {what}")
        while self._later and self._later[0][0] <= self.moments:
            self._later.pop(0)[1]()
        while self._faults and self._faults[0].moment <= self.moments:
            fault = self._faults.pop(0)
            if self._log is not None:
                self._log(f"{self.moments} {fault}")
            self._last_fault = self.moments
            self._strike(fault, process)
        if not self._faults and self.moments > self._last_fault + PATIENCE and not self.done:
            self.ledger.violate(f"the application does not go on: {self.ledger.last} is committed")

    def _after(self, moments: int, action: Callable[[], None]) -> None:
        due = self.moments + moments
        self._last_fault = max(self._last_fault, due)
        self._later.append((due, action))
        self._later.sort(key=lambda one: one[0])

    def step(self) -> None:
        """Let something happen."""
        self.moment(None, "step")
        luck = self.luck
        self.clock.seconds += _STEP_SECONDS * luck.random()
        if self.busy and luck.random() < _DELIVERY:
            ways = list(self.busy)
            way = ways[int(luck.random() * len(ways))]
            self.busy[way].deliver(way)
            return
        if self.waiting and luck.random() < _START:
            self._begin_task()
            return
        turns: list[DriverProcess | SlotProcess] = [
            one for one in self.slots if not one.stopped and (one.endpoint.events or one.slot.ready)
        ]
        if not turns and not self.busy and not self.waiting:
            self.clock.seconds += _IDLE_SECONDS
            idle_turn = 1.0
        else:
            idle_turn = _IDLE_TURN
        driven = False
        for driver in self.drivers:
            if not driver.stopped:
                driven = True
                if driver.has_work or luck.random() < idle_turn:
                    turns.append(driver)
        if not driven and not self.done and (not self.drivers or luck.random() < _IMPATIENCE):
            self._start_driver()
            if self.drivers and self.drivers[-1].stopped and not turns:
                self.clock.seconds += _IDLE_SECONDS
        elif turns:
            one = turns[int(luck.random() * len(turns))]
            if isinstance(one, SlotProcess):
                self._turn_slot(one)
            else:
                self._turn_driver(one)

    def nested(self, process: Process, steps: int) -> None:
        """A process is stopped, in the midst of something, while others go on."""
        process.stopped += 1
        self._depth += 1
        try:
            while steps and process.alive and not self.done:
                steps -= 1
                self.step()
        finally:
            process.stopped -= 1
            self._depth -= 1

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
            self._mend, self._disturbed = None, self.disk.full
        except Exception as error:  # noqa: BLE001  a violation
            self._unexpected(error)
        finally:
            driver.stopped -= 1
        if self.ledger.violation is not None:
            raise self.ledger.violation
        if driver.run is not None and driver.alive:  # it has read all files
            self._mend = None

    def _unexpected(self, error: BaseException) -> NoReturn:
        text = "".join(traceback.format_exception(error)[-6:])
        self.ledger.violate(f"unexpected {type(error).__name__}: {error}\n{text}")

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
        if one.driver.jobs is not None and one.driver.alive:
            if leaves:
                one.driver.jobs.left(one.number, one.attempt)
            else:
                one.driver.jobs.died(one.number, one.attempt, for_good=for_good)

    # Faults -------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault, process: Process | None) -> None:
        kind, number = fault.kind, fault.number
        if kind in _OF_SLOTS:
            if self.slots:
                self._strike_slot(kind, self.slots[number % len(self.slots)], number, process)
        elif kind in _OF_DRIVERS:
            if self.drivers and not self.done:
                self._strike_driver(kind, self.drivers[-1], number, process)
        else:
            self._strike_disk(kind, number)

    def _strike_slot(self, kind: str, slot: SlotProcess, number: int, process: Process | None) -> None:
        match kind:
            case "kill slot":
                self.kill_slot(slot, lost=number % 4)
            case "job":
                self.kill_slot(slot, lost=number % 4, for_good=True)
            case "cut":
                self._cut(slot, number)
            case "stop slot":
                self._stop(slot, 20 + number % 300, process)
            case "raise":
                slot.models.fail_next = 1

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
                self._after(number % 100, self._free)
            case "bad sync":
                self._disturbed = True
                self.disk.bad_syncs = 1
            case "old file" if self._noted and not self.case.store and self._mend is None:
                self._give_old_file(number)

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

        self._after(steps, go_on)

    def _cut(self, slot: SlotProcess, number: int) -> None:
        """Cut a connection of a slot."""
        peers = list(slot.endpoint.outward)
        if peers:
            way = slot.endpoint.outward[peers[number // 7 % len(peers)]]
            slot.driver.wires.cut(slot.endpoint, way.target, lost=number % 3)

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
        self._noted = False

    def _give_old_file(self, number: int) -> None:
        """The driver dies; its next one finds the newest file of the journal as it was before."""
        for driver in list(self.drivers):
            self._forget(driver)
        names = sorted(self.disk.folders.get("journal", ()))
        if not names:
            return
        file: File = self.disk.names[f"journal/{names[-1]}"]
        whole = bytes(file.data)
        del file.data[number % len(whole) :]
        self._disturbed = True

        def mend() -> None:
            file.data[:] = whole

        self._mend = mend

    def committed(self) -> None:
        """A driver has committed a window: there is a note beside the journal."""
        self._noted = True


def simulate(case: Case, log: Callable[[str], None] | None = None) -> World:
    """Run a case. Raises ViolationError."""
    world = World(case, log)
    try:
        world.run()
    except ViolationError:
        if world.ledger.violation is not None:
            raise world.ledger.violation from None
        raise
    return world
