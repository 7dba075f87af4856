"""Slots that are simulated: the driver's half of slots runs as it is, over a network without processes.

What slots do to a window is to answer it. The stand-in reads each message as a slot would, and answers
`RunAttempt` with a real report of each container. Its own time is kept apart in `seconds`, so that what is
left is the driver's.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer

from ridgeline.api.support.pickling import dumps
from ridgeline.engine.driver.slots.jobs import JobEnded
from ridgeline.engine.exchange.listening import Listen
from ridgeline.engine.exchange.network import STRAM, Event, Opened, Peer, Received
from ridgeline.engine.slot.messages import (
    End,
    Ended,
    FromSlot,
    Host,
    Joined,
    Reported,
    RunAttempt,
    decode,
    encode,
)
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import OperatorReport, WindowReport, WindowRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

_TUPLES = 100
_COMPUTE_SECONDS = 1e-4


class SimulatedNetwork:
    """STRAM's end of the connections to slots that answer at once; a `Network`."""

    refused: Mapping[str, int] = {}

    def __init__(self, plan: Plan, moves: Callable[[int], bool]) -> None:
        self.me = Peer(STRAM, 1)
        self.address = "unix:/simulated"
        self.seconds = 0.0
        """CPU time that the stand-in has taken."""
        self.sent_bytes = 0
        """What the driver has sent."""
        self.frames = 0
        self._operators = {container.id: container.operators for container in plan.execution.containers}
        self._stages = {container.id: container.stage for container in plan.execution.containers}
        self._inputs = {
            operator.id: next(iter(operator.inputs), None) for operator in plan.physical.operators
        }
        self._stateful = {operator.id for operator in plan.physical.operators if operator.inputs}
        self._moves = moves
        self._events: deque[Event] = deque()
        self._hosted: dict[Peer, tuple[int, ...]] = {}

    @contextmanager
    def _apart(self) -> Iterator[None]:
        began = time.thread_time()
        yield
        self.seconds += time.thread_time() - began

    def join(self, slot: int) -> None:
        """A slot's process has started."""
        peer = Peer(slot, 0)
        self._events.append(Opened(peer))
        self._answer(peer, Joined(slot, "simulated", 1_000 + slot, f"unix:/slot{slot}"))

    def connect(self, peer: Peer, address: str) -> None:
        """Nobody calls it."""

    def send(self, peer: Peer, kind: int, head: Buffer, buffers: Sequence[Buffer] = ()) -> bool:
        """A slot reads the frame and answers."""
        with self._apart():
            self.frames += 1
            self.sent_bytes += len(memoryview(head)) + sum(len(memoryview(buffer)) for buffer in buffers)
            frame = Received(peer, kind, memoryview(head), [memoryview(buffer) for buffer in buffers])
            match decode(frame):
                case Host(containers=containers):
                    self._hosted[peer] = containers
                case RunAttempt(request):
                    self._answer(peer, Reported(dumps(tuple(self._reports(peer, request)))))
                case End():
                    self._answer(peer, Ended())
        return True

    def queued_bytes(self, peer: Peer) -> int:
        """Nothing waits."""
        return 0

    def poll(self, seconds: float) -> Sequence[Event]:
        """What slots have answered."""
        events = list(self._events)
        self._events.clear()
        return events

    def wake(self) -> None:
        """Nobody waits."""

    def hang_up(self, peer: Peer) -> None:
        """The slot is gone."""

    def silent_seconds(self, _peer: Peer) -> float:
        """All answer at once."""
        return 0.0

    def close(self, seconds: float = 1.0) -> None:
        """Nothing is left open."""

    def _answer(self, peer: Peer, message: FromSlot) -> None:
        kind, head, buffers = encode(message)
        self._events.append(
            Received(peer, kind, memoryview(head), [memoryview(buffer) for buffer in buffers])
        )

    def _reports(self, peer: Peer, request: WindowRequest) -> Iterator[WindowReport]:
        """What the containers of a slot report."""
        for container in self._hosted[peer]:
            began = time.time() + 1e-3 * self._stages[container]
            window = ContainerWindow(
                at=0.0,
                window_id=request.window_id,
                attempt=request.attempt,
                container=container,
                host="simulated",
                pid=1_000 + peer.slot,
                task=f"s{peer.slot}a0",
                task_began=began,
                began=began,
                restored=began,
                ran=began + _COMPUTE_SECONDS,
                written=began + _COMPUTE_SECONDS,
                received=0.0,
            )
            window.ready, window.sent = began, window.written
            yield WindowReport(window, [*self._operator_reports(container, request, began)])

    def _operator_reports(
        self, container: int, request: WindowRequest, began: float
    ) -> Iterator[OperatorReport]:
        for operator in self._operators[container]:
            moves = self._moves(container)
            report = OperatorReport.begun(request, operator)
            window = report.window
            window.container, window.host = container, "simulated"
            window.began, window.ended = began, began + _COMPUTE_SECONDS
            window.compute_seconds = _COMPUTE_SECONDS / 2
            window.transfer_seconds = _COMPUTE_SECONDS / 2
            tuples = _TUPLES if moves else 0
            port = self._inputs[operator]
            if port is None:
                window.tuples_out = {"output": tuples}
            else:
                window.tuples_in = {port: tuples}
                window.queue = tuples
            if moves:
                report.replaces = operator in self._stateful
                if report.replaces:
                    report.change = f"{request.window_id:012}-c{container}-e1-r{request.attempt}-run-s0a0"
            yield report


class SimulatedSlots:
    """A `SlotPlatform` of so many simulated slots."""

    listen = Listen()
    patience_seconds = 20.0
    silent_seconds = 15.0
    given = ()

    def __init__(self, plan: Plan, places: int, moves: Callable[[int], bool]) -> None:
        self.network = SimulatedNetwork(plan, moves)
        self._places = places

    def check(self, _need: object) -> None:
        """Slots need nothing."""

    def claim(self, containers: int, _fed: int) -> int:
        """As many slots as were asked for."""
        return min(containers, self._places)

    def release(self, _places: int | None = None) -> None:
        """Nothing was taken."""

    def wanted(self, containers: int) -> int:
        """As many as there are."""
        return min(containers, self._places)

    def claim_more(self, _places: int, _without: object = ()) -> int:
        """There are no more."""
        return 0

    def most(self) -> int:
        """All."""
        return self._places

    def present(self, _without: object = ()) -> int:
        """All are there."""
        return self._places

    def capacities(self) -> Mapping[str, Any]:
        """There are no hosts to choose from."""
        return {}

    def check_alive(self) -> None:
        """They live as long as the driver."""

    def open_network(self, _secret: bytes) -> SimulatedNetwork:
        """STRAM's end."""
        return self.network

    def open_jobs(
        self, task: Callable[[int], str], describe: Callable[[int], str], _need: object, _wake: object
    ) -> Any:
        """Slots come at once."""
        return _Jobs(self.network, task, describe)

    def open_feed(self, _source: Any) -> Any:
        """There is no Spark source."""
        msg = "simulated slots take no Spark sources"
        raise AssertionError(msg)

    def open_sharing(self) -> Any:
        """All blocks go by value."""
        return _NoSharing()

    def reason(self, error: Exception) -> str:
        """Why a job has ended."""
        return str(error)


class _Jobs:
    def __init__(
        self, network: SimulatedNetwork, task: Callable[[int], str], describe: Callable[[int], str]
    ) -> None:
        self._network = network
        self._task = task
        self._describe = describe

    def node(self, slot: int, host: str) -> str:
        return host

    def start(self, slot: int, _hosts: Sequence[str] = ()) -> None:
        self._task(slot)
        self._describe(slot)
        self._network.join(slot)

    def cancel(self, slot: int) -> None:
        pass

    def connected(self, slot: int) -> None:
        pass

    def disconnected(self, slot: int) -> None:
        pass

    def take_ended(self) -> list[JobEnded]:
        return []

    def close(self, seconds: float) -> None:
        pass


class _NoSharing:
    def place(self, _window_id: int, _attempt: int, _hosts: object) -> None:
        return None

    def reported(self, _window_id: int, _bytes_out: int) -> None:
        pass

    def void(self) -> None:
        pass

    def committed(self, _window_id: int) -> None:
        pass

    def close(self) -> None:
        pass
