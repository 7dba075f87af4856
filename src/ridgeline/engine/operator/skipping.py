"""Operators with `on_error=SKIP`: tuples on which they fail are left out, with all effects of these tuples.

Tuples and values that the operator emitted for it are undone. If the operator has state, or attributes
that the window has set, all of a failed tuple's traces cannot be known afterwards. So the window continues to
find what else fails, and is run again from the state before. There each suspect is tried once more, from a
savepoint (`Savepoint`): if it fails again it is left out with all its effects. What one attempt finds
costs one more attempt, however much it is. A batch that fails is delivered row by row.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ridgeline.api.cells.cell import is_mutable
from ridgeline.api.cells.keyed_overlay import Overlay
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.keyed_table import NumberTable
from ridgeline.api.columns.dead_letter import NAME as DEAD_LETTERS
from ridgeline.api.columns.dead_letter import DeadLetter
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import OperatorError, SchemaError, described, shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.points import OutputPoint
from ridgeline.api.state import ValueCell
from ridgeline.api.support.masking import mask_text, masked_and_shortened, printable
from ridgeline.api.times import Processing
from ridgeline.engine.operator.delivery import Delivery, Place
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Turn, TurnPart
from ridgeline.engine.operator.progress import Handler

_TEXT_LIMIT = 300
_TUPLE_LIMIT = 1_000
_TRACEBACK_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Wrong:
    """The fault of a tuple: the exception, its traceback, and when (wall clock)."""

    error: str
    traceback: str
    at: float


@dataclass(slots=True)
class Skips:
    """The suspects of an operator's window, by sequence of tuples.

    `suspects`: the positions that failed after others had left traces, or for the first time. A run that is
    known here at all is delivered row by row. `wrong`: those that cannot be tried from a savepoint, and what
    was wrong there. `failure`: the first failure of this attempt, which is to be run again.
    """

    suspects: dict[Place, set[int]] = field(default_factory=dict)
    wrong: dict[Place, dict[int, Wrong]] = field(default_factory=dict)
    failure: OperatorError | None = None

    def suspect(self, place: Place, position: int | None, failure: OperatorError) -> None:
        """Note what failed; None: a whole batch."""
        rows = self.suspects.setdefault(place, set())
        if position is not None:
            rows.add(position)
        self.failure = self.failure or failure

    def run_again(self) -> bool:
        """Whether the window is to be run again, since suspects were found in it."""
        found, self.failure = self.failure is not None, None
        return found


class SkippingDelivery(Delivery):
    """Delivers the tuples of one window to an operator that leaves those out on which it fails.

    `left_out`: gets what was wrong with those that no error port has taken.
    """

    def __init__(self, instance: Instance, skips: Skips, left_out: list[str]) -> None:
        super().__init__(instance)
        self._skips = skips
        self._points = list(instance.outputs.values())
        self._letters = _letters_of(instance)
        self._context = instance.context
        self._left_out = left_out

    def deliver(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Sequence[OutputPoint]
    ) -> None:
        """Tuple by tuple. Raises OperatorError if one failed and its traces cannot be taken back."""
        rows = tuples.rows
        iterator = iter(rows)
        remaining: Callable[[], int] = iterator.__length_hint__  # type: ignore[attr-defined]  # a list's iterator
        points = inheriting if tuples.timed else ()
        processing = Processing(lambda: tuples.times, len(rows), remaining)
        outputs = [point.begin(processing) for point in points]
        lengths: list[list[int]] = [[] for _ in points]
        with self._instance.running.part(place[0], len(rows), iterator, rows):
            for position, row in enumerate(iterator):
                self._one(place, position, "process", handler, row, row)
                for output, after in zip(outputs, lengths, strict=True):
                    after.append(len(output))
        for point, after in zip(points, lengths, strict=True):
            point.end(after)

    def deliver_batch(
        self, place: Place, handler: Handler, tuples: Tuples, inheriting: Sequence[OutputPoint]
    ) -> None:
        """As one batch; row by row once it has failed. Raises OperatorError as `deliver`."""
        if place not in self._skips.suspects:
            marks = self._marks()
            try:
                super().deliver_batch(place, handler, tuples, inheriting)
            except OperatorError as error:
                self._roll_back(marks)
                if not self._instance.is_clean:
                    self._skips.suspect(place, None if len(tuples) > 1 else 0, error)
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
        """All tuples were delivered. Raises OperatorError if suspects were found: the window runs again."""
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
        """Call a handler for one tuple; if it fails, take its effects back and leave the tuple out.

        A suspect is tried from a savepoint, unless this attempt has failed already.
        """
        known = self._skips.wrong.get(place, {}).get(position)
        if known is not None:
            self._leave_out(place[0], row.rows[0] if isinstance(row, Tuples) else row, known)
            return
        savepoint = None
        tried = self._skips.failure is None and position in self._skips.suspects.get(place, ())
        if tried:
            with suppress(Exception):  # attributes of users may refuse to be copied
                savepoint = Savepoint(self._instance)
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
            clean = self._instance.is_clean
            self._roll_back(marks)
            if savepoint is not None:
                savepoint.roll_back()
            elif not clean:
                if tried:  # all before it was right: it is sure
                    self._skips.wrong.setdefault(place, {})[position] = wrong
                self._skips.suspect(place, position, failure)
                return
            self._leave_out(place[0], row, wrong)
        else:
            if savepoint is not None:
                savepoint.release()

    def _wrong(self, error: str, traceback: str) -> Wrong:
        return Wrong(error, traceback[-_TRACEBACK_LIMIT:], self._context.clock.wall())

    def _letter(self, port: str, row: object, wrong: Wrong) -> DeadLetter:
        spec = self._instance.spec
        shown = printable(masked_and_shortened(row, _TUPLE_LIMIT))
        error, trace = (printable(mask_text(text)) for text in (wrong.error, wrong.traceback))
        at = datetime.fromtimestamp(wrong.at, UTC)
        return DeadLetter(self._context.window_id, spec.name, spec.partition, port, shown, error, trace, at)

    def _leave_out(self, port: str, row: object, wrong: Wrong) -> None:
        """Give it to the first error port that takes such tuples, else note it; write its dead letter."""
        if self._letters is not None:
            self._letters.emit(self._letter(port, row, wrong))
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
        self.instance.context.engine.take_left_out()

    def end(self, turn: Turn) -> None:
        """Write the dead letters of the window. Raises OperatorError."""
        if records := self.instance.context.engine.take_left_out():
            unread = self.instance.call("emit", self._write, records)
            if not self.instance.skips_tuples:
                turn.left_out = unread

    def _write(self, records: Sequence[tuple[str, str]]) -> list[str]:
        """Write the letters; returns what was wrong with each."""
        context, spec = self.instance.context, self.instance.spec
        at = datetime.fromtimestamp(context.clock.wall(), UTC)
        found = []
        for record, error in records:
            shown, text = (printable(mask_text(one)[:_TUPLE_LIMIT]) for one in (record, error))
            if self._letters is not None:
                port, window_id = next(iter(self._declared), ""), context.window_id
                letter = DeadLetter(window_id, spec.name, spec.partition, port, shown, text, "", at)
                self._letters.emit(letter)
            found.append(f"{shorten(shown)}: {text}")
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


# What an operator holds in the middle of a window -----------------------------------------------------------

_CONTAINERS = frozenset({dict, list, set, OrderedDict})
_PARTS = frozenset({Overlay, NumberTable})


class Savepoint:
    """The states of an operator, and the attributes that the window has set.

    To take it costs about as much as to copy what a state holds in memory, without its values. Values that
    can change in place are copied when the next tuple first reads them. Use it once: `roll_back` or
    `release`.
    Raises whatever copying an attribute raises.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._late = instance.context.engine.take_late()
        instance.context.count_late(self._late)
        names = instance.undeclared.set_in_window()
        values = vars(instance.operator)
        self._attributes = {name: _owned(values[name]) for name in names}
        memo: dict[int, Any] = {}
        self._cells = [(cell, _fields(cell, memo)) for cell in instance.cells.values()]
        self._keyed = [cell for cell in instance.cells.values() if isinstance(cell, KeyedCell)]
        for cell in self._keyed:
            cell.begin_trial()

    def release(self) -> None:
        """The tuple did not fail."""
        for cell in self._keyed:
            cell.end_trial()

    def roll_back(self) -> None:
        """The tuple failed: all is as before."""
        self._instance.context.engine.take_late()
        self._instance.context.count_late(self._late)
        values = vars(self._instance.operator)
        for name in self._instance.undeclared.set_in_window():
            if name not in self._attributes:
                del values[name]
        values.update(self._attributes)
        read = [cell.end_trial() for cell in self._keyed]
        for cell, fields in self._cells:
            for name, value in fields.items():
                setattr(cell, name, value)
        for keyed, before in zip(self._keyed, read, strict=True):
            keyed.put_back(before)


def _fields(one: Any, memo: dict[int, Any]) -> dict[str, Any]:
    """The fields of a cell, or of a part of it: those that change are copied."""
    names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(one, name) for name in names if hasattr(one, name)} | getattr(one, "__dict__", {})
    if isinstance(one, ValueCell):
        return {name: _owned(value) for name, value in found.items()}
    return {name: _copied(value, memo) for name, value in found.items()}


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A copy of what changes in place; the same one for the same object."""
    if id(value) in memo:
        return memo[id(value)]
    kind = type(value)
    if kind in _CONTAINERS or kind is np.ndarray:
        made = value.copy()
    elif kind in _PARTS:
        made = copy.copy(value)
        memo[id(value)] = made
        for name, part in _fields(value, memo).items():
            setattr(made, name, part)
    else:
        return value
    memo[id(value)] = made
    return made


def _owned(value: Any) -> Any:
    """A deep copy; quick for plain containers of what cannot change."""
    if not is_mutable(value):
        return value
    kind = type(value)
    if kind is list:
        return [_owned(item) for item in value]
    if kind is dict:
        return {key: _owned(item) for key, item in value.items()}
    return copy.deepcopy(value)
