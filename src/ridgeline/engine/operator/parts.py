"""The features of an operator's turn, in their order. A new one is a file with a part and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator, has_finished, operator_type
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import ENDED, HELD, METRICS, WATERMARK, ValueCell
from ridgeline.api.support.own_metric import checked_value
from ridgeline.engine.operator.ages import RecordAges
from ridgeline.engine.operator.application_window import BeginWindow, EndWindow, Gathering
from ridgeline.engine.operator.controls import ControlTuples, EmittedControls
from ridgeline.engine.operator.delivery import OrderByTime
from ridgeline.engine.operator.input import InputTuples
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Inputs, Turn, TurnPart
from ridgeline.engine.operator.skipping import LeftOut
from ridgeline.engine.operator.timers import EndOfInput, Timers, TimeToLive, WindowStates
from ridgeline.engine.operator.watermarks import Watermark
from ridgeline.engine.state.slides import SLIDES

# The metrics that an operator declares: all are read, and fields set back, as application windows end.

_PLAIN = 2**31


class DeclaredMetrics(TurnPart):
    """The declared metrics of one operator.

    In an application window of several streaming windows the fields go from one to the next by a state of
    their own. So they are as exact as state is.
    """

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        declared = operator_type(type(instance.operator)).metrics
        self._fields = {name: one.default for name, one in declared.items() if not one.method}
        self._counters = {name for name, one in declared.items() if one.kind == "counter"}
        self._methods = [name for name, one in declared.items() if one.method]
        self._cell: ValueCell | None = None
        if self._fields and instance.window_count > 1:
            self._cell = instance.cells[METRICS] = ValueCell(None)

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator declares none."""
        return cls(instance) if operator_type(type(instance.operator)).metrics else None

    def start(self) -> None:
        """Give the fields their defaults: what `setup` makes of them is what windows begin with."""
        vars(self.instance.operator).update(self._fields)

    def begin(self, turn: Turn) -> None:
        """Give the fields the values of the streaming window before."""
        if self._cell is not None and (kept := self._cell.get()) is not None:
            vars(self.instance.operator).update(zip(self._fields, kept, strict=True))

    def end(self, turn: Turn) -> None:
        """Read the values if the application window ends, else keep the fields for the next window.

        Raises OperatorError naming the metric if it is no finite number, or if its method raises or emits.
        """
        if turn.ends:
            turn.report.metrics = self._read()
            if self._cell is not None and self._cell.get() is not None:
                self._cell.set(None)
        elif self._cell is not None:
            values = tuple(getattr(self.instance.operator, name) for name in self._fields)
            if values != self._cell.get():
                self._cell.set(values)

    def _read(self) -> Mapping[str, float]:
        """The values at the end of an application window, but for those that there are none of."""
        found: dict[str, float | None] = {}
        values = vars(self.instance.operator)
        for name in self._fields:
            value = values.get(name)
            if type(value) is int and 0 <= value <= _PLAIN:
                found[name] = value  # as most are: nothing needs to be checked
            else:
                found[name] = self.instance.timed(f"metric `{name}`", partial(self._field, name))
        for name in self._methods:
            found[name] = self.instance.timed(f"metric `{name}`", partial(self._method, name))
        return {name: value for name, value in found.items() if value is not None}

    def _field(self, name: str) -> float | None:
        return self._checked(name, getattr(self.instance.operator, name))

    def _method(self, name: str) -> float | None:
        outputs = self.instance.outputs.values()
        before = [point.pending for point in outputs]
        value = self._checked(name, getattr(self.instance.operator, name)())
        if before != [point.pending for point in outputs]:
            raise RidgelineError(f"the method of the metric `{name}` has emitted; emit in `end_window`")
        return value

    def _checked(self, name: str, value: object) -> float | None:
        number = checked_value(value)
        if number is not None and number < 0 and name in self._counters:
            raise RidgelineError(f"a counter never falls; got {number}; declare it as a `gauge`")
        return number


# Callbacks that an operator need not have, and checks of the operator after a window.


class IdleTime(TurnPart):
    """Calls `handle_idle_time` in windows with nothing to do (of a `PushInput`: see `input.ask`)."""

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator has none, or is a unifier: it may wait for the window's end."""
        called = not instance.spec.unifier and not isinstance(instance.operator, PushInput)
        return cls(instance) if called and instance.overrides("handle_idle_time") else None

    def after_tuples(self, turn: Turn) -> None:
        """There may have been nothing. Raises OperatorError."""
        if self._is_idle(turn):
            context = self.instance.context
            left = turn.request.ends - context.clock.monotonic()
            context.idle_seconds = max(0.0, min(left, context.window_seconds))
            self.instance.timed("handle_idle_time", self.instance.operator.handle_idle_time)

    def _is_idle(self, turn: Turn) -> bool:
        operator = self.instance.operator
        if isinstance(operator, InputOperator):
            return not has_finished(operator) and not any(
                point.pending for point in self.instance.outputs.values()
            )
        return not turn.came


class BeforeCheckpoint(TurnPart):
    """Calls `before_checkpoint`, the last callback before state is written."""

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator has none."""
        return cls(instance) if instance.overrides("before_checkpoint") else None

    def end(self, turn: Turn) -> None:
        """Call it. Raises OperatorError if it emits."""
        self.instance.timed("before_checkpoint", self._call)

    def _call(self) -> None:
        points, instance = self.instance.outputs.values(), self.instance
        before = [point.pending for point in points]
        instance.operator.before_checkpoint(instance.context.window_id)
        if before != [point.pending for point in points]:
            raise RidgelineError(
                "`before_checkpoint` has emitted, when the window had ended; emit in `end_window`"
            )


class Checks(TurnPart):
    """Refuses emissions by other threads, and changes that a crash would lose where the runner looks."""

    def end(self, turn: Turn) -> None:
        """All its callbacks have returned. Raises OperatorError."""
        self.instance.refuse_strays()
        self.instance.call("end of window", self.instance.inspect)


PARTS: Sequence[type[TurnPart]] = (
    Gathering,
    OrderByTime,
    BeginWindow,
    IdleTime,
    ControlTuples,
    Watermark,
    InputTuples,
    Timers,
    EndOfInput,
    EndWindow,
    DeclaredMetrics,
    WindowStates,
    BeforeCheckpoint,
    TimeToLive,
    RecordAges,
    Checks,
    LeftOut,
    EmittedControls,
)
"""The features of a turn, in the order in which each hook calls them (see `TurnPart`).

Keys whose time to live is over go before any callback, by the watermark of the window before. After the
tuples come timers by the new watermark and by the window's time. Then `end_of_input` is called, if no tuple
can come any more, and `end_window` is last. Metrics are read before the states of the window end, and keys
that `before_checkpoint` has set live from then on. Only then is looked at what was emitted.
"""
_CELLS = ENDED, WATERMARK, SLIDES, METRICS, HELD
"""The states that parts add, in the order in which they are written."""
Part = TypeVar("Part", bound=TurnPart)


class Parts:
    """Those that an operator uses, and its hooks: each with the parts only that override it."""

    start: Sequence[Callable[[], None]]
    begin: Sequence[Callable[[Turn], None]]
    arrange: Sequence[Callable[[Turn, Inputs], Inputs]]
    before_tuples: Sequence[Callable[[Turn], None]]
    processed: Sequence[Callable[[Turn, Tuples], None]]
    after_tuples: Sequence[Callable[[Turn], None]]
    end: Sequence[Callable[[Turn], None]]
    report: Sequence[Callable[[Turn, Emitted], None]]
    void: Sequence[Callable[[Turn], None]]

    def __init__(self, instance: Instance) -> None:
        self._used = [part for kind in PARTS if (part := kind.of(instance)) is not None]
        for hook in Parts.__annotations__:
            own = attrgetter(hook)
            bound = [own(part) for part in self._used if own(type(part)) is not own(TurnPart)]
            setattr(self, hook, bound)
        for name in _CELLS:
            if name in instance.cells:
                instance.cells[name] = instance.cells.pop(name)

    def find(self, kind: type[Part]) -> Part | None:
        """The part of a kind, None if the operator does not use it."""
        return next((part for part in self._used if isinstance(part, kind)), None)
