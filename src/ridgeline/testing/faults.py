"""Faults for tests: which ones strike a run, where, drawn from a seed or named, and how they do."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args

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
from ridgeline.testing.inspection import Inspector

Kind = Literal["exception", "kill", "repeat", "delay", "clock", "restart"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_EFFECTS = {
    "exception": "an exception is raised",
    "kill": "the container is killed",
    "repeat": "the attempt is void once it has ended",
    "delay": "the clock goes on",
    "clock": "the wall clock jumps",
    "restart": "the driver is killed",
}
_LATEST_CALL = 4
_JUMPS = (-3600.0, -60.0, -1.5, 0.5, 30.0, 3600.0)
_DELAYS = (0.01, 0.3, 2.0)
_WRITTEN = re.compile(
    r"\w+ w(?P<window>\d+)( (?P<operator>\S+) (?P<moment>begin|end|call (?P<call>\d+))"
    r"( (?P<seconds>-?[\d.]+)s)?)?"
)
_FORM = "write it as `kill w3 counter[1] call 2`, as a run prints it"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: of a kind, in a window, in the turn of an operator.

    `operator`: its title, such as `counter[1]`; "" for the driver. `call`: after so many calls of its
    `process` methods; 0: before its turn; None: at its end. `seconds`: of delays and jumps of the clock.

    Example:
        >>> from ridgeline.testing import Fault
        >>> str(Fault("kill", 3, "counter[1]", call=2))
        'kill w3 counter[1] call 2'
        >>> Fault.parse("delay w0 source begin 0.5s").seconds
        0.5
    """

    kind: Kind
    window: int
    operator: str = ""
    call: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.kind == "restart":
            return f"restart w{self.window}"
        moment = "end" if self.call is None else f"call {self.call}" if self.call else "begin"
        text = f"{self.kind} w{self.window} {self.operator} {moment}"
        return f"{text} {self.seconds:g}s" if self.seconds else text

    @property
    def told(self) -> str:
        """The fault and its effect, as text."""
        what = f"{_EFFECTS[self.kind]}{f' by {self.seconds:g} s' if self.seconds else ''}"
        return f"fault `{self}`: {what}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read what `str` of a fault gives. Raises RidgelineError."""
        kind = text.partition(" ")[0]
        if kind not in KINDS:
            raise RidgelineError(f"`{text}` begins with no kind of fault; {did_you_mean(kind, KINDS)}")
        found = _WRITTEN.fullmatch(text)
        if found is None or (found["operator"] is None) != (kind == "restart"):
            raise RidgelineError(f"`{text}` is no fault; {_FORM}")
        call = None if found["call"] is None else int(found["call"])
        call = 0 if found["moment"] == "begin" else call
        return cls(kind, int(found["window"]), found["operator"] or "", call, float(found["seconds"] or 0))


class Faults:
    """Faults that strike a run in process: `run_local(app, faults=Faults(seed=7))`.

    Results must be those of a run without faults. In each window each partition is struck with the
    probability `rate`, each fault at most once. A window has at most two faults that fail it.

    - `exception`: a callback raises, after some of its tuples
    - `kill`: the container is lost with all that it has in memory
    - `repeat`: the attempt is void once it has ended, and runs again
    - `delay`: the clock advances while the operator works
    - `clock`: the wall clock of the container jumps, forward or back
    - `restart`: the driver is killed and another one continues from the checkpoint

    `seed` decides which, where and when. `kinds`: those that may strike. `only` names single faults instead,
    as a run prints them. Operators that read the clock give other results after `delay` and `clock`: leave
    them out then.

    After a run `struck` has the faults that did, in order.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, Faults, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,)]))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> run = run_local(app, faults=Faults(only=["kill w0 sink call 1"]))
        fault `kill w0 sink call 1`: the container is killed
        >>> run.collected("sink")
        [Number(value=1), Number(value=2)]
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        rate: float = 0.1,
        kinds: Iterable[Kind] = KINDS,
        only: Iterable[str] | None = None,
        quiet: bool = False,
    ) -> None:
        if not 0 <= rate <= 1:
            raise RidgelineError(f"`rate` is a probability from 0 to 1; got {rate}")
        self.seed = seed
        self.rate = rate
        self.kinds = tuple(kinds)
        self.quiet = quiet
        self.struck: list[Fault] = []
        self.only = None if only is None else tuple(map(Fault.parse, only))
        for kind in self.kinds:
            if kind not in KINDS:
                raise RidgelineError(f"there is no kind of fault `{kind}`; {did_you_mean(kind, KINDS)}")

    def __repr__(self) -> str:
        if self.only is not None:
            return f"Faults(only={[str(fault) for fault in self.only]})"
        return f"Faults(seed={self.seed}, rate={self.rate:g})"

    def planned(self, window: int, operator: str) -> Sequence[Fault]:
        """The faults of an operator's partition, by its title, in a window; of the driver for ""."""
        if self.only is not None:
            return [one for one in self.only if one.window == window and one.operator == operator]
        random = Random(f"{self.seed} {window} {operator}")  # noqa: S311  not a secret
        kinds = [kind for kind in self.kinds if (kind == "restart") == (not operator)]
        if not kinds or random.random() >= self.rate:
            return ()
        kind = random.choice(kinds)
        if kind == "restart":
            return (Fault(kind, window),)
        call = random.choice([0, *range(1, _LATEST_CALL + 1), None])
        if kind == "repeat" or (kind == "exception" and call == 0):
            call = None
        seconds = random.choice(_JUMPS) if kind == "clock" else random.choice(_DELAYS)
        return (Fault(kind, window, operator, call, seconds if kind in {"clock", "delay"} else 0.0),)


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
