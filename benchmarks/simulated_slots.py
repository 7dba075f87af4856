"""Slots that are simulated: the driver's half of slots runs as it is, over a network without processes.

The driver, its plan, STRAM, its checkpoint and its figures are the real ones. In place of Spark stands
`SimulatedSpark`, in place of the network `SimulatedNetwork`. It answers each message as a slot would, with
real reports. All of that happens in simulated time (`simulated_clock.py`). Its processor time is kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from typing_extensions import Buffer

from benchmarks.simulated_clock import START, Agenda
from benchmarks.simulated_costs import Costs, MeasuredCosts
from benchmarks.simulated_spark import SILENT_SECONDS, Process, SimulatedSpark
from benchmarks.simulated_windows import Key, SimulatedWindows
from ridgeline.api.support.pickling import dumps
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import (
    BROKEN,
    CLOSED,
    CUT,
    STRAM,
    Event,
    Lost,
    Opened,
    Peer,
    Received,
)
from ridgeline.engine.slot.messages import (
    End,
    Ended,
    FromSlot,
    Heartbeat,
    Host,
    Joined,
    Prepare,
    Prepared,
    Reported,
    RunAttempt,
    Unreachable,
    decode,
    encode,
)
from ridgeline.stram.placement import HostCapacity

_LINES_SECONDS = 5.0
"""So often a heartbeat has the time by line."""


class SimulatedNetwork:
    """STRAM's end of the connections to simulated slots; a `Network`.

    `labels`: what kinds of things the last `poll` has returned. `on_return` is called before `poll` returns,
    `on_call` when it is called again: the driver has dealt with all of it. `on_host`: called for a slot that
    gets containers, with the seconds between heartbeats. `sent_bytes`, `frames`: what the driver has sent.
    """

    refused: Mapping[str, int] = {}

    def __init__(
        self, agenda: Agenda, spark: SimulatedSpark, windows: SimulatedWindows, costs: Costs
    ) -> None:
        self.me = Peer(STRAM, 1)
        self.address = "unix:/simulated"
        self.sent_bytes = self.frames = 0
        self.labels: set[str] = set()
        self.closing = False
        """True once all slots end, so that nobody runs windows any more."""
        self.on_return: Callable[[], None] = bool
        self.on_call: Callable[[], None] = bool
        self.on_host: Callable[[Process, float | None], None] = lambda _process, _seconds: None
        self._agenda = agenda
        self._clock = agenda.clock
        self._spark = spark
        self._windows = windows
        self._costs = costs
        self._events: list[Event] = []
        self._runs: dict[Key, dict[int, tuple[float, RunAttempt]]] = {}
        """Attempts that are being sent: by slot, when it gets the request."""
        self._woken = False
        self._read: tuple[object, Any] = (None, None)
        """The last message that had no buffers, with its bytes: all slots get the same."""
        spark.on_start, spark.on_loss, spark.on_silence = self._joined, self._lost, self._silent

    def connect(self, peer: Peer, address: str) -> None:
        """Slots connect, not STRAM."""

    def send(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer] = ()) -> bool:
        """As `Network.send`: a slot reads the frame."""
        with self._clock.apart():
            self.frames += 1
            self.sent_bytes += len(memoryview(head)) + sum(len(memoryview(buffer)) for buffer in buffers)
            process = self._spark.processes.get(peer.slot)
            if process is None or process.peer != peer:
                return False
            if process.lost_at is None:
                self._take(process, self._decoded(peer, kind, head, buffers))
        return True

    def _take(self, process: Process, message: object) -> None:
        """A slot takes in what STRAM says."""
        match message:
            case Host(containers=containers, heartbeat_seconds=every):
                if containers and not process.hosted:
                    self.on_host(process, every)
                process.hosted = containers
            case RunAttempt(request):
                key = Key(request.window_id, request.attempt)
                arrived = self._clock.monotonic() + self._costs.hop()
                self._runs.setdefault(key, {})[process.peer.slot] = arrived, message
            case Prepare(plan=plan):
                answer = Prepared(plan.name)
                self._agenda.after(self._costs.restart(), lambda: self.answer(process, answer, "prepared"))
            case End():
                self._agenda.after(self._costs.hop(), lambda: self._leave(process))

    def _decoded(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer]) -> object:
        if head is not self._read[0]:
            frame = Received(peer, kind, memoryview(head), [memoryview(buffer) for buffer in buffers])
            self._read = head, decode(frame)
        return self._read[1]

    def queued_bytes(self, _peer: Peer) -> int:
        """Nothing waits."""
        return 0

    def poll(self, seconds: float) -> Sequence[Event]:
        """As `Network.poll`: the time goes on to what comes next."""
        with self._clock.apart():
            self.on_call()
            self.labels.clear()
            self._begin_attempts()
            until = self._clock.monotonic() + max(0.0, seconds)
            self._agenda.go_on(until, self._has_something)
            self._woken = False
            events, self._events = self._events, []
            self.on_return()
        return events

    def _has_something(self) -> bool:
        return bool(self._events) or self._woken or self._spark.has_ended

    def wake(self) -> None:
        """As `Network.wake`."""
        self._woken = True

    def hang_up(self, peer: Peer) -> None:
        """As `Network.hang_up`: the slot tears down, and its task ends."""
        with self._clock.apart():
            process = self._spark.processes.get(peer.slot)
            if process is not None and process.peer == peer:
                self._windows.lost(frozenset({peer.slot}), self._clock.monotonic())
                self._spark.leave(process)

    def silent_seconds(self, peer: Peer) -> float:
        """As `Network.silent_seconds`."""
        process = self._spark.processes.get(peer.slot)
        lost_at = None if process is None else process.lost_at
        return 0.0 if lost_at is None else max(0.0, self._clock.monotonic() - lost_at - 1.0)

    def close(self, seconds: float = 1.0) -> None:
        """Nothing is left open."""

    # Windows ------------------------------------------------------------------------------------------------

    def _begin_attempts(self) -> None:
        """All slots have been sent what the driver has to send: they run it."""
        runs, self._runs = self._runs, {}
        processes = self._spark.processes
        for key, sent in runs.items():
            request = next(iter(sent.values()))[1].request
            arrived = {slot: at for slot, (at, _) in sent.items() if slot in processes}
            home = {one: slot for slot, process in processes.items() for one in process.hosted}
            for one in self._windows.begin(request, arrived, home):
                self._agenda.at(one.at + self._costs.hop(), self._reporting(key, one.slot, one.containers))

    def _reporting(self, key: Key, slot: int, containers: Sequence[int]) -> Callable[[], None]:
        def report() -> None:
            process = self._spark.processes.get(slot)
            if process is not None and process.lost_at is None:
                who = slot, process.peer.attempt, process.host, process.pid
                reports = self._windows.reports(key, who, containers)
                if reports:
                    self.answer(process, Reported(dumps(reports)), "report")

        return report

    def answer(self, process: Process, message: FromSlot, label: str) -> None:
        """A slot sends something to STRAM, if it is there."""
        if self._spark.processes.get(process.peer.slot) is process and process.lost_at is None:
            kind, head, buffers = encode(message)
            views = [memoryview(buffer) for buffer in buffers]
            self._events.append(Received(process.peer, kind, memoryview(head), views))
            self.labels.add(label)

    # Who comes and goes -------------------------------------------------------------------------------------

    def _joined(self, process: Process) -> None:
        slot, host = process.peer.slot, process.host
        self._events.append(Opened(process.peer))
        joined = Joined(host, process.pid, f"tcp:{host}:{40_000 + slot}")
        self.answer(process, joined, "joined")

    def _leave(self, process: Process) -> None:
        """A slot was ended: it answers, and its task ends."""
        self.answer(process, Ended(), "ended")
        self._events.append(Lost(process.peer, CLOSED))
        if not self.closing:
            self._windows.lost(frozenset({process.peer.slot}), self._clock.monotonic())
        self._spark.leave(process)

    def _silent(self, there: Sequence[Process]) -> None:
        slots = frozenset(one.peer.slot for one in there)
        self._windows.lost(slots, self._clock.monotonic())

    def _lost(self, lost: Sequence[Process], cut: bool) -> None:  # noqa: FBT001
        """Processes are lost: STRAM notices, and so do the slots that exchange blocks with them."""
        if cut:
            reason, detail = CUT, f"its host has acknowledged nothing for {SILENT_SECONDS:.0f} s"
        else:
            reason, detail = BROKEN, "the connection was reset"
            self._silent(lost)
        self._events += [Lost(process.peer, reason, detail) for process in lost]
        self.labels.add("host lost" if cut else "slot lost")
        processes = self._spark.processes
        home = {one: slot for slot, process in processes.items() for one in process.hosted}
        gone = {one.peer.slot for one in lost}
        for process in lost:
            partners = {
                home[other]
                for one in process.hosted
                for others in (self._windows.producers[one], self._windows.consumers[one])
                for other in others
                if other in home
            }
            for slot in sorted(partners - gone):
                self._agenda.after(self._costs.hop(), self._saying(processes[slot], process.peer, reason))

    def _saying(self, process: Process, lost: Peer, reason: str) -> Callable[[], None]:
        return lambda: self.answer(process, Unreachable(lost, reason), "unreachable")


class SimulatedHeartbeats:
    """The heartbeats of simulated slots, as large as those of a real run, and as often as `Host` says."""

    def __init__(
        self, agenda: Agenda, spark: SimulatedSpark, network: SimulatedNetwork, costs: MeasuredCosts
    ) -> None:
        self._agenda = agenda
        self._spark = spark
        self._network = network
        self._random = Random(0)
        self._plain, self._with_lines = costs.heartbeats()
        network.on_host = self._begin

    def _begin(self, process: Process, every_seconds: float | None) -> None:
        """A slot has got its first containers."""
        if every_seconds is not None:
            first = self._random.random() * every_seconds
            self._next(process, every_seconds, first + self._agenda.clock.monotonic(), first)

    def _next(self, process: Process, every_seconds: float, lines_at: float, wait_seconds: float) -> None:
        def send() -> None:
            if self._spark.processes.get(process.peer.slot) is not process or process.lost_at is not None:
                return
            now = self._agenda.clock.monotonic()
            beat, after = self._plain, lines_at
            if now >= lines_at:
                beat, after = self._with_lines, now + _LINES_SECONDS
            beat = replace(beat, host=process.host, pid=process.pid, sent=START + now)
            self._network.answer(process, Heartbeat(beat), "heartbeat")
            self._next(process, every_seconds, after, every_seconds)

        self._agenda.after(wait_seconds, send)


class SimulatedSlots:
    """A platform, as `SparkSlots`, of simulated slots. `several`: there are hosts to choose from."""

    listen = Listen()
    patience_seconds = 20.0
    silent_seconds = SILENT_SECONDS
    given = ()

    def __init__(self, network: SimulatedNetwork, spark: SimulatedSpark, *, several: bool = True) -> None:
        self.network = network
        self.spark = spark
        self._several = several
        self._claimed = 0

    def check(self, _need: object) -> None:
        """Slots need nothing."""

    def claim(self, containers: int, _fed: int) -> int:
        """As `SparkSlots.claim`."""
        self._claimed = min(containers, self.most())
        return self._claimed

    def release(self, places: int | None = None) -> None:
        """As `SparkSlots.release`."""
        self._claimed -= self._claimed if places is None else places

    def wanted(self, containers: int) -> int:
        """As `SparkSlots.wanted`."""
        return min(containers, self.most())

    def claim_more(self, places: int, without: Any = ()) -> int:
        """As `SparkSlots.claim_more`."""
        more = max(0, min(places, self.present(without) - self._claimed))
        self._claimed += more
        return more

    def most(self) -> int:
        """As `SparkSlots.most`."""
        return sum(self.spark.places.values())

    def present(self, without: Any = ()) -> int:
        """As `SparkSlots.present`."""
        places = self.spark.places
        return sum(places[host] for host in self.spark.up if host not in without)

    def capacities(self) -> Mapping[str, HostCapacity]:
        """As `SparkSlots.capacities`."""
        places = self.spark.places
        return {host: HostCapacity(places[host]) for host in self.spark.up} if self._several else {}

    def check_alive(self) -> None:
        """Spark lives as long as the driver."""

    def open_network(self) -> SimulatedNetwork:
        """STRAM's end."""
        return self.network

    def open_jobs(
        self, task: Callable[[int], str], _describe: object, _need: object, _wake: object
    ) -> SimulatedSpark:
        """The jobs of slots."""
        self.spark.task = task
        return self.spark

    def open_feed(self, _source: Any) -> Any:
        """There is no Spark source."""
        raise AssertionError("simulated slots take no Spark sources")

    def open_sharing(self) -> Any:
        """All blocks go by value."""
        return _NoSharing()

    def reason(self, error: Exception) -> str:
        """Why a job has ended."""
        return str(error)


class _NoSharing:
    def place(self, _window_id: int, _attempt: int) -> None:
        return None

    def reported(self, _window_id: int, _bytes_out: int) -> None:
        pass

    def void(self) -> None:
        pass

    def committed(self, _window_id: int) -> None:
        pass

    def close(self) -> None:
        pass
