"""Application windows: their borders, and tuples that come together at their end.

Unifiers and sliders get their tuples when the window ends. What a unifier keeps from `begin_window` to
`end_window` then lies within one streaming window and needs no state of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.operator import Unifier
from ridgeline.api.times import Processing, Span, joined_spans
from ridgeline.engine.operator.delivery import inheriting_times, nothing_timed
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Inputs, Turn, TurnPart
from ridgeline.engine.state.slides import SLIDES, SlidesCell
from ridgeline.plan.protocol import WindowRequest

_SPANS_KEPT = 256  # windows: more than can be in flight


def ends_with(window_count: int, request: WindowRequest) -> bool:
    """True if the application window ends with this streaming window."""
    return request.final or (request.window_id + 1) % window_count == 0


def gathers(instance: Instance) -> bool:
    """True if an operator gets the tuples of an application window when that ends."""
    borders = instance.overrides("begin_window") or instance.overrides("end_window")
    return bool(instance.spec.slides) or (
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
    """Calls `end_window`."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._calls = instance.overrides("end_window")

    @classmethod
    def of(cls, instance: Instance) -> TurnPart | None:
        """One that knows times if the operator may emit at the end."""
        timed = instance.overrides("end_window") and instance.outputs
        return _TimedEndWindow(instance) if timed else cls(instance)

    def after_tuples(self, turn: Turn) -> None:
        """An application window may end. Raises OperatorError."""
        if turn.ends:
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
        if instance.spec.slides:
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
