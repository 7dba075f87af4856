"""Asking an input operator for its tuples: once a window, or again and again one that waits for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import itemgetter

from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import StateError
from ridgeline.api.operator import (
    InputOperator,
    SparkSource,
    has_finished,
    mark_finished,
    reads_ranges,
)
from ridgeline.api.points import OutputPoint
from ridgeline.api.push_input import PushInput
from ridgeline.api.state import HELD
from ridgeline.api.support.loops import DelayHead
from ridgeline.api.times import Times
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart
from ridgeline.engine.state.held import Chunk, HeldCell
from ridgeline.measure.events import SourceProgress, SourceTaken
from ridgeline.plan.protocol import Budget

Call = Callable[[str, Callable[[], object]], object]
"""Calls a callback of this name."""


class InputTuples(TurnPart):
    """Has an input operator emit the tuples of a window, and reports how far it has come."""

    def __init__(self, instance: Instance, operator: InputOperator) -> None:
        super().__init__(instance)
        self._operator = operator
        self._said: tuple[SourceProgress, int] | None = None
        """What it said in its last window, and the attempt; None while one runs."""
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
            self._excess.restored()
        work = None if request.states is None else instance.running.work()
        instance.running.before = work[0] if work is not None else None
        self._idle = False
        mark_finished(self._operator, finished=instance.spec.id in request.finished)

    def before_tuples(self, turn: Turn) -> None:
        """Ask it for its tuples, unless it has finished before. Raises OperatorError."""
        operator, instance = self._operator, self.instance
        if isinstance(operator, SparkSource) or instance.spec.id not in turn.request.finished:
            self._idle = self._excess.poll(operator, turn)

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """Say whether it has finished, whether it had nothing, and its progress. Raises OperatorError."""
        operator, instance, report = self._operator, self.instance, turn.report
        if has_finished(operator):
            report.window.finished = True
        report.idle, report.holds = self._idle, self._excess.rows
        work, unit = instance.call("progress", operator.progress), operator.progress_unit
        if work is None:
            work, unit = self._excess.seen, "tuples"
        if work is None:
            return
        consumed, remaining = instance.running.without_held(work)
        said = report.source = SourceProgress(
            0.0,
            report.window.window_id,
            instance.spec.id,
            consumed,
            remaining,
            unit,
            paced=bool(instance.call("is_paced", operator.is_paced)),
            before=instance.running.before,
        )
        self._said = said, report.window.attempt

    def forget(self) -> None:
        """Drop the work taken: it is not known any more."""
        self._said = None

    def taken(self) -> SourceTaken | None:
        """The work taken by the end of its last window, and the work that remains now.

        None while a window runs. From any thread.
        """
        known = self._said
        if known is None or (work := self.instance.running.work()) is None or self._said is not known:
            return None
        said, attempt = known
        window_id, operator, unit = said.window_id, said.operator, said.unit
        return SourceTaken(0.0, window_id, attempt, operator, *work, unit, 0.0, said.paced, said.before)


NO_BUDGET = Budget(math.inf)
_Work = tuple[float, float | None] | None
_CHUNK_ROWS = 4096


class Excess:
    """What an input has emitted beyond the budget of its window: it waits for the next windows, in order.

    Inputs that read what they are told to (`Enumerator`), that have a pace or ask for their budget have none.
    Of a Spark source it is the rest of a micro-batch.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._cell = HeldCell()
        self.may_hold = not (reads_ranges(instance.operator) or isinstance(instance.operator, DelayHead))
        if self.may_hold:
            instance.cells[HELD] = self._cell
        self._given, self._asked, self._has_held = 0.0, False, False
        self._points = {point.name: point for point in instance.outputs.values() if not point.port.error}

    @property
    def rows(self) -> int:
        """How many tuples wait."""
        return self._cell.rows

    @property
    def seen(self) -> _Work:
        """The progress of an input that reports none, by what it has emitted; None if that never had to wait.

        What remains is known of windows in which it was asked.
        """
        return (self._given, 0.0 if self._asked else None) if self._has_held else None

    def restored(self) -> None:
        """Its state is another one, perhaps: other tuples wait."""
        running = self._instance.running
        self._given, running.held = self._given + self.rows - running.held, self.rows

    def poll(self, operator: InputOperator, turn: Turn) -> bool:
        """Emit what waits, and what the input has as far as that goes; True if a `PushInput` had nothing."""
        instance, engine, cell = self._instance, self._instance.context.engine, self._cell
        budget = turn.request.budgets.get(instance.spec.name, NO_BUDGET)
        engine.budget, engine.emitted, engine.keeps_budget = budget.records, self._emitted, False
        bound = budget.measured or cell.rows or isinstance(operator, SparkSource)
        most = budget.records / instance.context.partitions if bound else math.inf
        waited = cell.rows
        while cell.rows and self._emitted() < most:
            chunk = cell.first
            point = instance.call("emit", self._port_of, chunk)
            rows = math.ceil(min(most - self._emitted(), len(chunk.batch)))
            point.pass_on(Tuples.of_batch(point.schema, chunk.batch, chunk.times).slice(0, rows))
            cell.go(rows)
        before = instance.running.work() if self.may_hold else None
        idle, went, self._asked = False, self._emitted(), False
        if isinstance(operator, SparkSource):
            instance.timed("emit_batch", operator.emit_rows, turn.batches)
        elif not cell.finished and (not waited or self._emitted() < most):
            self._asked = True
            idle = poll_input(operator, instance.outputs.values(), instance.timed, turn.request.ends, most)
        self._given += self._emitted() - went
        if self.may_hold:
            if self._emitted() > went:  # else what waits has its order, and the input said before if it ended
                self._hold(operator, most)
            self._count(before, self._emitted() + cell.rows)
            self._has_held |= cell.rows > 0 and not isinstance(operator, SparkSource)
            if cell.finished:
                mark_finished(operator, finished=not cell.rows)
        return idle and not waited

    def _port_of(self, chunk: Chunk) -> OutputPoint:
        """Where what waits goes. Raises StateError if the operator's code has other columns there by now."""
        point = self._points.get(chunk.port)
        if point is None or not chunk.batch.schema.equals(point.schema.arrow):
            columns = ", ".join(f"{one.name} {one.type}" for one in chunk.batch.schema)
            raise StateError(
                f"{self.rows:,} tuples wait that were emitted at port `{chunk.port}` with the columns "
                f"[{columns}], which it has not any more; run the version before until none "
                f"waits, or drop them with `--drop-state {self._instance.spec.name}`"
            )
        return point

    def _emitted(self) -> int:
        return sum(point.pending for point in self._points.values())

    def _count(self, before: _Work, total: int) -> None:
        """Note the work that waits, in the input's unit. `before`: its progress before it was asked.

        `total`: all that waited or came in this window.
        """
        running = self._instance.running
        if not self._cell.rows:
            running.held = 0.0
        elif before is None:
            running.held = self._cell.rows
        elif (work := running.work()) is not None:
            running.held = (work[0] + running.held - before[0]) * self._cell.rows / total

    def _hold(self, operator: InputOperator, most: float) -> None:
        """Keep what is too much as state; nothing in a window with control tuples: they have their place."""
        total, points = self._emitted(), self._points.values()
        bound = not (self._instance.context.engine.keeps_budget or any(one.controls for one in points))
        if not bound or total <= most or self._instance.call("is_paced", operator.is_paced):
            return
        chunks: list[tuple[float, Chunk]] = []
        for point in points:
            rest = self._instance.call("emit", point.hold, math.ceil(point.pending * most / total))
            place, rows = 0, sum(map(len, rest))
            for part in rest:
                for start in range(0, len(part), _CHUNK_ROWS):
                    some = part.slice(start, min(len(part), start + _CHUNK_ROWS))
                    span = some.times.span() if some.timed and some.times is not None else None
                    chunk = Chunk(point.name, some.batch, some.time_column or some.times, span)
                    chunks.append((place / rows, chunk))
                    place += len(some)
        for _, chunk in sorted(chunks, key=itemgetter(0)):  # of several ports alike
            self._cell.keep(chunk)
        self._cell.finished = has_finished(operator)


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
