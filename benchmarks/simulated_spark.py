"""Spark as the driver's half of slots sees it, in a simulation: hosts with places, and a job for each slot.

Hosts are names and numbers. A task whose process dies is begun again, some times, on a host that has a place.
Slots and hosts fail as `Failures` says.
"""

from __future__ import annotations

import base64
import itertools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.simulated_clock import Agenda
from benchmarks.simulated_costs import Costs
from ridgeline.engine.driver.slots.jobs import JobEnded
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.slot.task import JOINS, SlotTask

TRIES = 4
"""So often Spark begins the task of a job."""
SILENT_SECONDS = 15.0
"""After so long a host that acknowledges nothing is cut off."""
_CANCEL_SECONDS = 0.05


@dataclass(frozen=True)
class Failures:
    """How often slots and hosts fail, and for how long.

    `slot_hours`, `host_hours`: the mean time between two failures of one slot and of one host; 0: none.
    `away_seconds`: the shortest and the longest time until a host is back.
    """

    slot_hours: float = 0.0
    host_hours: float = 0.0
    away_seconds: tuple[float, float] = (20.0, 90.0)


@dataclass(slots=True)
class Process:
    """A process that is a slot: `hosted` are its containers, `tries` the tasks of its job before.

    `lost_at`: when its host has failed, which nobody knows yet.
    """

    peer: Peer
    host: str
    pid: int
    tries: int
    hosted: tuple[int, ...] = ()
    lost_at: float | None = None


@dataclass(slots=True, eq=False)
class _Job:
    """Spark's job of a slot. `first`: the attempt of its first process."""

    slot: int
    first: int
    hosts: Sequence[str]
    tries: int = 0
    over: bool = False


class SimulatedSpark:
    """Starts and ends the processes of slots; the `SlotJobs` of a platform.

    `places`: of each host. `processes`: of the slots that are there. `on_start(process)` is called for a new
    one, `on_loss(processes, cut)` for those that are lost at once, `on_silence(processes)` when a host fails.
    """

    def __init__(self, agenda: Agenda, places: Mapping[str, int], costs: Costs) -> None:
        self.places = places
        self.up = dict(places)
        """The hosts that Spark knows, and the places that are free there."""
        self.processes: dict[int, Process] = {}
        self.task: Callable[[int], str] = str
        self.on_start: Callable[[Process], None] = id
        self.on_loss: Callable[[Sequence[Process], bool], None] = lambda _lost, _cut: None
        self.on_silence: Callable[[Sequence[Process]], None] = id
        self._agenda = agenda
        self._clock = agenda.clock
        self._costs = costs
        self._jobs: dict[int, _Job] = {}
        self._waiting: dict[int, _Job] = {}
        """Jobs for which there was no place."""
        self._ended: list[JobEnded] = []
        self._pids = itertools.count(1_000)

    # As `SlotJobs` ------------------------------------------------------------------------------------------

    def node(self, _slot: int, host: str) -> str:
        """Spark has the same names for hosts."""
        return host

    def start(self, slot: int, hosts: Sequence[str] = ()) -> None:
        """Submit a job."""
        text = self.task(slot)
        with self._clock.apart():
            task: SlotTask = pickle.loads(base64.b64decode(text))
            job = self._jobs[slot] = _Job(slot, task.first_attempt, hosts)
            self._launch_after(job, self._costs.start())

    def cancel(self, slot: int) -> None:
        """End a slot's process."""
        with self._clock.apart():
            process = self.processes.get(slot)
            if process is not None:
                self._end(process)
            self.end_job(slot, RuntimeError("Job 1 cancelled"), _CANCEL_SECONDS)

    def connected(self, slot: int) -> None:
        """All jobs are watched."""

    def disconnected(self, slot: int) -> None:
        """As above."""

    @property
    def has_ended(self) -> bool:
        """True if a job has ended since the last call of `take_ended`."""
        return bool(self._ended)

    def take_ended(self) -> list[JobEnded]:
        """The jobs that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def close(self, seconds: float) -> None:
        """Nothing is left."""

    # Processes ----------------------------------------------------------------------------------------------

    def leave(self, process: Process) -> None:
        """A slot has come to its end by itself."""
        if self.processes.get(process.peer.slot) is process:
            self._end(process)
            self.end_job(process.peer.slot, None)

    def end_job(self, slot: int, error: Exception | None, seconds: float = 0.0) -> None:
        """A job ends, if it has not."""
        job = self._jobs.get(slot)
        if job is not None and not job.over:
            job.over = True
            self._waiting.pop(slot, None)
            self._agenda.after(seconds, lambda: self._ended.append(JobEnded(slot, error)))

    def kill(self, slot: int) -> None:
        """The process of a slot dies; Spark begins its task again."""
        process = self.processes[slot]
        self.on_loss([process], False)  # noqa: FBT003
        self._end(process)
        self._again(self._jobs[slot])

    def fail(self, host: str, away_seconds: float) -> None:
        """A host is gone for so long, with all that runs on it; Spark learns it once it was silent."""
        there = [one for one in self.processes.values() if one.host == host]
        for process in there:
            process.lost_at = self._clock.monotonic()
        self.up.pop(host, None)
        self.on_silence(there)
        self._agenda.after(SILENT_SECONDS, lambda: self._found(there))
        self._agenda.after(away_seconds, lambda: self._back(host))

    def _found(self, there: Iterable[Process]) -> None:
        """The slots of a host that has failed are lost."""
        lost = [one for one in there if self.processes.get(one.peer.slot) is one]
        self.on_loss(lost, True)  # noqa: FBT003
        for process in lost:
            del self.processes[process.peer.slot]
            self._again(self._jobs[process.peer.slot])

    def _back(self, host: str) -> None:
        self.up[host] = self.places[host]
        self._launch_waiting()

    def _end(self, process: Process) -> None:
        """A process has ended; its place is free if its host is there."""
        if self.processes.get(process.peer.slot) is process:
            del self.processes[process.peer.slot]
            if process.host in self.up and process.lost_at is None:
                self.up[process.host] += 1
                self._launch_waiting()

    def _again(self, job: _Job) -> None:
        """Begin the task of a job again, or give up."""
        if job.over:
            return
        job.tries += 1
        if job.tries == TRIES:
            self.end_job(job.slot, RuntimeError("Job aborted: Task 0 failed 4 times"))
        else:
            self._launch_after(job, self._costs.restart())

    def _launch_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for job in waiting.values():
            self._launch_after(job, self._costs.restart())

    def _launch_after(self, job: _Job, seconds: float) -> None:
        self._agenda.after(seconds, lambda: self._launch(job))

    def _launch(self, job: _Job) -> None:
        """Start the task of a job, if there is a place."""
        slot = job.slot
        if job.over or self._jobs.get(slot) is not job or slot in self.processes:
            return
        host = next((one for one in job.hosts if self.up.get(one, 0) > 0), None)
        if host is None:
            host = next((one for one, free in self.up.items() if free > 0), None)
        if host is None:
            self._waiting[slot] = job
            return
        self.up[host] -= 1
        peer = Peer(slot, job.first + JOINS * job.tries)
        process = self.processes[slot] = Process(peer, host, next(self._pids), job.tries)
        self.on_start(process)


class Trouble:
    """Lets slots and hosts fail, at times that are drawn. `slots`, `hosts`: how many have failed."""

    def __init__(self, agenda: Agenda, spark: SimulatedSpark, failures: Failures, seed: int = 0) -> None:
        self.slots = self.hosts = 0
        self._agenda = agenda
        self._spark = spark
        self._failures = failures
        self._random = Random(seed)

    def begin(self) -> None:
        """They fail from now on."""
        self._next(self._failures.slot_hours, len(self._spark.processes), self._fail_slot)
        self._next(self._failures.host_hours, len(self._spark.places), self._fail_host)

    def _next(self, hours: float, count: int, fail: Callable[[], None]) -> None:
        if hours and count:
            self._agenda.after(self._random.expovariate(count / (3600 * hours)), fail)

    def lose_slot(self) -> None:
        """One of the slots that host containers fails now."""
        processes = self._spark.processes.values()
        alive = [one.peer.slot for one in processes if one.lost_at is None and one.hosted]
        if alive:
            self.slots += 1
            self._spark.kill(self._random.choice(alive))

    def lose_host(self) -> None:
        """One of the hosts fails now, and is back after a while."""
        if len(self._spark.up) > 1:
            self.hosts += 1
            host = self._random.choice([*self._spark.up])
            self._spark.fail(host, self._random.uniform(*self._failures.away_seconds))

    def _fail_slot(self) -> None:
        self.lose_slot()
        self._next(self._failures.slot_hours, len(self._spark.processes), self._fail_slot)

    def _fail_host(self) -> None:
        self.lose_host()
        self._next(self._failures.host_hours, len(self._spark.places), self._fail_host)
