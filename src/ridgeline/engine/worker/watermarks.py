"""The watermark of one operator: no record older than it is still to come, but for late ones.

It is part of the data plane. A container sends the watermarks of its operators with the tuples of the window.
Each operator keeps its own in state. So an attempt that is made again sees what the first one saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ridgeline.api.clock import Clock
from ridgeline.api.context import OperatorContext
from ridgeline.api.operator import InputOperator, lateness_seconds
from ridgeline.api.state import ValueCell
from ridgeline.api.times import EARLIEST, LATEST
from ridgeline.api.tuples import Tuples

Mark: TypeAlias = tuple[int, bool]
"""The watermark that an operator passes on in a window, and whether it is idle: then it holds nobody up."""
Marks: TypeAlias = dict[int, Mark]
"""The watermarks of a window so far, by the operators that pass them on (physical id)."""


def watermark_cell() -> ValueCell:
    """What keeps a watermark: (as the operator saw it last, as it passed it on last)."""
    return ValueCell((EARLIEST, EARLIEST))


class Watermark:
    """The watermark of one operator, window by window.

    `producers`: the operators whose watermarks it follows; none for an input operator. `marks`: those of the
    container's window, to which it adds its own.
    """

    def __init__(self, operator_id: int, producers: Sequence[int], marks: Marks) -> None:
        self.cell = watermark_cell()
        self._id = operator_id
        self._producers = producers
        self._marks = marks
        self._timed_at: float | None = None

    def begin(self, context: OperatorContext) -> None:
        """A window begins: its tuples are judged by the watermark of the window before."""
        context.set_watermark(self.cell.get()[0])

    def advance(self, context: OperatorContext, *, ends: bool, gathers: bool) -> None:
        """All tuples of a streaming window have come; what `end_window` emits comes before the new watermark.

        `ends`: the application window ends; until then the operator may still emit older records.
        `gathers`: it gets the tuples of the whole application window when that ends.
        """
        if not self._producers:
            return
        entered, left = self.cell.get()
        time, idle = _least([self._marks.get(one, (EARLIEST, False)) for one in self._producers])
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
        clock: Clock,
        *,
        finished: bool,
    ) -> None:
        """An input operator has emitted this in a window; it has `finished` with it, or before."""
        _, left = self.cell.get()
        spans = [span for part in parts if (times := part.times) is not None and (span := times.span())]
        lateness = lateness_seconds(operator) or 0.0
        if spans:
            newest = max(span.newest for span in spans) - round(lateness * 1_000_000)
            left = max(left, min(newest, LATEST - 1))
        self._keep(LATEST if finished else left, LATEST if finished else left, idle=False)
        silence = operator.idle_seconds()
        if silence is not None and not finished:
            now = clock.monotonic()
            if spans or self._timed_at is None:
                self._timed_at = now
            self._marks[self._id] = left, now - self._timed_at >= silence

    def lost(self, context: OperatorContext, *, ends: bool) -> None:
        """The window of the operator is lost, and its tuples with it: time goes on."""
        self._marks[self._id] = self.cell.get()[1], False
        self.advance(context, ends=ends, gathers=False)

    def _keep(self, entered: int, left: int, *, idle: bool) -> None:
        if (entered, left) != self.cell.get():
            self.cell.set((entered, left))
        self._marks[self._id] = left, idle


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
