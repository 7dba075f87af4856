"""What happens to one operator because time passes: timers, keys that end, states that end, the last call.

The order in a streaming window: keys whose time to live is over go first. `begin_window` and the tuples
follow. Then come the timers that are due, by the new watermark and by the window's time. `end_of_input` comes
next, if no tuple can come any more. `end_window` is last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.cells.cell import StateCell
from ridgeline.api.cells.keyed_declaration import Lifetimes
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.timer_cell import Due, TimerCell
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import StateError, shorten
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.state import ENDED, ValueCell
from ridgeline.api.timers import Timers
from ridgeline.api.times import EARLIEST, LATEST, Processing, Span
from ridgeline.engine.operator.inputs import inheriting_times, nothing_timed
from ridgeline.plan.protocol import WindowRequest

if TYPE_CHECKING:
    from ridgeline.engine.operator.runtime import OperatorRuntime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_TIMES = 100_000
"""So often the timer of one key may be set again by its own handler, and expire, in one window."""

Failing = Callable[[str, BaseException], BaseException]
"""What to raise for what a callback has raised."""


class _Kind(NamedTuple):
    """Timers of one declaration: their name, their cell, the method that is called."""

    name: str
    cell: TimerCell[Any]
    handler: Callable[[Any, datetime], object]


class _Living(NamedTuple):
    """A keyed state with a time to live: when its keys end, and how many microseconds after they are set."""

    state: KeyedCell[Any, Any]
    ends: TimerCell[Any]
    microseconds: int
    by: str


class Ends:
    """Which operators of a container's window get no more tuples, and which of them are waited for.

    `producers`: of each operator to which that matters, the operators that it reads. `ended`: those that have
    come to their end in this window or before, of own operators and of those that send to them.
    """

    def __init__(self, producers: Mapping[int, Sequence[int]]) -> None:
        self._producers = producers
        self.ended: set[int] = set()

    def follow(self, producers: Mapping[int, Sequence[int]]) -> None:
        """The operators are others from now on."""
        self._producers = producers
        self.ended.clear()

    def finished(self, operator: int) -> None:
        """An input operator has finished."""
        if operator in self._producers:
            self.ended.add(operator)

    def all_ended(self, operator: int) -> bool:
        """True if nothing comes to an operator any more; notes that nothing more comes from it."""
        producers = self._producers.get(operator)
        if not producers or not self.ended.issuperset(producers):
            return False
        self.ended.add(operator)
        return True


class Timing:
    """Calls back one operator for the time that has passed, window by window.

    `cells`: its states, to which it adds its own. `ends`: of its container.
    """

    def __init__(
        self,
        operator_id: int,
        operator: Operator,
        context: OperatorContext,
        ends: Ends,
        cells: dict[str, Any],
    ) -> None:
        self._id, self._operator, self._context, self._ends = operator_id, operator, context, ends
        states = operator_type(type(operator)).states
        self._timers: dict[str, list[_Kind]] = {"record": [], "clock": []}
        self._living: list[_Living] = []
        for name, declared in states.items():
            if isinstance(declared, Timers) and declared.handler:
                kind = _Kind(name, cells[name], getattr(operator, declared.handler))
                self._timers[declared.by].append(kind)
            elif isinstance(declared, Lifetimes):
                living = _Living(cells[declared.state], cells[name], declared.microseconds, declared.by)
                self._living.append(living)
        self._numbered = [cell for cell in cells.values() if isinstance(cell, TimerCell)]
        self._of_window: list[StateCell] = [
            cell for name, cell in cells.items() if states[name].scope == "window"
        ]
        """The cells that live no longer than an application window."""
        self._last_call: ValueCell | None = None
        """Whether `end_of_input` was called, of an operator that has it."""
        if type(operator).end_of_input is not Operator.end_of_input:
            self._last_call = cells[ENDED] = ValueCell(False)  # noqa: FBT003  a value
        self.calls = bool(self._timers["record"] or self._timers["clock"] or self._last_call)
        """Whether it calls the operator back."""

    def begin(self, request: WindowRequest) -> None:
        """A streaming window begins, and so have its cells: keys whose time to live is over go."""
        self._context.set_window_time(request.time)
        for cell in self._numbered:
            cell.begin_window(request.window_id)
        for living in self._living:
            now = self._now(living.by)
            while due := living.ends.next_due(now):
                living.ends.take(due)
                if due.when == EARLIEST + living.microseconds:  # set before there was any record time
                    living.ends.put(due.key, now + living.microseconds)
                else:
                    living.state.pop(due.key, None)

    def end(self) -> None:
        """All callbacks of a streaming window are done: what it has set lives from now on."""
        for living in self._living:
            keys = living.state.written()
            if keys:
                until = self._now(living.by) + living.microseconds
                for key in keys:
                    if key in living.state:
                        living.ends.put(key, until)
                    else:
                        living.ends.pop(key, None)

    def end_states(self) -> None:
        """The application window has ended, and so have the states that live no longer."""
        for cell in self._of_window:
            cell.end()

    def call(self, points: Sequence[OutputPoint], failing: Failing) -> None:
        """All tuples of a streaming window have come: let timers expire, and say that the input has ended.

        `points`: those whose tuples inherit times. Raises what `failing` makes of an error.
        """
        for by, timers in self._timers.items():
            if timers:
                self._expire(timers, by, points if by == "record" else (), failing)
        ended = self._ends.all_ended(self._id)
        if ended and self._last_call is not None and not self._last_call.get():
            self._last_call.set(True)
            with inheriting_times(points, Processing(nothing_timed)):
                try:
                    self._operator.end_of_input()
                except BaseException as error:
                    failure = failing("end_of_input", error)
                    raise failure from error

    def finished(self) -> None:
        """The input operator has finished, in this window or before."""
        self._ends.finished(self._id)

    def pass_by(self) -> None:
        """The window of the operator is lost: what came to its end has done so."""
        self._ends.all_ended(self._id)

    def _now(self, by: str) -> int:
        context = self._context
        return context.watermark_microseconds if by == "record" else context.window_time_microseconds

    def _expire(
        self, timers: Sequence[_Kind], by: str, points: Sequence[OutputPoint], failing: Failing
    ) -> None:
        """Call back for all timers that are due, those that are set meanwhile included."""
        now = self._now(by)
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
                failure = failing(f"expired of {timers[place].name}, key {shorten(due.key)}", error)
                raise failure from error


def begin_states(runtime: OperatorRuntime, request: WindowRequest, application_window: int) -> None:
    """Begin a streaming window: what it changes in state counts from now on."""
    for cell in runtime.cells.values():
        cell.begin(application_window)
    if runtime.watermark is not None:
        runtime.watermark.begin(runtime.context)
    runtime.timing.begin(request)


def let_time_pass(
    runtime: OperatorRuntime, points: Sequence[OutputPoint], *, ends: bool, gathers: bool
) -> None:
    """All tuples of a streaming window have come: go on to the new watermark.

    `points`, `ends`, `gathers`: as of `Timing.call` and `Watermark.advance`. Raises OperatorError.
    """
    if runtime.watermark is not None:
        runtime.watermark.advance(runtime.context, ends=ends, gathers=gathers)
    if runtime.timing.calls:
        with runtime.running.callback():
            runtime.timing.call(points, runtime.failure)
    else:
        runtime.timing.pass_by()


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
        msg = f"{what}; set it to a time that has not passed, and not at all once the input has ended"
        raise StateError(msg)
