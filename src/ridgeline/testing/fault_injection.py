"""Let planned faults strike a run in process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from ridgeline.api.attributes import OnError, ProcessingMode
from ridgeline.api.clock import Clock
from ridgeline.api.errors import ContainerAbortError, Failure, OperatorError, RidgelineError, did_you_mean
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.progress import Handler
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import WindowRequest
from ridgeline.testing.captured import Tap
from ridgeline.testing.faults import Fault, Faults
from ridgeline.testing.inspection import Inspector

_MOST_FAILURES = 2
"""Faults that fail one window: fewer than `recovery_attempts` by default."""
_FAILING = frozenset({"exception", "kill", "repeat"})


class InjectedError(RidgelineError):
    """An exception that a test asked for."""


class KilledError(ContainerAbortError):
    """A test killed a container."""


class DriverGoneError(Exception):
    """A test killed the driver."""


class JumpingClock(Clock):
    """A clock whose wall time may be off."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.off = 0.0

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC, and what it is off by."""
        return self._clock.wall() + self.off

    def monotonic(self) -> float:
        """As of the true clock."""
        return self._clock.monotonic()

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        """As of the true clock."""
        return self._clock.wait(seconds, stop)


class FaultInjector:
    """Strikes one run with the faults that are planned for it, each once. `say` gets each in words.

    Raises RidgelineError for a fault that names no operator of the plan, unless that `changes` in the run.
    """

    def __init__(
        self, faults: Faults, plan: Plan, say: Callable[[str], None], *, changes: bool = False
    ) -> None:
        self._faults = faults
        self._say = say
        self._operators: dict[int, PhysicalOperator] = {}
        self.planned(plan)
        titles = {operator.title for operator in plan.physical.operators}
        for fault in faults.only or ():
            if fault.operator and fault.operator not in titles and not changes:
                raise RidgelineError(
                    f"`{fault}` strikes no operator of this plan; {did_you_mean(fault.operator, titles)}"
                )
        self._clocks: dict[int, JumpingClock] = {}
        """By operator: a clock that is off stays so."""
        self._struck: set[Fault] = set()
        self._failures: Counter[int] = Counter()
        self._turns: dict[int, tuple[WindowRequest, int]] = {}
        """By operator the attempt that it runs, and how many calls it has had in it."""
        faults.struck = []

    def planned(self, plan: Plan) -> None:
        """The plan has changed: its operators may be struck from now on."""
        self._operators = {operator.id: operator for operator in plan.physical.operators}
        attempts = [operator.attributes["recovery_attempts"] for operator in plan.physical.operators]
        self._most = min(_MOST_FAILURES, *attempts)

    def clock_of(self, spec: ContainerSpec, clock: Clock) -> Clock:
        """The clock of a container, which may jump."""
        ids = [operator.id for operator in spec.operators]
        jumping = next((self._clocks[one] for one in ids if one in self._clocks), None) or JumpingClock(clock)
        self._clocks.update(dict.fromkeys(ids, jumping))
        return jumping

    def inspect(self, instance: Instance) -> Inspector:
        """Look at an operator as `Inspector` does, and strike it."""
        return _FaultyInspector(instance, self)

    def on_turn(self, request: WindowRequest, operator: int) -> None:
        """An operator is about to run; with others in turn this is called again and again."""
        turn = self._turns.get(operator)
        if turn is None or turn[0] is not request:
            self._turns[operator] = request, 0
            self.strike(operator, 0)

    def called(self, operator: int) -> None:
        """A `process` method has come to its end."""
        request, calls = self._turns[operator]
        self._turns[operator] = request, calls + 1
        self.strike(operator, calls + 1)

    def reported(self, request: WindowRequest, spec: ContainerSpec) -> None:
        """A container has run its part of a window. Raises OperatorError if that is to be void."""
        for operator in spec.operators:
            for fault in self._due(request.window_id, operator.id):
                if fault.kind == "repeat" and self._strikes(fault):
                    text = f"fault `{fault}` voids the attempt, as the test asked"
                    raise OperatorError(Failure(spec.application, "", 0, fault.window, "report", text))

    def driver_turn(self, window: int) -> None:
        """The driver takes its turn with this window under way. Raises DriverGoneError."""
        for fault in self._faults.planned(window, ""):
            if fault not in self._struck:
                self._strikes(fault)
                raise DriverGoneError

    def strike(self, operator: int, call: int | None) -> None:
        """Let the faults strike that are due after a number of calls; None: what is left at the end.

        Raises KilledError, InjectedError.
        """
        request, _ = self._turns[operator]
        for fault in self._due(request.window_id, operator):
            if fault.kind != "repeat" and (call is None or fault.call == call) and self._strikes(fault):
                self._carry_out(fault, operator)

    def _due(self, window: int, operator: int) -> list[Fault]:
        if isinstance(self._operators[operator].operator, Tap):
            return []
        planned = self._faults.planned(window, self._operators[operator].title)
        return [fault for fault in planned if fault not in self._struck]

    def _strikes(self, fault: Fault) -> bool:
        """Note a fault; False if its window has had as many failures as `recovery_attempts` allows."""
        self._struck.add(fault)
        if fault.kind in _FAILING:
            if self._failures[fault.window] >= self._most:
                return False
            self._failures[fault.window] += 1
        self._faults.struck.append(fault)
        if not self._faults.quiet:
            self._say(fault.told)
        return True

    def _carry_out(self, fault: Fault, operator: int) -> None:
        """Advance the clock or let it jump, or raise KilledError or InjectedError."""
        clock = self._clocks[operator]
        if fault.kind == "delay":
            clock.wait(fault.seconds)
        elif fault.kind == "clock":
            clock.off += fault.seconds
        elif fault.kind == "exception" and fault.call != 0 and self._tries_again(operator):
            raise InjectedError(f"fault `{fault}`, as the test asked")
        else:
            raise KilledError(f"fault `{fault}` kills the container, as the test asked")

    def _tries_again(self, operator: int) -> bool:
        """False if an operator leaves out what fails: results would not be the same."""
        attributes = self._operators[operator].attributes
        return (
            attributes["on_error"] is not OnError.SKIP
            and attributes["processing_mode"] is not ProcessingMode.AT_MOST_ONCE
        )


class _FaultyInspector(Inspector):
    """An inspector that lets faults strike after calls, and at the end of an operator's turn."""

    def __init__(self, instance: Instance, injector: FaultInjector) -> None:
        super().__init__(instance)
        self._injector = injector
        self._id = instance.spec.id
        instance.handlers = {
            port: (by_batch, self._counted(handler))
            for port, (by_batch, handler) in instance.handlers.items()
        }

    def _counted(self, handler: Handler) -> Handler:
        def counted(value: Any) -> None:
            handler(value)
            self._injector.called(self._id)

        return counted

    def check(self) -> None:
        """As of `Inspector`; then what is left of the faults of this turn strikes."""
        super().check()
        self._injector.strike(self._id, None)
