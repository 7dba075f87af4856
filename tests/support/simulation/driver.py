"""A driver and its slots in a simulated world: the engine's own code over simulated disk and wires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.checkpoint.rewinding import rewind, rewindable
from ridgeline.engine.driver.run.committing import Commits
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.slots.executor import SlotExecutor
from ridgeline.engine.exchange.network import STRAM, Peer
from ridgeline.engine.slot.messages import Joined, encode
from ridgeline.engine.slot.slot import Slot
from ridgeline.engine.slot.task import SlotLoop
from ridgeline.measure.events import RunEvent
from ridgeline.measure.slot_events import SlotEvent
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.control import AttemptFailed, ContainerReported, ExecutorEvent, ManifestWritten
from support.simulation.disk import SimulatedDisk, SimulatedStore
from support.simulation.ether import Ether
from support.simulation.model import Containers
from support.simulation.platform import Jobs, Platform
from support.simulation.process import Killed, Process
from support.simulation.wires import Endpoint, Wires

if TYPE_CHECKING:
    from support.simulation.world import World

_IDLES = 0.1
"""How likely it is that outputs may publish between windows, in a turn of a driver."""
_LONGEST_SYNC = 60
"""So many steps of the world one takes at most."""


class SimulatedCheckpoint(Checkpoint):
    """A checkpoint whose commits are noted in the ledger."""

    def __init__(self, driver: DriverProcess) -> None:
        self._world = driver.world
        self._ledger = driver.world.ledger
        super().__init__(driver.storage, "app")
        last = self.last()
        if max(self._world.disk.folders["epochs"]) == f"{self.epoch:08d}":  # else overtaken while stopped
            self._ledger.found(last.window_id if last else -1)
        if last:
            self._note(last)

    def commit(self, manifest: Manifest, changes: Mapping[str, bytes] = {}) -> Mapping[str, str]:
        names = super().commit(manifest, changes)
        last = self.last()
        assert last is not None
        self._note(last)
        self._world.committed()
        return names

    def _note(self, last: Manifest) -> None:
        """A window is committed."""
        if last.rewound_to is not None:
            self._ledger.rewound(last.window_id, last.rewound_to, last.states)
            return
        self._ledger.plans.committed(last)
        self._ledger.commit(last.window_id, last.states)


class CommitThread(Commits):
    """A driver's commits: has turns of its own. The world goes on while it syncs, the driver included."""

    def __init__(self, driver: DriverProcess) -> None:
        super().__init__()
        self.runs = False
        self._driver = driver
        self._begun: Callable[[], ManifestWritten] | None = None
        self._written: ManifestWritten | None = None
        self._error: Exception | None = None

    @property
    def waits(self) -> bool:
        """True if a turn would do something."""
        return self._begun is not None and not self._driver.stopped

    @property
    def done(self) -> bool:
        """True if a commit has ended of which the driver has not heard."""
        return self._written is not None or self._error is not None

    @property
    def under_way(self) -> bool:
        """True if the driver has not heard of the last commit."""
        return self._begun is not None or self.runs or self.done

    def begin(self, commit: Callable[[], ManifestWritten]) -> None:
        """Have the thread commit."""
        assert not self.runs, "a commit is under way"
        assert not self.done, "the driver has not heard of the last one"
        self._begun = commit

    def turn(self) -> None:
        """Commit."""
        commit, self._begun = self._begun, None
        assert commit is not None
        self.runs = True
        try:
            self._written = commit()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001  `finished` raises it
            self._error = error
        finally:
            self.runs = False

    def finished(self) -> ManifestWritten | None:
        """What it came to, if it is done."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        written, self._written = self._written, None
        return written

    def close(self) -> None:
        """Wait for a commit that has not begun yet."""
        assert not self.runs, "a driver ends in order while it commits"
        if self._begun is not None:
            self.turn()


class HeardExecutor(SlotExecutor):
    """Notes when a driver hears that an attempt that still counts has run in all containers."""

    def __init__(self, driver: DriverProcess, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._driver = driver
        self._ran: dict[tuple[int, int], set[int]] = {}
        """The containers that have reported, by window and attempt; none of those that are void."""

    def begin(self, request: WindowRequest, source: object) -> float:
        if request.states is not None:
            self._ran.clear()
        self._ran[request.window_id, request.attempt] = set()
        return super().begin(request, source)

    def poll(self, seconds: float) -> Sequence[ExecutorEvent]:
        events = super().poll(seconds)
        for event in events:
            if isinstance(event, AttemptFailed):
                self._ran.clear()
            elif isinstance(event, ContainerReported):
                window = event.report.window
                ran = self._ran.get((window.window_id, window.attempt), set())
                ran.add(window.container)
                if ran >= self._contents.containers.keys():
                    self._driver.went_on = self._clock.monotonic()
        return events


class DriverProcess(Process):
    """A driver: starts at its first turn."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"driver {number}")
        self.number = number
        view = SimulatedStore if world.case.store else SimulatedDisk
        self.storage = view(world.disk, self)
        self.wires = Ether(world) if world.case.sockets else Wires(world.busy)
        self.jobs: Jobs | None = None
        self.run: ApplicationRun | None = None
        self.executor: SlotExecutor
        self.endpoint: Endpoint
        self.commits = CommitThread(self)
        self.epoch: int | None = None
        self.went_on = world.clock.seconds
        """When it has heard last that a window ran, or when it was started."""

    @property
    def is_overtaken(self) -> bool:
        """True if another driver owns the checkpoint: `launch` takes that for the cause of any error."""
        return self.epoch is not None and max(self.world.disk.folders["epochs"]) != f"{self.epoch:08d}"

    @property
    def has_work(self) -> bool:
        """True if a turn would do something."""
        if self.run is None or self.endpoint.events or self.commits.done:
            return True
        return self.run.may_begin

    def turn(self) -> bool:
        """Do something. True once the application has ended in order."""
        if self.run is None:
            self.run = self._start()
            return False
        run, master = self.run, self.run.master
        if master.ended and not master.under_way:
            run.close(orderly=True)
            return True
        if self.world.case.files and self.world.luck.random() < _IDLES:
            run.idle()
        elif run.may_begin and self.world.luck.random() < 0.7:
            run.begin(master.next_window)
        else:
            run.turn(0.0)
        return False

    def _start(self) -> ApplicationRun:
        world = self.world
        checkpoint = SimulatedCheckpoint(self)
        self.epoch = checkpoint.epoch
        plan, planner = world.layout.plan, None
        if world.changes:
            planner = Planner(self._planned, {})
            plan = planner.settled(checkpoint.last())
            world.ledger.plans.begins(plan, checkpoint.last())
        self._rewind(checkpoint, plan)
        endpoint = self.endpoint = self.wires.join(Peer(STRAM, checkpoint.epoch), self)
        executor = self.executor = HeardExecutor(
            self,
            Platform(self, endpoint, world.case.slots + world.case.speculates),
            plan,
            self.storage,
            checkpoint.run_id,
            checkpoint.epoch,
            clock=world.clock,
            observe=self._observe,
        )

        return ApplicationRun(
            plan,
            checkpoint,
            executor,
            world.clock,
            self._contexts(checkpoint),
            commits=self.commits,
            planner=planner,
        )

    def _contexts(self, checkpoint: SimulatedCheckpoint) -> Callable[[str], PublisherContext]:
        """What publishers know, by operator."""

        def context(operator: str) -> PublisherContext:
            no: Any = None
            return PublisherContext(
                application="app",
                operator=operator,
                run_id=checkpoint.run_id,
                clock=self.world.clock,
                console=self,  # type: ignore[arg-type]  what is published goes there
                staging="",
                spark=no,
                epoch=checkpoint.epoch,
                check_owner=checkpoint.check_owner,
                committed=checkpoint.committed,
            )

        return context

    def _rewind(self, checkpoint: SimulatedCheckpoint, plan: Plan) -> None:
        """Go back to a window that is kept, if somebody wants that."""
        number, self.world.rewind = self.world.rewind, None
        if number is None:
            return
        kept = rewindable(checkpoint)[1:]
        if kept:
            window = kept[number % len(kept)].window_id
            rewind(checkpoint, plan, window, self.world.clock, self._contexts(checkpoint))

    def _observe(self, event: RunEvent) -> None:
        """Something has happened to the slots."""
        self.world.hedges += isinstance(event, SlotEvent) and event.kind == "speculated"

    def _planned(self, values: Mapping[str, object], kept: Sequence[Edit], edits: Sequence[Edit]) -> Plan:
        """The application with edits, planned anew."""
        return plan_application(self.world.application(), values, {}, kept=kept, edits=edits)

    def syncs(self) -> None:
        """It waits for a disk. If that is its thread for commits, the world goes on for a while."""
        if self.commits.runs:
            self.world.go_on(self, int(self.world.luck.random() ** 3 * _LONGEST_SYNC))

    def publish(self, window_id: int, values: Any) -> None:
        """Readers see a window now."""
        self.world.ledger.publish(window_id, values)
        self.point("published")

    # Its slots ----------------------------------------------------------------------------------------------

    def begin_task(self, slot: int, attempt: int) -> None:
        """Spark is to begin a slot's task, some time."""
        self.world.waiting.append((self, slot, attempt))

    def end_task(self, slot: int) -> None:
        """Spark ends a slot's task."""
        for process in list(self.world.slots):
            if process.driver is self and process.number == slot:
                self.world.kill_slot(process, lost=0, for_good=True)
        self.world.waiting = [one for one in self.world.waiting if one[:2] != (self, slot)]


class SlotProcess(Process):
    """A slot of a driver."""

    def __init__(self, world: World, driver: DriverProcess, number: int, attempt: int) -> None:
        super().__init__(world, f"slot {number} of {driver.name}")
        self.driver = driver
        self.number = number
        self.attempt = attempt
        self.disowned = False
        """Spark takes it for dead and has begun another."""
        me = Peer(number, attempt)
        self.endpoint = driver.wires.join(me, self)
        view = SimulatedStore if world.case.store else SimulatedDisk
        self.containers = Containers(self, view(world.disk, self), world, f"s{number}a{attempt}")
        self.slot = Slot(number, self.containers, world.clock)
        known = [one for peer, one in driver.wires.endpoints.items() if peer.slot == STRAM]
        stram, address = (known[0].me, known[0].address) if known else (Peer(STRAM, 0), "gone")
        self.loop = SlotLoop(self.slot, self.endpoint, stram)
        self.endpoint.connect(stram, address)
        joined = Joined("simulated", 1000 * (number + 1) + attempt, self.endpoint.address)
        self.endpoint.send(stram, *encode(joined))

    def hangs_up(self, peer: Peer) -> None:
        self.world.hung_up(self, peer)

    @property
    def is_spare(self) -> bool:
        """It hosts nothing any more, whether it has heard of that or not."""
        return self.number == self.driver.executor._slots.spare

    @property
    def has_work(self) -> bool:
        """True if a turn would do something."""
        return not self.stopped and bool(self.endpoint.events or (self.slot.ready and not self.loop._missing))
