"""Application windows that slide over states that merge: the operator's `end_window` sees all slides at once.

The states of each slide are kept beside the operator's own. When a slide ends, those of the slides before are
merged with its own, the oldest first. What `end_window` sets in them is gone with the slide.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, MutableMapping
from typing import Any

from ridgeline.api.cells.cell import StateCell, is_mutable
from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.api.cells.merging import merges_of
from ridgeline.api.errors import StateError
from ridgeline.api.operator import Operator
from ridgeline.api.state import ListCell, ValueCell
from ridgeline.engine.state.slides import SLIDES, SlidesCell
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import WindowRequest

Merge = Callable[[Any, Any], Any]


class Sliding:
    """Merges the states of the slides of one operator. Adds what it keeps of them to `cells`."""

    def __init__(
        self, spec: PhysicalOperator, operator: Operator, cells: MutableMapping[str, StateCell]
    ) -> None:
        self._states = {name: (cells[name], merge) for name, merge in merges_of(type(operator)).items()}
        self._slide, self._slides = spec.window_count, spec.slides
        cells[SLIDES] = self._kept = SlidesCell()

    def end(self, request: WindowRequest) -> bool:
        """A slide has ended: keep its states, and merge those of the slides before with them.

        False if the application window is not full yet, so that nothing is merged. Raises what merging does.
        """
        kept, window_id = self._kept, request.window_id
        slide_end = window_id - window_id % self._slide + self._slide
        shape = self._slide, self._slides
        if any(part[0] != shape for part in kept.parts):  # it slid otherwise before
            kept.drop(window_id)
            kept.since = None
        if kept.since is None:  # what came before it began to slide is not known
            kept.since = slide_end - self._slide if window_id < self._slide else slide_end
        if window_id >= kept.since:
            own = {name: _content(cell) for name, (cell, _) in self._states.items()}
            kept.keep(window_id, [(shape, own)])
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
        msg = f"`merge` of the state `{name}` has returned None; return the merged value"
        raise StateError(msg)
    return value


def _value_of(cell: StateCell) -> ValueCell:
    assert isinstance(cell, ValueCell)  # noqa: S101  there is no other kind
    return cell


def _own(value: Any) -> Any:
    """A value that may be changed in place without changing another."""
    return copy.deepcopy(value) if is_mutable(value) else value
