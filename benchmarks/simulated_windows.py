"""What slots do to a window in a simulation: when each container runs, and what it reports.

A container runs once all its producers have ended, its own window before has ended, and its slot is free.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from benchmarks.simulated_clock import START
from benchmarks.simulated_costs import Costs, Turn
from ridgeline.measure.events import ContainerWindow
from ridgeline.plan.container_spec import container_specs
from ridgeline.plan.execution import Container, Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import OperatorReport, WindowReport, WindowRequest

TUPLES = 100
_KEPT = 8
"""Windows before the last one whose attempts may still report."""


class Key(NamedTuple):
    """An attempt at a window."""

    window_id: int
    attempt: int


class Ran(NamedTuple):
    """When a container ran an attempt, in simulated seconds: the readings of `ContainerWindow`."""

    ready: float
    began: float
    restored: float
    turns: tuple[Turn, ...]
    ran: float
    ended: float
    slot: int


class Sent(NamedTuple):
    """A slot sends the reports of these containers at this time."""

    at: float
    slot: int
    containers: tuple[int, ...]


@dataclass(slots=True)
class Attempt:
    """An attempt that slots run. `gone`: the containers that never end it."""

    request: WindowRequest
    ran: dict[int, Ran] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)


class _Busy:
    """When a slot runs something. It runs one container at a time, wherever there is room."""

    def __init__(self) -> None:
        self._begins: list[float] = []
        self._ends: list[float] = []

    def take(self, ready: float, seconds: float) -> float:
        """The first time from `ready` on at which the slot is free for so long; it is taken then."""
        place = bisect.bisect_right(self._ends, ready)
        begin = ready
        while place < len(self._begins) and self._begins[place] < begin + seconds:
            begin = max(begin, self._ends[place])
            place += 1
        self._begins.insert(place, begin)
        self._ends.insert(place, begin + seconds)
        return begin

    def forget(self, before: float) -> None:
        """Nothing is taken any more before this time."""
        place = bisect.bisect_left(self._ends, before)
        del self._begins[:place], self._ends[:place]


def _role(operator: PhysicalOperator, read: bool) -> str:  # noqa: FBT001
    """Which of `ROLES` an operator has; `read`: something reads from it."""
    if operator.unifier:
        return "unifier"
    return ("keyed" if read else "output") if operator.inputs else "input"


class SimulatedWindows:
    """The attempts under way in the slots of a plan.

    `moves(container)`: whether tuples move in it. `small_bytes`: how much of its state an operator with an
    input changes in a window.
    """

    def __init__(self, plan: Plan, costs: Costs, moves: object = bool, small_bytes: int = 0) -> None:
        self._costs = costs
        self._moves = moves
        self._change = bytes(small_bytes)
        self._stages: Sequence[Sequence[Container]] = plan.execution.stages
        self._operators = {one.id: one for one in plan.physical.operators}
        read = {stream.source for stream in plan.physical.streams}
        self._roles = {one.id: _role(one, one.id in read) for one in plan.physical.operators}
        specs = container_specs(plan)
        known: dict[frozenset[int], frozenset[int]] = {}
        self.producers = {spec.id: known.setdefault(spec.producers, spec.producers) for spec in specs}
        self.consumers = {spec.id: known.setdefault(spec.consumers, spec.consumers) for spec in specs}
        self._containers = {one.id: one for stage in self._stages for one in stage}
        self._attempts: dict[Key, Attempt] = {}
        self._busy: dict[int, _Busy] = {}
        self._free: dict[int, float] = {}
        """When each container has ended its last attempt."""

    def begin(
        self, request: WindowRequest, arrived: Mapping[int, float], home: Mapping[int, int]
    ) -> list[Sent]:
        """An attempt begins: which reports are sent when.

        `arrived`: when each slot got the request; others do not run it. `home`: the slot of each container.
        """
        now = min(arrived.values(), default=0.0)
        if request.states is not None:
            self._attempts.clear()
            self._busy.clear()
            self._free.clear()
        key = Key(request.window_id, request.attempt)
        attempt = self._attempts[key] = Attempt(request)
        for old in [one for one in self._attempts if one.window_id < request.window_id - _KEPT]:
            del self._attempts[old]
        for busy in self._busy.values():
            busy.forget(now)
        ready_at: dict[int, float | None] = {}
        for stage in self._stages:
            for container in stage:
                slot = home.get(container.id, -1)
                ready = self._ready(container.id, attempt, ready_at)
                if ready is None or slot not in arrived:
                    attempt.gone.add(container.id)
                else:
                    self._run(container, attempt, max(ready, arrived[slot]), slot)
        return self._sent(attempt)

    def _ready(self, container: int, attempt: Attempt, known: dict[int, float | None]) -> float | None:
        """When all producers of a container have ended and that has come; None if one never does."""
        producers = self.producers[container]
        number = id(producers)
        if number not in known:
            found: float | None = 0.0
            if producers:
                lost = not attempt.gone.isdisjoint(producers)
                found = None if lost else max(attempt.ran[one].ended for one in producers)
            known[number] = found
        at = known[number]
        return at if at is None or not producers else at + self._costs.hop()

    def _run(self, container: Container, attempt: Attempt, ready: float, slot: int) -> None:
        """A container runs, once its slot is free."""
        costs, request = self._costs, attempt.request
        turns = tuple(
            costs.turn(request.window_id, self._operators[one], self._roles[one])
            for one in container.operators
        )
        restore = costs.restore() if request.states is not None else 0.0
        write = costs.write()
        works = sum(turn.compute + turn.transfer for turn in turns)
        busy = self._busy.get(slot)
        if busy is None:
            busy = self._busy[slot] = _Busy()
        earliest = max(ready, self._free.get(container.id, 0.0))
        began = busy.take(earliest, restore + works + write)
        ran = began + restore + works
        attempt.ran[container.id] = Ran(ready, began, began + restore, turns, ran, ran + write, slot)
        self._free[container.id] = ran + write

    @staticmethod
    def _sent(attempt: Attempt) -> list[Sent]:
        """A report waits for others of its window that are next in turn."""
        of_slot: dict[int, list[tuple[float, float, int]]] = {}
        for container, ran in attempt.ran.items():
            of_slot.setdefault(ran.slot, []).append((ran.began, ran.ended, container))
        found = []
        for slot, several in of_slot.items():
            several.sort()
            together: list[int] = []
            for place, (_, ended, container) in enumerate(several):
                together.append(container)
                if place + 1 == len(several) or several[place + 1][0] > ended:
                    found.append(Sent(ended, slot, tuple(together)))
                    together = []
        return found

    def lost(self, slots: frozenset[int], now: float) -> None:
        """Slots are gone: what their containers have not ended, and what waits for it, never ends."""
        for attempt in self._attempts.values():
            for stage in self._stages:
                for container in stage:
                    ran = attempt.ran.get(container.id)
                    if ran is not None and ran.ended > now:
                        waits = not attempt.gone.isdisjoint(self.producers[container.id])
                        if ran.slot in slots or (waits and ran.began > now):
                            attempt.gone.add(container.id)

    def reports(
        self, key: Key, who: tuple[int, int, str, int], containers: Sequence[int]
    ) -> tuple[WindowReport, ...]:
        """What these containers report; nothing of those that are gone, nor of attempts that are void.

        `who`: slot, attempt, host and process.
        """
        attempt = self._attempts.get(key)
        if attempt is None:
            return ()
        return tuple(self._report(attempt, one, who) for one in containers if one not in attempt.gone)

    def _report(self, attempt: Attempt, container: int, who: tuple[int, int, str, int]) -> WindowReport:
        ran, request = attempt.ran[container], attempt.request
        slot, process, host, pid = who
        window = ContainerWindow(
            at=0.0,
            window_id=request.window_id,
            attempt=request.attempt,
            container=container,
            host=host,
            pid=pid,
            task=f"s{slot}a{process}",
            task_began=START,
            began=START + ran.began,
            restored=START + ran.restored,
            ran=START + ran.ran,
            written=START + ran.ended,
            received=0.0,
        )
        window.ready, window.sent = START + ran.ready, window.written
        operators = [*self._operator_reports(attempt, ran, container, host)]
        changed = next((one.change for one in operators if one.change), "")
        report = WindowReport(window, operators)
        if changed and self._change:
            report.small_change = changed, self._change
        return report

    def _operator_reports(
        self, attempt: Attempt, ran: Ran, container: int, host: str
    ) -> Iterator[OperatorReport]:
        moves, at, request = self._moves(container), START + ran.restored, attempt.request
        tuples = TUPLES if moves else 0
        for number, turn in zip(self._containers[container].operators, ran.turns, strict=True):
            operator, role = self._operators[number], self._roles[number]
            report = OperatorReport.begun(request, number)
            like = self._costs.like(role) if moves else None
            if like is not None:
                # As large as a real one: ages, processor time, the size of the state
                report.window = replace(
                    like, window_id=request.window_id, attempt=request.attempt, operator=number
                )
            window = report.window
            window.container, window.host = container, host
            window.began, window.ended = at, at + turn.compute + turn.transfer
            window.wait_seconds = at - (START + ran.restored)
            window.compute_seconds, window.transfer_seconds = turn
            window.cpu_seconds = turn.compute
            window.tuples_in = {next(iter(operator.inputs)): tuples} if operator.inputs else {}
            window.tuples_out = dict.fromkeys(operator.outputs, tuples) if role != "output" else {}
            at = window.ended
            if moves and operator.inputs and not operator.unifier:
                report.replaces = True
                window_id, attempts, epoch = request.window_id, request.attempt, request.epoch
                report.change = f"{window_id:012}-c{container}-e{epoch}-r{attempts}-s0a0"
            yield report
