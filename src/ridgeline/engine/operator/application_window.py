"""Application windows: their borders, and tuples and states that come together at their end.

Unifiers and sliders get their tuples when the window ends. What a unifier keeps from `begin_window` to
`end_window` then lies within one streaming window and needs no state of its own.

Where the windows of an operator with states that merge slide, `end_window` sees all slides at once. The
states of each slide are kept beside the operator's own. When a slide ends, those of the slides before are
merged with its own, the oldest first. What `end_window` sets in them is gone with the slide.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.cells.cell import StateCell, is_mutable
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.merging import merges_of
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.errors import StateError
from ridgeline.api.operator import Unifier
from ridgeline.api.state import ListCell, ValueCell
from ridgeline.api.times import Processing, Span, joined_spans
from ridgeline.engine.operator.delivery import inheriting_times, nothing_timed
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Inputs, Turn, TurnPart
from ridgeline.engine.state.slides import SLIDES, SlidesCell
from ridgeline.plan.protocol import WindowRequest

_SPANS_KEPT = 256  # windows: more than can be in flight
Merge = Callable[[Any, Any], Any]


def ends_with(window_count: int, request: WindowRequest) -> bool:
    """True if the application window ends with this streaming window."""
    return request.final or (request.window_id + 1) % window_count == 0


def gathers(instance: Instance) -> bool:
    """True if an operator gets the tuples of an application window when that ends."""
    borders = instance.overrides("begin_window") or instance.overrides("end_window")
    return bool(instance.spec.slides and instance.spec.unifier) or (
        instance.window_count > 1 and borders and isinstance(instance.operator, Unifier)
    )


class BeginWindow(TurnPart):
    """Calls `begin_window`."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._gathers = gathers(instance)

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator has none."""
        return cls(instance) if instance.overrides("begin_window") else None

    def before_tuples(self, turn: Turn) -> None:
        """An application window may begin."""
        begun = turn.application_window
        if turn.ends if self._gathers else turn.request.window_id == begun:
            self.instance.timed("begin_window", self.instance.operator.begin_window, begun)


class EndWindow(TurnPart):
    """Calls `end_window`, of an operator that slides with the states of all slides."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        slides = instance.spec.slides and not instance.spec.unifier
        self._sliding = _Sliding(instance) if slides else None
        self._calls = instance.overrides("end_window")

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """One that knows times if the operator may emit at the end."""
        timed = instance.overrides("end_window") and instance.outputs
        return _TimedEndWindow(instance) if timed else cls(instance)

    def after_tuples(self, turn: Turn) -> None:
        """An application window may end. Raises OperatorError."""
        if turn.ends and (
            self._sliding is None or self.instance.call("merge", self._sliding.end, turn.request)
        ):
            self._end_window(turn)

    def _end_window(self, _turn: Turn) -> None:
        self.instance.running.ending()
        if self._calls:
            self.instance.timed("end_window", self.instance.operator.end_window)


class _TimedEndWindow(EndWindow):
    """Gives tuples emitted at the end the newest and the oldest time of the application window's tuples."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._span: Span | None = None
        self._spans: dict[int, Span | None] = {}
        """The application window's times so far, after each of the last windows: they may run again."""

    def begin(self, turn: Turn) -> None:
        """Begin with the times of the streaming window before."""
        window_id = turn.request.window_id
        self._span = self._spans.get(window_id - 1) if window_id != turn.application_window else None
        self._spans[window_id] = self._span  # stays if the window is lost
        if len(self._spans) > _SPANS_KEPT:
            del self._spans[next(iter(self._spans))]

    def processed(self, turn: Turn, tuples: Tuples) -> None:
        """Take the times of a sequence of tuples in."""
        if turn.inheriting and (times := tuples.times) is not None:
            self._span = joined_spans(self._span, times.span())

    def _end_window(self, turn: Turn) -> None:
        span = self._span
        with inheriting_times(
            turn.inheriting, Processing(partial(span.of_each, 1) if span is not None else nothing_timed)
        ):
            super()._end_window(turn)

    def report(self, turn: Turn, emitted: Emitted) -> None:
        """The times of the window count for the next one."""
        self._spans[turn.request.window_id] = self._span


class Gathering(TurnPart):
    """Keeps the tuples of a unifier that works at the borders of application windows, until they end."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._unifier: Any = instance.operator
        self._lossy = instance.spec.attributes["processing_mode"] is ProcessingMode.AT_MOST_ONCE
        ((self._port, self._schema),) = instance.spec.inputs.items()

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """None if the operator gets tuples as they come."""
        if instance.spec.slides and instance.spec.unifier:
            return _GatheringSlides(instance)
        return cls(instance) if gathers(instance) else None

    def arrange(self, turn: Turn, inputs: Inputs) -> Inputs:
        """All tuples of the application window if it ends, else nothing."""
        waiting = self._unifier._waiting  # noqa: SLF001  declared for this module
        application_window = turn.application_window - self.instance.context.passed_over
        if self._lossy and waiting and waiting[0][0] != application_window:
            del waiting[:]  # the end of that application window failed, so it is lost
        if not turn.ends:
            for part in inputs[self._port]:
                waiting.append((application_window, *_kept(part.read_as(self._schema))))
            return {self._port: ()}
        before = [Tuples.of_batch(self._schema, batch, times) for _, batch, times in waiting]
        if before:
            del waiting[:]
        return {self._port: [*before, *inputs[self._port]]}


class _GatheringSlides(TurnPart):
    """For a slider: at the end of each slide it gets the tuples of all slides of the application window.

    The first time when the application window is full. At the end of the run it gets what there is. A unifier
    behind sliders is called when they are, with what they emit then.
    """

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        spec = instance.spec
        self._cell = instance.cells[SLIDES] = SlidesCell()
        self._keeps = spec.slider
        self._slide = spec.window_count
        self._count = spec.window_count * spec.slides
        ((self._port, self._schema),) = spec.inputs.items()

    def arrange(self, turn: Turn, inputs: Inputs) -> Inputs:
        """All tuples of the sliding application window if it is full and a slide ends, else nothing.

        For a unifier behind sliders those that came.
        """
        cell, window = self._cell, turn.request.window_id - self.instance.context.passed_over
        slide_end = window - turn.request.window_id % self._slide + self._slide
        if cell.since is None:  # what came before it began to slide is not known
            cell.since = slide_end if window else 0
        there = slide_end - cell.since
        turn.ends = turn.ends and (there >= self._count or (turn.request.final and there > 0))
        if not self._keeps:
            return inputs
        if window >= cell.since and (
            parts := [_kept(part.read_as(self._schema)) for part in inputs[self._port] if len(part)]
        ):
            cell.keep(window, parts)
        cell.drop(slide_end - self._count)
        if not turn.ends:
            return {self._port: ()}
        return {self._port: [Tuples.of_batch(self._schema, *part) for part in cell.parts]}


def _kept(tuples: Tuples) -> tuple[Any, Any]:
    return tuples.batch, tuples.time_column or tuples.times


class _Sliding:
    """Merges the states of the slides of one operator. Adds what it keeps of them to its cells."""

    def __init__(self, instance: Instance) -> None:
        self._states = {
            name: (instance.cells[name], merge) for name, merge in merges_of(type(instance.operator)).items()
        }
        self._slide, self._slides = instance.window_count, instance.spec.slides
        self._context = instance.context
        instance.cells[SLIDES] = self._kept = SlidesCell()

    def end(self, request: WindowRequest) -> bool:
        """A slide has ended: keep its states, and merge those of the slides before with them.

        False if the application window is not full yet, so that nothing is merged. Raises what merging does.
        """
        kept, window = self._kept, request.window_id - self._context.passed_over
        slide_end = window - request.window_id % self._slide + self._slide
        shape = self._slide, self._slides
        if any(part[0] != shape for part in kept.parts):  # it slid otherwise before
            kept.drop(window)
            kept.since = None
        if kept.since is None:  # what came before it began to slide is not known
            kept.since = slide_end - self._slide if window < self._slide else slide_end
        if window >= kept.since:
            own = {name: _content(cell) for name, (cell, _) in self._states.items()}
            kept.keep(window, [(shape, own)])
        kept.drop(slide_end - self._slide * self._slides)
        there = slide_end - kept.since
        if there < self._slide * self._slides and not (request.final and there > 0):
            return False
        for name, (cell, merge) in self._states.items():
            _put(name, cell, [part[1][name] for part in kept.parts], merge)
        return True


def _content(cell: StateCell) -> Any:
    """A copy of what a state holds."""
    if isinstance(cell, KeyedCell):
        return {key: _own(value) for key, value in cell.items()}
    return [_own(item) for item in cell] if isinstance(cell, ListCell) else _own(_value_of(cell).get())


def _put(name: str, cell: StateCell, contents: list[Any], merge: Merge | None) -> None:
    """Let a state hold what several slides held, the oldest first. The contents stay as they are."""
    if isinstance(cell, ListCell):
        cell[:] = [_own(item) for items in contents for item in items]
    elif isinstance(cell, KeyedCell):
        merged: dict[Any, Any] = {}
        for content in contents:
            for key, value in content.items():
                merged[key] = _own(value) if key not in merged else _merged(name, merge, merged[key], value)
        cell.clear()
        cell.update(merged)
    else:
        value = _own(contents[0])
        for other in contents[1:]:
            value = _merged(name, merge, value, other)
        _value_of(cell).set(value)


def _merged(name: str, merge: Merge | None, older: Any, newer: Any) -> Any:
    assert merge is not None  # noqa: S101  only lists have none
    value = merge(older, _own(newer))
    if value is None and older is not None:
        raise StateError(f"`merge` of the state `{name}` has returned None; return the merged value")
    return value


def _value_of(cell: StateCell) -> ValueCell:
    assert isinstance(cell, ValueCell)  # noqa: S101  there is no other kind
    return cell


def _own(value: Any) -> Any:
    """A value that may be changed in place without changing another."""
    return copy.deepcopy(value) if is_mutable(value) else value
