"""Slots over a switchboard: containers that only check what they are given, and a STRAM that begins windows.

A window's result is a number that depends on all that came before, so that a tuple lost or doubled shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ridgeline.api.errors import Failure, OperatorError
from ridgeline.api.support.pickling import loads
from ridgeline.engine.exchange.block import Block, Message
from ridgeline.engine.exchange.network import STRAM, Lost, Opened, Peer, Received
from ridgeline.engine.exchange.shared_blocks import SharedPlace
from ridgeline.engine.process.plan_distribution import ShippedPlan
from ridgeline.engine.slot.messages import (
    Committed,
    Ended,
    Failed,
    Host,
    Joined,
    Reported,
    RunAttempt,
    Unreachable,
    decode,
    encode,
)
from ridgeline.engine.slot.slot import Slot
from ridgeline.engine.slot.task import SlotLoop
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.container_spec import ContainerSpec, Route
from ridgeline.plan.protocol import WindowReport, WindowRequest
from ridgeline.testing import SteppingClock
from support.engine.switchboard import Switchboard


def specs_of(stages: Sequence[int], sends: Mapping[tuple[int, int], bool]) -> dict[int, ContainerSpec]:
    """Containers in stages of these sizes; `sends[a, b]`: a sends to b, in a later stage."""
    numbers = [stage for stage, size in enumerate(stages) for _ in range(size)]
    pairs = [
        (one, other)
        for one, stage in enumerate(numbers)
        for other, later in enumerate(numbers)
        if later > stage and sends[one, other]
    ]
    no: Any = None
    return {
        number: ContainerSpec(
            "app",
            number,
            stage,
            (),
            tuple(
                Route("s", 0, "out", 0, "in", no, no, no, container=other)
                for one, other in pairs
                if one == number
            ),
            frozenset(one for one, other in pairs if other == number),
            {},
        )
        for number, stage in enumerate(numbers)
    }


def result_of(container: int, window_id: int, inputs: Mapping[int, int], state: int) -> int:
    """What a container's window comes to; its new state too."""
    return hash((container, window_id, tuple(sorted(inputs.items())), state)) % 1_000_003


def expected(specs: Mapping[int, ContainerSpec], windows: int) -> dict[tuple[int, int], int]:
    """The results of all containers and windows."""
    states = dict.fromkeys(specs, 0)
    found: dict[tuple[int, int], int] = {}
    for window_id in range(windows):
        for number, spec in sorted(specs.items(), key=lambda item: item[1].stage):
            inputs = {producer: found[producer, window_id] for producer in spec.producers}
            found[number, window_id] = states[number] = result_of(number, window_id, inputs, states[number])
    return found


class Plain:
    """The containers of a slot, for its state machine. They check that every window comes in order."""

    uri = "memory:"

    def __init__(self, world: World, peer: Peer) -> None:
        self.specs: dict[int, ContainerSpec] = {}
        self._world = world
        self._tag = f"s{peer.slot}a{peer.attempt}"
        self._states: dict[int, tuple[int, int]] = {}
        self.closed = 0

    def host(self, message: Host) -> None:
        self.specs = {number: self._world.specs[number] for number in message.containers}
        self._states = {number: state for number, state in self._states.items() if number in self.specs}

    def run(
        self,
        container: int,
        request: WindowRequest,
        messages: Sequence[Message],
        task_began: float,
        place: SharedPlace | None,
        rows: object = None,
    ) -> tuple[Mapping[int, Message], WindowReport]:
        window_id, attempt = request.window_id, request.attempt
        if request.states is not None:
            assert request.states.keys() <= self.specs.keys(), "states of other slots"
            self._states[container] = (window_id - 1, int(request.states[container][0]))
        held, state = self._states.pop(container)
        assert held == window_id - 1, f"container {container} holds {held} and runs {window_id}"
        assert self._world.attempts[window_id] == attempt or self._world.runs_old_attempts
        spec, inputs = self.specs[container], {}
        for message in messages:
            for block in message.blocks:
                assert message.producer not in inputs, "a block came twice"
                assert block.sink == container, "a block of another container"
                value, *of = memoryview(block.payload).cast("B").tobytes().decode().split()
                assert of == [str(window_id), str(attempt)], "a block of another attempt"
                inputs[message.producer] = int(value)
        assert inputs.keys() == spec.producers
        self._world.maybe_fail(container, window_id)
        result = result_of(container, window_id, inputs, state)
        self._states[container] = (window_id, result)
        payload = pa.py_buffer(f"{result} {window_id} {attempt}".encode())
        outgoing = {
            consumer: Message(container, [Block(consumer, "in", 0, payload)]) for consumer in spec.consumers
        }
        window = ContainerWindow(
            0.0, window_id, attempt, container, "host", 1, self._tag, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        )
        window.bytes_out = result
        return outgoing, WindowReport(window)

    def committed(self, container: int, window_id: int, states: object) -> None:
        raise AssertionError

    def close(self) -> list[Failure]:
        self.closed += 1
        return []


class World:
    """STRAM, slots and the switchboard between them; `faults` are (container, window) that fail once."""

    def __init__(
        self,
        specs: Mapping[int, ContainerSpec],
        home: Mapping[int, int],
        windows: int,
        in_flight: int,
        faults: set[tuple[int, int]],
    ) -> None:
        self.specs, self.home = specs, dict(home)
        self.board = Switchboard()
        self.network = self.board.join(Peer(STRAM, 0))
        self.loops: dict[Peer, SlotLoop] = {}
        self.hosted: dict[Peer, Plain] = {}
        self.attempts: dict[int, int] = {}
        self.runs_old_attempts = True
        self.faults = faults
        self.committed = -1
        self.states = dict.fromkeys(specs, 0)
        self.found: dict[tuple[int, int], int] = {}
        self.problems: list[str] = []
        self._windows, self._in_flight = windows, in_flight
        self._begun = -1
        self._reports: dict[int, dict[int, int]] = {}
        self._joined: dict[int, Peer] = {}
        self._tries: dict[int, int] = {}
        self._waits = True
        for slot in sorted(set(self.home.values())):
            self.start(slot)

    @property
    def done(self) -> bool:
        return self.committed == self._windows - 1

    def maybe_fail(self, container: int, window_id: int) -> None:
        if (container, window_id) in self.faults:
            self.faults.discard((container, window_id))
            raise OperatorError(Failure("app", "x", 0, window_id, "process", "as planned", raised=True))

    def start(self, slot: int) -> None:
        """Spark begins a slot's task."""
        peer = Peer(slot, self._tries.get(slot, 0))
        self._tries[slot] = peer.attempt + 1
        network = self.board.join(peer)
        self.hosted[peer] = Plain(self, peer)
        self.loops[peer] = SlotLoop(Slot(slot, self.hosted[peer], SteppingClock()), network, self.network.me)
        network.connect(self.network.me, self.network.address)
        network.send(self.network.me, *encode(Joined("host", 1, network.address)))

    def kill(self, peer: Peer, lost: int) -> None:
        """A slot dies; Spark begins its task again."""
        del self.loops[peer]
        self.board.kill(peer, lost)
        self.start(peer.slot)

    # STRAM --------------------------------------------------------------------------------------------------

    def stram(self) -> None:
        """STRAM takes in what has come, and begins windows."""
        again = False
        for event in self.network.poll(0.0):
            match event:
                case Lost(peer) if self._joined.get(peer.slot) == peer:
                    del self._joined[peer.slot]
                    self._waits = True
                case Received(peer):
                    again |= self._received(peer, event)
                case Lost() | Opened():
                    pass
        if self._waits and self._joined.keys() == set(self.home.values()):
            self._host()
            again = True
        if not self._waits:
            self._begin(again=again)

    def _received(self, peer: Peer, frame: Received) -> bool:
        """Take a message in; True if all in flight must be begun again."""
        message = decode(frame)
        if isinstance(message, Joined):
            self._joined[peer.slot] = peer
            self._waits = True
            return False
        if self._joined.get(peer.slot) != peer:
            return False
        match message:
            case Reported(reports):
                for report in loads(reports):
                    self._report(report.window)
            case Failed(_, window_id, attempt, failure):
                if not failure.raised:
                    self.problems.append(failure.error)
                return self.attempts.get(window_id) == attempt
            case Unreachable(other):
                return self._joined.get(other.slot) == other
            case Ended():
                pass
        return False

    def _report(self, window: ContainerWindow) -> None:
        if self.attempts.get(window.window_id) != window.attempt:
            return
        of_window = self._reports.setdefault(window.window_id, {})
        assert window.container not in of_window, "a container reported twice"
        of_window[window.container] = window.bytes_out
        while len(self._reports.get(self.committed + 1, ())) == len(self.specs):
            self.committed += 1
            self.states = self._reports.pop(self.committed)
            self.found.update({(number, self.committed): it for number, it in self.states.items()})
            for peer in self._joined.values():
                self.network.send(peer, *encode(Committed(self.committed)))

    def _host(self) -> None:
        peers = {peer: f"board:{peer.slot}" for peer in self._joined.values()}
        for peer in self._joined.values():
            containers = tuple(number for number, slot in self.home.items() if slot == peer.slot)
            message = Host("memory:", ShippedPlan("plan"), "run", containers, self.home, peers)
            self.network.send(peer, *encode(message))
        self._waits = False

    def _begin(self, *, again: bool) -> None:
        """Begin windows; all in flight if `again`, from the last commit."""
        first = again
        if again:
            for window_id in range(self.committed + 1, self._begun + 1):
                self._reports.pop(window_id, None)
            self._begun = self.committed
        while self._begun < min(self.committed + self._in_flight, self._windows - 1):
            self._begun += 1
            window_id = self._begun
            self.attempts[window_id] = self.attempts.get(window_id, -1) + 1
            for peer in self._joined.values():
                states = None
                if first:
                    hosted = [number for number, slot in self.home.items() if slot == peer.slot]
                    states = {number: (str(self.states[number]),) for number in hosted}
                request = WindowRequest(window_id, self.attempts[window_id], 0, states=states)
                self.network.send(peer, *encode(RunAttempt(request)))
            first = False
