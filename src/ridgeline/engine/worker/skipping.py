"""Operators with `on_error=SKIP`: tuples on which they fail are left out, with all effects of these tuples.

What the operator emitted and handed over for the tuple is undone. State and attributes set in the window
cannot be undone by themselves. If the operator has any, its window is run again from the state before,
without the tuple. A batch that fails is delivered row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.api.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.dead_letter import DeadLetter
from ridgeline.api.errors import OperatorError, SchemaError, described, shorten
from ridgeline.api.masking import mask_text, printable
from ridgeline.api.operator import operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.schema import Schema
from ridgeline.api.times import Processing
from ridgeline.api.tuples import Tuples
from ridgeline.engine.worker.running import Handler

if TYPE_CHECKING:
    from ridgeline.engine.worker.runtime import OperatorRuntime

_TEXT_LIMIT = 300
_TUPLE_LIMIT = 1_000
_TRACEBACK_LIMIT = 2_000
Place = tuple[str, int]
"""An input port, and the number of a run of tuples that came in on it."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What was wrong with a tuple: the exception, its traceback, and when (wall clock)."""

    error: str
    traceback: str
    at: float


@dataclass(slots=True)
class Skips:
    """What is left out of an operator's window: by run of tuples, positions and what was wrong there.

    A run that is known here at all is delivered row by row. `failed`: where the window failed that is to be
    run again.
    """

    wrong: dict[Place, dict[int, Wrong]] = field(default_factory=dict)
    failed: tuple[Place, int | None, Wrong] | None = None

    def run_again(self) -> bool:
        """Whether the window is to be run again without what it failed on, which is noted."""
        if self.failed is None:
            return False
        place, position, wrong = self.failed
        rows = self.wrong.setdefault(place, {})
        if position is not None:
            rows[position] = wrong
        self.failed = None
        return True


class Delivery:
    """Delivers tuples to an operator that leaves those out on which it fails."""

    def __init__(self, runtime: OperatorRuntime, skips: Skips) -> None:
        self._runtime = runtime
        self._skips = skips
        self._points = list(runtime.outputs.values())
        declared = operator_type(type(runtime.operator)).outputs
        self._letters = None if DEAD_LETTERS in declared else runtime.outputs.get(DEAD_LETTERS)
        self._context = runtime.context
        self.left_out: list[str] = []
        """What was wrong with those that no error port has taken."""

    def deliver(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Iterable[OutputPoint]
    ) -> None:
        """Tuple by tuple. Raises OperatorError if one failed and its traces cannot be taken back."""
        rows, skipped = tuples.rows, self._skips.wrong.get(place, {})
        iterator = iter(rows)
        remaining: Callable[[], int] = iterator.__length_hint__  # type: ignore[attr-defined]  # a list's iterator
        points = list(inheriting) if tuples.timed else []
        processing = Processing(lambda: tuples.times, len(rows), remaining)
        outputs = [point.begin(processing) for point in points]
        lengths: list[list[int]] = [[] for _ in points]
        with self._runtime.running.part(place[0], len(rows), iterator):
            for position, row in enumerate(iterator):
                if position in skipped:
                    self._leave_out(place[0], row, skipped[position])
                else:
                    self._one(place, position, "process", handler, row, row)
                for output, after in zip(outputs, lengths, strict=True):
                    after.append(len(output))
        for point, after in zip(points, lengths, strict=True):
            point.end(after)

    def deliver_batch(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Iterable[OutputPoint]
    ) -> None:
        """As one batch; row by row once it has failed. Raises OperatorError as `deliver`."""
        points = list(inheriting)
        if place not in self._skips.wrong:
            marks = self._marks()
            try:
                self._runtime.deliver_batch(place[0], handler, tuples, points)
            except OperatorError as error:
                if not self._runtime.is_clean:
                    wrong = self._wrong(error.failure.error, error.failure.traceback)
                    self._skips.failed = (place, None if len(tuples) > 1 else 0, wrong)
                    raise
                self._roll_back(marks)
            else:
                return
        skipped = self._skips.wrong.get(place, {})
        with self._runtime.running.part(place[0], len(tuples), None):
            for position in range(len(tuples)):
                one = tuples.take(np.array([position]))
                processing = Processing(lambda one=one: one.times, 1)  # type: ignore[misc]
                for point in points:
                    point.begin(processing)
                if position in skipped:
                    self._leave_out(place[0], one.rows[0], skipped[position])
                else:
                    self._one(place, position, "process_batch", handler, one.batch, one)
                for point in points:
                    point.end()

    def _one(
        self,
        place: Place,
        position: int,
        callback: str,
        handler: Handler,
        value: object,
        row: object,
    ) -> None:
        """Call a handler for one tuple; if it fails, take its effects back and leave the tuple out."""
        marks = self._marks()
        try:
            handler(value)
        except BaseException as error:
            row = row.rows[0] if isinstance(row, Tuples) else row
            failure = self._runtime.failure(f"{callback} of port {place[0]}", error, shorten(row))
            if not isinstance(failure, OperatorError):
                raise failure from error
            wrong = self._wrong(described(error, _TEXT_LIMIT), failure.failure.traceback)
            if not self._runtime.is_clean:
                self._skips.failed = (place, position, wrong)
                raise failure from error
            self._roll_back(marks)
            self._leave_out(place[0], row, wrong)

    def _wrong(self, error: str, traceback: str) -> Wrong:
        return Wrong(error, traceback[-_TRACEBACK_LIMIT:], self._context.clock.wall())

    def _letter(self, port: str, row: object, wrong: Wrong) -> DeadLetter:
        spec = self._runtime.spec
        shown, error, trace = (
            printable(mask_text(text)) for text in (shorten(row, _TUPLE_LIMIT), wrong.error, wrong.traceback)
        )
        at = datetime.fromtimestamp(wrong.at, UTC)
        return DeadLetter(self._context.window_id, spec.name, spec.partition, port, shown, error, trace, at)

    def _leave_out(self, port: str, row: object, wrong: Wrong) -> None:
        """Give it to the first error port that takes such tuples, else note it; write its dead letter."""
        if self._letters is not None:
            self._letters.emit(self._letter(port, row, wrong))
        schema = self._runtime.spec.inputs[port]
        taking = (point for point in self._points if point.port.error and _takes(point, schema))
        point = next(taking, None)
        if point is not None:
            point.emit(row)
        else:
            self.left_out.append(f"{shorten(row)}: {wrong.error}")

    def _marks(self) -> Sequence[object]:
        return [*(point.mark() for point in self._points), self._context.handed_over_count]

    def _roll_back(self, marks: Sequence[Any]) -> None:
        for point, mark in zip(self._points, marks, strict=False):
            point.roll_back(mark)
        self._context.take_back(marks[-1])


def write_letters(runtime: OperatorRuntime) -> list[str]:
    """Write the dead letters of records that an input left out; returns what was wrong with each."""
    context, spec = runtime.context, runtime.spec
    declared = operator_type(type(runtime.operator)).outputs
    point = None if DEAD_LETTERS in declared else runtime.outputs.get(DEAD_LETTERS)
    at = datetime.fromtimestamp(context.clock.wall(), UTC)
    found = []
    for record, error in context.take_left_out():
        shown, text = (printable(mask_text(one[:_TUPLE_LIMIT])) for one in (record, error))
        if point is not None:
            port = next(iter(declared), "")
            point.emit(DeadLetter(context.window_id, spec.name, spec.partition, port, shown, text, "", at))
        found.append(f"{shorten(shown)}: {text}")
    return found


def _takes(point: OutputPoint, schema: Schema) -> bool:
    """True if an output takes tuples of a schema; one declared as `Any` that no stream reads has none."""
    try:
        return schema.difference(point.schema) is None
    except SchemaError:
        return False
