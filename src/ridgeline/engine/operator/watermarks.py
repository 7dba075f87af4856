"""The watermark of one operator: no record older than it is still to come, but for late ones.

It is part of the data plane. A container sends the watermarks of its operators with the tuples of the window.
Each operator keeps its own in state. So an attempt that is made again sees what the first one saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.context import OperatorContext
from ridgeline.api.operator import InputOperator, lateness_seconds
from ridgeline.api.state import ValueCell
from ridgeline.api.times import EARLIEST, LATEST, NO_TIME
from ridgeline.measure.events import OperatorWindow, WatermarkReading

Mark: TypeAlias = tuple[int, bool]
"""The watermark that an operator passes on in a window, and whether it is idle: then it holds nobody up."""
Marks: TypeAlias = dict[int, Mark]
"""The watermarks of a window so far, by the operators that pass them on (physical id)."""


def watermark_cell() -> ValueCell:
    """What keeps a watermark: (as the operator saw it last, as it passed it on last)."""
    return ValueCell((EARLIEST, EARLIEST))


class Watermark:
    """The watermark of one operator, window by window.

    `marks`: those of the container's window, to which it adds its own.
    """

    def __init__(self, operator_id: int, marks: Marks) -> None:
        self.cell = watermark_cell()
        self.producers: Sequence[int] = ()
        """The operators whose watermarks it follows; none for an input operator."""
        self._id = operator_id
        self._marks = marks
        self._timed_at: float | None = None
        self._ahead = 0

    def begin(self, context: OperatorContext) -> None:
        """A window begins: its tuples are judged by the watermark of the window before."""
        context.set_watermark(self.cell.get()[0])
        context.take_late()  # what a failed attempt left
        self._ahead = 0

    def report(self, window: OperatorWindow, context: OperatorContext) -> None:
        """Fill in what the window just run has come to."""
        entered, left = self.cell.get()
        _, idle = self._marks.get(self._id, (EARLIEST, False))
        window.watermark = WatermarkReading(entered, left, idle, self._ahead)
        window.late += context.take_late()

    def advance(self, context: OperatorContext, *, ends: bool, gathers: bool) -> None:
        """All tuples of a streaming window have come; what `end_window` emits comes before the new watermark.

        `ends`: the application window ends; until then the operator may still emit older records.
        `gathers`: it gets the tuples of the whole application window when that ends.
        """
        if not self.producers:
            return
        entered, left = self.cell.get()
        time, idle = _least([self._marks.get(one, (EARLIEST, False)) for one in self.producers])
        if ends or not gathers:
            entered = max(entered, time)
        if ends:
            delayed = entered if entered == LATEST else entered - context.watermark_delay
            left = max(left, delayed)
        self._keep(entered, left, idle=idle)
        context.set_watermark(entered)

    def emitted(
        self,
        operator: InputOperator,
        parts: Iterable[Tuples],
        context: OperatorContext,
        *,
        finished: bool,
    ) -> None:
        """An input operator has emitted this in a window; it has `finished` with it, or before.

        Records that are further ahead of the clock than `time_ahead_limit` count as if they had no time.
        """
        _, left = self.cell.get()
        limit = round((context.clock.wall() + context.attributes["time_ahead_limit"]) * 1_000_000)
        newest, self._ahead = _newest(parts, min(limit, LATEST - 1))
        if newest != NO_TIME:
            lateness = lateness_seconds(operator) or 0.0
            left = max(left, newest - round(lateness * 1_000_000))
        self._keep(LATEST if finished else left, LATEST if finished else left, idle=False)
        silence = operator.idle_seconds()
        if silence is not None and not finished:
            now = context.clock.monotonic()
            if newest != NO_TIME or self._timed_at is None:
                self._timed_at = now
            self._marks[self._id] = left, newest == NO_TIME and now - self._timed_at >= silence

    def lost(self, context: OperatorContext, *, ends: bool) -> None:
        """The window of the operator is lost, and its tuples with it: time goes on."""
        self._marks[self._id] = self.cell.get()[1], False
        self.advance(context, ends=ends, gathers=False)

    def _keep(self, entered: int, left: int, *, idle: bool) -> None:
        if (entered, left) != self.cell.get():
            self.cell.set((entered, left))
        self._marks[self._id] = left, idle


def _newest(parts: Iterable[Tuples], limit: int) -> tuple[int, int]:
    """The newest time that is not after `limit`, or `NO_TIME`; and how many records are after it."""
    newest, ahead = NO_TIME, 0
    for part in parts:
        if (times := part.times) is None or not len(times):
            continue
        found = int(times.newest.max())
        if found > limit:
            within = times.newest <= limit
            ahead += len(times) - int(within.sum())
            found = int(times.newest[within].max(initial=NO_TIME))
        newest = max(newest, found)
    return newest, ahead


def _least(marks: Sequence[Mark]) -> Mark:
    """What the watermarks of all producers say: idle ones hold nobody up, nor do those that have finished."""
    active = [time for time, idle in marks if not idle and time != LATEST]
    if active:
        return min(active), False
    if any(idle for _, idle in marks):
        return EARLIEST, True
    return LATEST, False


def marks_to_send(marks: Mapping[int, Mark], operators: Iterable[int]) -> Marks:
    """The watermarks of those operators of a container that others read."""
    return {operator: marks[operator] for operator in operators if operator in marks}
