"""Effects of passing time on one operator: timers, keys that end, states that end, the last call.

When each comes in a streaming window is the order of `parts.PARTS`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from ridgeline.api.cells.cell import StateCell
from ridgeline.api.cells.keyed_declaration import Lifetimes
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.timer_cell import Due, TimerCell
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.operator import InputOperator, has_finished, operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.state import ENDED, ValueCell
from ridgeline.api.timers import Timers as DeclaredTimers
from ridgeline.api.times import EARLIEST, LATEST, Processing, Span
from ridgeline.engine.operator.delivery import inheriting_times, nothing_timed
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_TIMES = 100_000
"""So often the timer of one key may be set again by its own handler, and expire, in one window."""


class _Kind(NamedTuple):
    """Timers of one declaration: their name, their cell, the method that is called."""

    name: str
    cell: TimerCell[Any]
    handler: Callable[[Any, datetime], object]


class _TtlState(NamedTuple):
    """A keyed state with a time to live: when its keys end, and how many microseconds after they are set."""

    state: KeyedCell[Any, Any]
    ends: TimerCell[Any]
    microseconds: int
    by: str


class TimeToLive(TurnPart):
    """Removes keys whose time to live is over before a window; what it has set lives from its end."""

    def __init__(self, instance: Instance, states: Sequence[_TtlState]) -> None:
        super().__init__(instance)
        self._states = states

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if no state has a time to live."""
        cells: dict[str, Any] = instance.cells
        states = [
            _TtlState(cells[declared.state], cells[name], declared.microseconds, declared.by)
            for name, declared in operator_type(type(instance.operator)).states.items()
            if isinstance(declared, Lifetimes)
        ]
        return cls(instance, states) if states else None

    def begin(self, turn: Turn) -> None:
        """Remove the keys whose time is over."""
        for one in self._states:
            one.ends.begin_window(turn.request.window_id)
        for one in self._states:
            now = _now(self.instance.context, one.by)
            while due := one.ends.next_due(now):
                one.ends.take(due)
                if due.when == EARLIEST + one.microseconds:  # set before there was any record time
                    one.ends.put(due.key, now + one.microseconds)
                else:
                    one.state.pop(due.key, None)

    def end(self, turn: Turn) -> None:
        """Keys that the window has set live from now on."""
        for one in self._states:
            keys = one.state.written()
            if keys:
                until = _now(self.instance.context, one.by) + one.microseconds
                for key in keys:
                    if key in one.state:
                        one.ends.put(key, until)
                    else:
                        one.ends.pop(key, None)


class Timers(TurnPart):
    """Calls back for the timers that are due: by the new watermark, then by the window's time."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        states = operator_type(type(instance.operator)).states
        cells: dict[str, Any] = instance.cells
        self._cells = [
            cell
            for name, cell in cells.items()
            if isinstance(cell, TimerCell) and not isinstance(states.get(name), Lifetimes)
        ]
        self._timers: dict[str, list[_Kind]] = {"record": [], "clock": []}
        for name, declared in states.items():
            if isinstance(declared, DeclaredTimers) and declared.handler:
                kind = _Kind(name, cells[name], getattr(instance.operator, declared.handler))
                self._timers[declared.by].append(kind)

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if no timers are declared."""
        made = cls(instance)
        return made if made._cells else None

    def begin(self, turn: Turn) -> None:
        """Calls that set a timer get numbers of this window."""
        for cell in self._cells:
            cell.begin_window(turn.request.window_id)

    def after_tuples(self, turn: Turn) -> None:
        """Let timers expire. Raises OperatorError."""
        with self.instance.running.callback():
            for by, timers in self._timers.items():
                if timers:
                    self._expire(timers, by, turn.inheriting if by == "record" else ())

    def _expire(self, timers: Sequence[_Kind], by: str, points: Sequence[OutputPoint]) -> None:
        """Call back for all timers that are due, those that are set meanwhile included."""
        now = _now(self.instance.context, by)
        until = math.inf if now == LATEST and by == "record" else now
        numbers = [kind.cell.number for kind in timers]
        again: Counter[Any] = Counter()
        while (first := _first(timers, until)) is not None:
            place, due = first
            timers[place].cell.take(due)
            if due.number > numbers[place]:
                again[place, due.key] += 1
            try:
                if again:
                    _check_repeated(timers[place].name, again[place, due.key])
                when = _EPOCH + timedelta(microseconds=due.when)
                if points:
                    processing = Processing(partial(Span(due.when, due.when).of_each, 1))
                    with inheriting_times(points, processing):
                        timers[place].handler(due.key, when)
                else:
                    timers[place].handler(due.key, when)
            except BaseException as error:
                failure = self.instance.failure(
                    f"expired of {timers[place].name}, key {shorten(due.key)}", error
                )
                raise failure from error


class EndOfInput(TurnPart):
    """Calls `end_of_input` once no tuple can come any more, and says so to operators that read this one."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._ends = instance.signals.ends
        self._called: ValueCell | None = None
        """Whether `end_of_input` was called, of an operator that has it."""
        if instance.overrides("end_of_input"):
            self._called = instance.cells[ENDED] = ValueCell(False)  # noqa: FBT003  a value

    def after_tuples(self, turn: Turn) -> None:
        """The last tuples may have come. Raises OperatorError."""
        ended = self._ends.mark_ended(self.instance.spec.id)
        if ended and self._called is not None and not self._called.get():
            self._called.set(True)
            with inheriting_times(turn.inheriting, Processing(nothing_timed)):
                self.instance.timed("end_of_input", self.instance.operator.end_of_input)

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """An input operator may have finished, in this window or before."""
        operator = self.instance.operator
        if isinstance(operator, InputOperator) and has_finished(operator):
            self._ends.mark_finished(self.instance.spec.id)

    def void(self, turn: Turn) -> None:
        """The operator may have come to its end all the same."""
        self._ends.mark_ended(self.instance.spec.id)


class WindowStates(TurnPart):
    """Ends the states that live no longer than an application window."""

    def __init__(self, instance: Instance, cells: Sequence[StateCell]) -> None:
        super().__init__(instance)
        self._cells = cells

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if all states outlive application windows."""
        states = operator_type(type(instance.operator)).states
        cells = [instance.cells[name] for name, declared in states.items() if declared.scope == "window"]
        return cls(instance, cells) if cells else None

    def end(self, turn: Turn) -> None:
        """The application window may have ended."""
        if turn.ends:
            for cell in self._cells:
                cell.end()

    def void(self, turn: Turn) -> None:
        """The application window may have ended all the same."""
        self.end(turn)


def _now(context: OperatorContext, by: str) -> int:
    return context.watermark_microseconds if by == "record" else context.window_time_microseconds


def _first(timers: Sequence[_Kind], until: float) -> tuple[int, Due] | None:
    """The first timer that is due, and the place of its declaration; of equal times the first one's."""
    found: tuple[int, Due] | None = None
    for place, kind in enumerate(timers):
        due = kind.cell.next_due(until)
        if due is not None and (found is None or due.when < found[1].when):
            found = place, due
    return found


def _check_repeated(name: str, times: int) -> None:
    """Raise StateError for a key whose timer its own handler has set too often in one window."""
    if times > _MOST_TIMES:
        what = f"its timer in `{name}` was set again and expired {_MOST_TIMES:,} times in this window"
        raise StateError(
            f"{what}; set it to a time that has not passed, and not at all once the input has ended"
        )
