"""Asking an input operator for its tuples: once a window, or again and again one that waits for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.operator import (
    InputOperator,
    SparkSource,
    has_finished,
    mark_finished,
    reads_ranges,
)
from ridgeline.api.points import OutputPoint
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import HELD, ValueCell
from ridgeline.api.support.loops import DelayHead
from ridgeline.api.times import Times
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart
from ridgeline.measure.events import SourceProgress, SourceTaken
from ridgeline.plan.protocol import Budget

Call = Callable[[str, Callable[[], object]], object]
"""Calls a callback of this name."""


class InputTuples(TurnPart):
    """Has an input operator emit the tuples of a window, and reports how far it has come."""

    def __init__(self, instance: Instance, operator: InputOperator) -> None:
        super().__init__(instance)
        self._operator = operator
        self._taken: SourceTaken | None = None
        """Work taken by the end of its last window; None while one runs."""
        self._idle = False
        self._excess = Excess(instance)

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if it is no input operator."""
        return cls(instance, instance.operator) if isinstance(instance.operator, InputOperator) else None

    def begin(self, turn: Turn) -> None:
        """It takes from now on."""
        instance, request = self.instance, turn.request
        self.forget()
        if request.states is not None:
            instance.running.held = self._excess.restored()
        work = None if request.states is None else instance.running.work()
        instance.running.before = work[0] if work is not None else None
        self._idle = False
        mark_finished(self._operator, finished=instance.spec.id in request.finished)

    def before_tuples(self, turn: Turn) -> None:
        """Ask it for its tuples, unless it has finished before. Raises OperatorError."""
        operator, instance = self._operator, self.instance
        if isinstance(operator, SparkSource):
            instance.timed("emit_batch", operator.emit_rows, turn.batches)
        elif instance.spec.id not in turn.request.finished:
            budget = turn.request.budgets.get(instance.spec.name, NO_BUDGET)
            self._idle = self._excess.poll(operator, budget, turn.request.ends)

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """Say whether it has finished, whether it had nothing, and its progress. Raises OperatorError."""
        operator, instance, report = self._operator, self.instance, turn.report
        if has_finished(operator):
            report.window.finished = True
        report.idle = self._idle
        if (work := instance.call("progress", operator.progress)) is None:
            return
        consumed, remaining = instance.running.without_held(work)
        said = report.source = SourceProgress(
            0.0,
            report.window.window_id,
            instance.spec.id,
            consumed,
            remaining,
            operator.progress_unit,
            paced=bool(instance.call("is_paced", operator.is_paced)),
            before=instance.running.before,
        )
        self._taken = SourceTaken(
            0.0,
            said.window_id,
            report.window.attempt,
            said.operator,
            None,
            None,
            said.unit,
            0.0,
            said.paced,
            said.before,
        )

    def forget(self) -> None:
        """Drop the work taken: it is not known any more."""
        self._taken = None

    def taken(self) -> SourceTaken | None:
        """The work taken by the end of its last window, and the work that remains now.

        None while a window runs. From any thread.
        """
        said = self._taken
        if said is None or (work := self.instance.running.work()) is None or self._taken is not said:
            return None
        return replace(said, consumed=work[0], remaining=work[1])


NO_BUDGET = Budget(math.inf)
_Work = tuple[float, float | None] | None
_Held = tuple[bool, dict[str, list[tuple[pa.RecordBatch, Times | str | None]]]]
"""Whether the input has finished, and by port the batches that wait, with their times."""


class Excess:
    """What an input has emitted beyond the budget of its window: it waits for the next windows, in order.

    Inputs that read what they are told to (`Enumerator`), that have a pace or ask for their budget have none.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._cell: ValueCell | None = None
        if not (reads_ranges(instance.operator) or isinstance(instance.operator, _BOUNDED)):
            self._cell = instance.cells[HELD] = ValueCell(None)
        self._points = [point for point in instance.outputs.values() if not point.port.error]

    def poll(self, operator: InputOperator, budget: Budget, ends: float) -> bool:
        """Emit what waits, and what the input has as far as that goes; True if a `PushInput` had nothing.

        `ends`: when the window's width is over (monotonic).
        """
        instance, engine = self._instance, self._instance.context.engine
        engine.budget, engine.emitted, engine.keeps_budget = budget.records, self._emitted, False
        most = budget.records / instance.context.partitions if budget.measured else math.inf
        # Not `get`, which copies what could be changed in place: batches cannot.
        held: _Held | None = None if self._cell is None else self._cell.snapshot()[0]
        finished, parts = held or (False, {})
        for point in self._points:
            for batch, times in parts.get(point.name, ()):
                point.pass_on(Tuples.of_batch(point.schema, batch, times))
        before = None if self._cell is None else instance.running.work()
        idle = False
        if finished:
            mark_finished(operator, finished=True)
        elif not held or self._emitted() < most:
            idle = poll_input(operator, instance.outputs.values(), instance.timed, ends, most)
        if self._cell is not None:
            self._hold(operator, self._cell, most, before)
        return idle and not held

    def restored(self) -> int:
        """The tuples that wait, as of the state."""
        held: _Held | None = None if self._cell is None else self._cell.snapshot()[0]
        return sum(len(batch) for parts in (held[1].values() if held else ()) for batch, _ in parts)

    def _emitted(self) -> int:
        return sum(point.pending for point in self._points)

    def _hold(self, operator: InputOperator, cell: ValueCell, most: float, before: _Work) -> None:
        """Keep what is too much as state; nothing in a window with control tuples: they have their place.

        `before`: the input's progress before it was asked.
        """
        total, held, running = self._emitted(), 0, self._instance.running
        bound = not (self._instance.context.engine.keeps_budget or any(one.controls for one in self._points))
        if not bound or total <= most or self._instance.call("is_paced", operator.is_paced):
            running.held = 0.0
            if cell.snapshot() != (None,):
                cell.set(None)
            return
        parts = {}
        for point in self._points:
            rest = self._instance.call("emit", point.hold, math.ceil(point.pending * most / total))
            held += sum(map(len, rest))
            parts[point.name] = [(part.batch, part.time_column or part.times) for part in rest]
        cell.set((has_finished(operator), parts))
        if before is not None and (work := running.work()) is not None:
            running.held = (
                (work[0] + running.held - before[0]) * held / total
            )  # in its unit, whatever that is
        mark_finished(operator, finished=False)  # once all is emitted


_BOUNDED = SparkSource, DelayHead
"""Inputs whose tuples are given by others."""


_MACHINE = SystemClock()


def poll_input(
    operator: InputOperator,
    outputs: Iterable[OutputPoint],
    call: Call,
    ends: float = math.inf,
    most: float = math.inf,
) -> bool:
    """Call what emits the window's tuples; True if a `PushInput` had none.

    `ends`: when the window's width is over, by the clock of the operator's context (monotonic). It is also
    over once so much time has passed on the machine: the clock of a test may stand still. `most`: a
    `PushInput` is asked no more once it has emitted so many.
    """
    if not isinstance(operator, PushInput):
        call("emit_tuples", operator.emit_tuples)
        return False
    context, outputs = operator.context, tuple(outputs)
    most = min(most, operator.window_tuples)
    ends_here = _MACHINE.monotonic() + ends - context.clock.monotonic()
    count = 0
    while True:
        context.engine.awake = False  # what comes from now on wakes it again
        call("emit_tuples", operator.emit_tuples)
        before, count = count, sum(point.pending for point in outputs)
        if operator.has_finished or count == before:
            break
        if count >= most or context.clock.monotonic() >= ends or _MACHINE.monotonic() >= ends_here:
            return False
    if not count and not operator.has_finished:
        context.idle_seconds = max(0.0, min(ends - context.clock.monotonic(), context.window_seconds))
        call("handle_idle_time", operator.handle_idle_time)
        count = sum(point.pending for point in outputs)
    return not count


def emitted_times(instance: Instance, emitted: Emitted) -> list[Times]:
    """The times of what an operator has emitted in its window, without errors and dead letters.

    `emitted`: what it has not handed on before.
    """
    ports = [name for name in emitted if not instance.outputs[name].port.error and name != DEAD_LETTERS]
    return [*instance.handed_on, *times_of(part for name in ports for part in emitted[name])]


def times_of(parts: Iterable[Tuples]) -> list[Times]:
    """The times of sequences of tuples, of those that have any."""
    return [times for part in parts if part.timed and (times := part.times) is not None]
