"""Operators with `on_error=SKIP`: tuples on which they fail are left out, with all effects of these tuples.

Tuples and values that the operator emitted for it are undone. If the operator has state, or attributes
that the window has set, all of a failed tuple's traces cannot be known afterwards. So the window is run again
from the state before, without that tuple, until none fails. After `_MOST_RUNS` attempts all are left out that
fail in one. A batch that fails is delivered row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import numpy as np

from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import OperatorError, SchemaError, described, shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.support.masking import mask_text, masked_and_shortened, printable
from ridgeline.api.times import Processing
from ridgeline.engine.operator.delivery import Delivery, Place
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart
from ridgeline.engine.operator.progress import Handler

_MOST_RUNS = 16
_TEXT_LIMIT = 300
_TUPLE_LIMIT = 1_000
_TRACEBACK_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Wrong:
    """The fault of a tuple: the exception, its traceback, and when (wall clock)."""

    error: str
    traceback: str
    at: float


_A_BATCH: Mapping[int, Wrong] = MappingProxyType({})


@dataclass(slots=True)
class Skips:
    """The tuples that an operator's window leaves out, by sequence of tuples.

    `wrong`: their positions, and what was wrong there. A sequence that is known here at all is delivered row
    by row. `failure`: the first one of this attempt, which is to be run again. `runs`: the attempts before.
    """

    wrong: dict[Place, dict[int, Wrong]] = field(default_factory=dict)
    failure: OperatorError | None = None
    runs: int = 0

    def add(self, place: Place, failure: OperatorError, wrong: Mapping[int, Wrong] = _A_BATCH) -> None:
        """Note what failed. What fails after it may do so by the traces that it has left."""
        rows = self.wrong.setdefault(place, {})
        if self.failure is None or self.runs >= _MOST_RUNS:
            rows.update(wrong)
        self.failure = self.failure or failure

    def run_again(self) -> bool:
        """Whether the window is to be run again, since something has failed in it."""
        found, self.failure = self.failure is not None, None
        self.runs += 1
        return found


class SkippingDelivery(Delivery):
    """Delivers the tuples of one window to an operator that leaves those out on which it fails.

    `left_out`: gets what was wrong with those that no error port has taken.
    """

    def __init__(self, instance: Instance, skips: Skips, left_out: list[str]) -> None:
        super().__init__(instance)
        self._quick = set(instance.handlers)  # until a port shows that it is not
        self._skips = skips
        self._points = list(instance.outputs.values())
        self._letters = _letters_of(instance)
        self._context = instance.context
        self._left_out = left_out

    def _process(
        self,
        place: Place,
        handler: Handler,
        tuples: Iterator[object],
        outputs: Sequence[Sized],
        rows: Sequence[object],
    ) -> Sequence[Sequence[int]]:
        """Tuple by tuple. Raises OperatorError if one failed and its traces cannot be taken back."""
        lengths: list[list[int]] = [[] for _ in outputs]
        for position, row in enumerate(tuples):
            self._one(place, position, "process", handler, row, row)
            for output, after in zip(outputs, lengths, strict=True):
                after.append(len(output))
        return lengths

    def deliver_batch(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Sequence[OutputPoint]
    ) -> None:
        """As one batch; row by row once it has failed. Raises OperatorError as `deliver`."""
        if place not in self._skips.wrong:
            marks = self._marks()
            try:
                super().deliver_batch(place, handler, tuples, inheriting)
            except OperatorError as error:
                self._roll_back(marks)
                if not self._instance.is_clean:
                    self._skips.add(place, error)
                    return
            else:
                return
        with self._instance.running.part(place[0], len(tuples), None):
            for position in range(len(tuples)):
                one = tuples.take(np.array([position]))
                processing = Processing(lambda one=one: one.times, 1)  # type: ignore[misc]
                self._context.engine.batch = one
                for point in inheriting:
                    point.begin(processing)
                self._one(place, position, "process_batch", handler, one.batch, one)
                for point in inheriting:
                    point.end()
        self._context.engine.batch = None

    def check(self) -> None:
        """All tuples were delivered. Raises OperatorError if some have failed: the window runs again."""
        if self._skips.failure is not None:
            raise self._skips.failure

    def _one(
        self,
        place: Place,
        position: int,
        callback: str,
        handler: Handler,
        value: object,
        row: object,
    ) -> None:
        """Call a handler for one tuple; if it fails, leave it out, now or in the next attempt."""
        known = self._skips.wrong.get(place, {}).get(position)
        if known is not None:
            self._leave_out(place[0], row.rows[0] if isinstance(row, Tuples) else row, known)
            return
        marks = self._marks()
        try:
            handler(value)
        except BaseException as error:
            row = row.rows[0] if isinstance(row, Tuples) else row
            failure = self._instance.failure(f"{callback} of port {place[0]}", error, shorten(row))
            if not isinstance(failure, OperatorError):
                raise failure from error
            failure.__cause__ = error
            wrong = self._wrong(described(error, _TEXT_LIMIT), failure.failure.traceback)
            self._roll_back(marks)
            if self._instance.is_clean:
                self._leave_out(place[0], row, wrong)
            else:
                self._skips.add(place, failure, {position: wrong})

    def _wrong(self, error: str, traceback: str) -> Wrong:
        return Wrong(error, traceback[-_TRACEBACK_LIMIT:], self._context.clock.wall())

    def _leave_out(self, port: str, row: object, wrong: Wrong) -> None:
        """Give it to the first error port that takes such tuples, else note it; write its dead letter."""
        if self._letters is not None:
            shown = masked_and_shortened(row, _TUPLE_LIMIT)
            self._letters.emit(_letter(self._instance, port, shown, wrong))
        schema = self._instance.spec.inputs[port]
        taking = (point for point in self._points if point.port.error and _takes(point, schema))
        point = next(taking, None)
        if point is not None:
            point.emit(row)
        else:
            self._left_out.append(f"{shorten(row)}: {wrong.error}")

    def _marks(self) -> Sequence[object]:
        return [*(point.mark() for point in self._points), len(self._context.engine.handed_over)]

    def _roll_back(self, marks: Sequence[Any]) -> None:
        for point, mark in zip(self._points, marks, strict=False):
            point.roll_back(mark)
        del self._context.engine.handed_over[marks[-1] :]


class LeftOut(TurnPart):
    """Writes the dead letters of records that an input has left out, and counts what went to error ports."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._declared = operator_type(type(instance.operator)).outputs
        self._letters = _letters_of(instance)
        self._ports = [
            (name, point.port.late)
            for name, point in instance.outputs.items()
            if point.port.late or point.port.error
        ]

    def begin(self, turn: Turn) -> None:
        """Drop the records that a failed attempt has left out."""
        self.instance.context.engine.take("left_out")

    def end(self, turn: Turn) -> None:
        """Write the dead letters of the window. Raises OperatorError."""
        if records := self.instance.context.engine.take("left_out"):
            unread = self.instance.call("emit", self._write, records)
            if not self.instance.skips_tuples:
                turn.left_out = unread

    def _write(self, records: Sequence[tuple[str, str]]) -> list[str]:
        """Write the letters; returns what was wrong with each."""
        port, now, found = next(iter(self._declared), ""), self.instance.context.clock.wall(), []
        for record, error in records:
            shown, text = (mask_text(one)[:_TUPLE_LIMIT] for one in (record, error))
            if self._letters is not None:
                self._letters.emit(_letter(self.instance, port, shown, Wrong(text, "", now)))
            found.append(printable(f"{shorten(shown)}: {text}"))
        return found

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """Note the tuples that went to error ports, those that came too late, and those that were left out.

        Of errors `error_tuples_kept` are text. Late records are no errors.
        """
        if not self._ports and not turn.left_out:
            return
        keep = self.instance.spec.attributes["error_tuples_kept"]
        count, kept, window = 0, list[str](), turn.report.window
        for name, late in self._ports:
            for part in emitted[name]:
                if late:
                    window.late += len(part)
                    continue
                count += len(part)
                if len(kept) < keep:
                    kept += [shorten(row) for row in part.rows[: keep - len(kept)]]
        window.errors = count + len(turn.left_out)
        most = max(1, keep) if turn.left_out else 0
        window.error_tuples = tuple(kept + turn.left_out[: max(0, most - len(kept))])


def _letter(instance: Instance, port: str, shown: str, wrong: Wrong) -> DeadLetter:
    """The dead letter of a tuple, which is `shown` without secrets."""
    spec, at = instance.spec, datetime.fromtimestamp(wrong.at, UTC)
    window_id, shown = instance.context.window_id, printable(shown)
    error, trace = (printable(mask_text(text)) for text in (wrong.error, wrong.traceback))
    return DeadLetter(window_id, spec.name, spec.partition, port, shown, error, trace, at)


def _letters_of(instance: Instance) -> OutputPoint | None:
    """The port for dead letters, which the engine writes unless the operator declares it itself."""
    declared = operator_type(type(instance.operator)).outputs
    return None if DEAD_LETTERS in declared else instance.outputs.get(DEAD_LETTERS)


def _takes(point: OutputPoint, schema: Schema) -> bool:
    """True if an output takes tuples of a schema; one declared as `Any` that no stream reads has none."""
    try:
        taken = point.schema
        return schema.difference(taken) is None and (taken.pickled or len(schema.arrow) == len(taken.arrow))
    except SchemaError:
        return False
