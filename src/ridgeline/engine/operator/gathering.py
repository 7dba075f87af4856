"""Application windows of unifiers and sliders: tuples are kept until the window ends, then delivered at once.

What a unifier keeps from `begin_window` to `end_window` then lies within one streaming window and needs no
state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

from ridgeline.api.attributes import ProcessingMode
from ridgeline.api.cells.cell import StateCell
from ridgeline.api.columns.tuples import Tuples
from ridgeline.api.operator import Operator, Unifier
from ridgeline.engine.state.slides import SLIDES, SlidesCell
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import WindowRequest

Inputs = Mapping[str, Sequence[Tuples]]


class Gathered(NamedTuple):
    """What a unifier gets in a streaming window, and whether `begin_window` and `end_window` are called."""

    inputs: Inputs
    ends: bool


class Gathering(Protocol):
    """Keeps the tuples of a unifier; its state must be at the window before."""

    def gather(self, inputs: Inputs, request: WindowRequest, *, ends: bool) -> Gathered:
        """Take what came in a streaming window; `ends`: the application window or slide ends with it."""


def gathering_of(
    operator: Operator, spec: PhysicalOperator, cells: MutableMapping[str, StateCell]
) -> Gathering | None:
    """What keeps the tuples of an operator; None if it gets them as they come.

    Adds the state of a slider to its `cells`.
    """
    if spec.slides and spec.unifier:
        cells[SLIDES] = cell = SlidesCell()
        return _Slides(spec, cell)
    kind = type(operator)
    borders = kind.begin_window is not Operator.begin_window or kind.end_window is not Operator.end_window
    if spec.window_count > 1 and borders and isinstance(operator, Unifier):
        return _AtTheEnd(operator, spec)
    return None


def _kept(tuples: Tuples) -> tuple[Any, Any]:
    return tuples.batch, tuples.time_column or tuples.times


class _AtTheEnd:
    """For a unifier that works at the borders of application windows of several streaming windows."""

    def __init__(self, unifier: Any, spec: PhysicalOperator) -> None:
        self._unifier = unifier
        self._lossy = spec.attributes["processing_mode"] is ProcessingMode.AT_MOST_ONCE
        self._count = spec.window_count
        ((self._port, self._schema),) = spec.inputs.items()

    def gather(self, inputs: Inputs, request: WindowRequest, *, ends: bool) -> Gathered:
        """All tuples of the application window if it ends, else nothing."""
        waiting = self._unifier._waiting  # noqa: SLF001  declared for this module
        application_window = request.window_id - request.window_id % self._count
        if self._lossy and waiting and waiting[0][0] != application_window:
            del waiting[:]  # the end of that application window failed, so it is lost
        if not ends:
            for part in inputs[self._port]:
                waiting.append((application_window, *_kept(part.read_as(self._schema))))
            return Gathered({self._port: ()}, ends)
        before = [Tuples.of_batch(self._schema, batch, times) for _, batch, times in waiting]
        if before:
            del waiting[:]
        return Gathered({self._port: [*before, *inputs[self._port]]}, ends)


class _Slides:
    """For a slider: at the end of each slide it gets the tuples of all slides of the application window.

    The first time when the application window is full. At the end of the run it gets what there is. A unifier
    behind sliders is called when they are, with what they emit then.
    """

    def __init__(self, spec: PhysicalOperator, cell: SlidesCell) -> None:
        self._cell = cell
        self._keeps = spec.slider
        self._slide = spec.window_count
        self._count = spec.window_count * spec.slides
        ((self._port, self._schema),) = spec.inputs.items()

    def gather(self, inputs: Inputs, request: WindowRequest, *, ends: bool) -> Gathered:
        """All tuples of the sliding application window if it is full and a slide ends, else nothing.

        For a unifier behind sliders those that came.
        """
        cell, window_id = self._cell, request.window_id
        slide_end = window_id - window_id % self._slide + self._slide
        if cell.since is None:  # what came before it began to slide is not known
            cell.since = slide_end if window_id else 0
        there = slide_end - cell.since
        ends = ends and (there >= self._count or (request.final and there > 0))
        if not self._keeps:
            return Gathered(inputs, ends)
        if window_id >= cell.since and (
            parts := [_kept(part.read_as(self._schema)) for part in inputs[self._port] if len(part)]
        ):
            cell.keep(window_id, parts)
        cell.drop(slide_end - self._count)
        if not ends:
            return Gathered({self._port: ()}, ends=False)
        return Gathered({self._port: [Tuples.of_batch(self._schema, *part) for part in cell.parts]}, ends)
