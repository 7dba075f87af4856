"""The watermark of one operator: no record older than it is still to come, but for late ones.

It is part of the data plane. A container sends the watermarks of its operators with the tuples of the window.
Each operator keeps its own in state. So an attempt that is made again sees what the first one saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ridgeline.api.operator import (
    InputOperator,
    Operator,
    has_finished,
    lateness_seconds,
    makes_watermark,
)
from ridgeline.api.state import ENDED, HELD, WATERMARK, ValueCell
from ridgeline.api.times import EARLIEST, LATEST, NO_TIME, Mark, Times
from ridgeline.engine.operator.application_window import gathers
from ridgeline.engine.operator.input import emitted_times
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart
from ridgeline.engine.state.held import HeldCell
from ridgeline.measure.events import OperatorWindow, WatermarkReading


class Watermark(TurnPart):
    """Advances the watermark of one operator, which is kept in a state and passed on with its tuples."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._cell = instance.cells[WATERMARK] = ValueCell((EARLIEST, EARLIEST))
        """As the operator saw it last, and as it passed it on last."""
        self._producers: Sequence[int] = ()
        """The operators whose watermarks it follows; none for one that makes its own."""
        self._gathers = gathers(instance)
        self._marks = instance.signals.marks
        self._timed_at: float | None = None
        self._ahead = 0

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator has no watermark."""
        return cls(instance) if instance.keeps_time else None

    def connect(self, producers: Sequence[int]) -> None:
        """It follows the watermarks of these operators from now on."""
        self._producers = producers

    def begin(self, turn: Turn) -> None:
        """Tuples are judged by the watermark of the window before."""
        context = self.instance.context
        context.engine.watermark = self._cell.get()[0]
        context.engine.take("late")  # what a failed attempt left
        context.engine.marks_read = None
        self._ahead = 0

    def after_tuples(self, turn: Turn) -> None:
        """Advance to the new watermark: tuples of `end_window` still come before it downstream."""
        self._advance(ends=turn.ends, gathers=self._gathers)

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """Fill in what the window has come to, of an input operator by what it has emitted."""
        operator = self.instance.operator
        if makes_watermark(operator):
            self._emitted(
                operator, emitted_times(self.instance, emitted), finished=self._has_finished(operator)
            )
        self._fill_in(turn.report.window)

    def void(self, turn: Turn) -> None:
        """The tuples of the window are lost; time passes."""
        self._pass_on(self._cell.get()[1], idle=False)
        self._advance(ends=turn.ends, gathers=False)
        self._fill_in(turn.report.window)

    def _fill_in(self, window: OperatorWindow) -> None:
        entered, left = self._cell.get()
        _, idle = self._marks.get(self.instance.spec.id, (EARLIEST, False))
        window.watermark = WatermarkReading(entered, left, idle, self._ahead)
        window.late += self.instance.context.engine.take("late")

    def _advance(self, *, ends: bool, gathers: bool) -> None:
        """All tuples of a streaming window have come.

        `ends`: the application window ends; until then the operator may still emit older records.
        `gathers`: it gets the tuples of the whole application window when that ends.
        """
        if not self._producers:
            return
        context = self.instance.context
        entered, left = self._cell.get()
        time, idle = _least([self._marks.get(one, (EARLIEST, False)) for one in self._producers])
        if ends or not gathers:
            entered = max(entered, time)
        if ends:
            left = max(left, self._delayed(entered))
        self._keep(entered, left, idle=idle)
        context.engine.watermark = entered

    def _delayed(self, entered: int) -> int:
        """How far records go that the operator may still emit. All are emitted once the input has ended."""
        context = self.instance.context
        if entered == LATEST:
            return entered
        delayed = entered - context.watermark_delay
        if context.oldest_held is None:
            return delayed
        oldest: int = self.instance.call("oldest held record", context.oldest_held)
        return min(delayed, oldest)

    def _has_finished(self, operator: Operator) -> bool:
        """True if an operator that makes a watermark emits nothing more after this window."""
        if isinstance(operator, InputOperator):
            return has_finished(operator)
        ended = self.instance.cells[ENDED]
        return isinstance(ended, ValueCell) and bool(ended.get())

    def _emitted(self, operator: Operator, parts: Iterable[Times], *, finished: bool) -> None:
        """An operator has emitted records of these times in a window. `finished`: with it, or before.

        Records that are further ahead of the clock than `time_ahead_limit` count as if they had no time.
        """
        context = self.instance.context
        _, left = self._cell.get()
        if (read := context.engine.marks_read) is not None:
            self._follow(left, read, finished=finished)
            return
        limit = round((context.clock.wall() + context.attributes["time_ahead_limit"]) * 1_000_000)
        newest, self._ahead = _newest(parts, min(limit, LATEST - 1))
        held = self.instance.cells.get(HELD)
        spans = [] if not isinstance(held, HeldCell) else [one.span for one in held if one.span is not None]
        if isinstance(held, HeldCell) and spans:
            held.newest = max(held.newest, newest, *(one.newest for one in spans if one.newest <= limit))
        known = max(newest, held.newest) if isinstance(held, HeldCell) else newest
        if known != NO_TIME:
            lateness = lateness_seconds(operator) or 0.0
            mark = known - round(lateness * 1_000_000)
            left = max(left, min([mark, *(one.oldest for one in spans)]))
        self._keep(LATEST if finished else left, LATEST if finished else left, idle=False)
        silence = operator.idle_seconds()
        if silence is not None and not finished:
            now = context.clock.monotonic()
            if newest != NO_TIME or self._timed_at is None:
                self._timed_at = now
            self._pass_on(left, idle=newest == NO_TIME and now - self._timed_at >= silence)

    def _follow(self, left: int, read: Sequence[Mark], *, finished: bool) -> None:
        """An input has read what others had passed on; what has ended or has no watermark is as if idle."""
        active = [time for time, idle in read if not idle and time < LATEST]
        left = LATEST if finished else max([left, min(active)] if active else [left])
        self._keep(left, left, idle=not active and not finished)

    def _keep(self, entered: int, left: int, *, idle: bool) -> None:
        if (entered, left) != self._cell.get():
            self._cell.set((entered, left))
        self._pass_on(left, idle=idle)

    def _pass_on(self, left: int, *, idle: bool) -> None:
        self._marks[self.instance.spec.id] = self.instance.context.engine.mark = left, idle


def _newest(parts: Iterable[Times], limit: int) -> tuple[int, int]:
    """The newest time that is not after `limit`, or `NO_TIME`; and how many records are after it."""
    newest, ahead = NO_TIME, 0
    for times in parts:
        if not len(times):
            continue
        found = int(times.newest.max())
        if found > limit:
            within = times.newest <= limit
            ahead += len(times) - int(within.sum())
            found = int(times.newest[within].max(initial=NO_TIME))
        newest = max(newest, found)
    return newest, ahead


def _least(marks: Sequence[Mark]) -> Mark:
    """The watermark of all producers. Idle ones hold nothing back, nor do those that have finished."""
    active = [time for time, idle in marks if not idle and time != LATEST]
    if active:
        return min(active), False
    if any(idle for _, idle in marks):
        return EARLIEST, True
    return LATEST, False
