"""The keys of a state by the times of their values: those that are over are found without the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.cells.keyed_state import KeyedCell
from ridgeline.operators._window_parts import few_distinct

Keys = Sequence[Any] | npt.NDArray[Any]
Times = npt.NDArray[np.int64]
_NO_TIME = np.iinfo(np.int64).min
"""The default of the state: the time of a key that is not there."""


class DueKeys:
    """Keys beside a state of times by key, in spans of `width`; whole numbers as arrays.

    The default of the state is the least integer of 64 bits. They are made of the state, and follow what is
    noted. A state that was restored meanwhile is read again.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._stamp: object = None
        self._spans: dict[int, list[Keys]] = {}

    def is_of(self, state: KeyedCell[Any, int]) -> bool:
        """True if it has the keys that the state has."""
        return state.stamp is self._stamp

    def note(self, keys: Keys, times: Times) -> None:
        """Take in keys whose times were set."""
        spans, places = few_distinct(times // self._width)
        if len(spans) == 1:
            self._spans.setdefault(int(spans[0]), []).append(keys)
            return
        order = np.argsort(places, kind="stable")
        begins = np.searchsorted(places[order], np.arange(len(spans) + 1)).tolist()
        for number, span in enumerate(spans.tolist()):
            self._spans.setdefault(span, []).append(_chosen(keys, order[begins[number] : begins[number + 1]]))

    def remove(self, state: KeyedCell[Any, int], until: int) -> None:
        """Remove the keys from the state whose times are not after `until`."""
        if not self.is_of(state):
            self._read(state)
        spans = [span for span in self._spans if span * self._width <= until]
        if not spans:
            return
        keys = _joined([part for span in spans for part in self._spans.pop(span)])
        times = state.get_many(keys)
        over = times <= until
        # one may have gone, and may be here twice
        state.drop_many(_chosen(keys, np.flatnonzero(over & (times != _NO_TIME))))
        # a key that was set again is noted in a later span
        left = np.flatnonzero(~over & (times // self._width <= max(spans)))
        if len(left):
            self.note(_chosen(keys, left), times[left])

    def _read(self, state: KeyedCell[Any, int]) -> None:
        """Take in all keys of a state."""
        self._stamp, self._spans = state.stamp, {}
        keys = list(state)
        if keys:
            numbers = np.array(keys) if set(map(type, keys)) == {int} else None
            whole = numbers is not None and numbers.dtype == np.int64
            self.note(numbers if whole and numbers is not None else keys, state.get_many(keys))


def _chosen(keys: Keys, places: npt.NDArray[np.int64]) -> Keys:
    if isinstance(keys, np.ndarray):
        return keys[places]
    return [keys[place] for place in places.tolist()]


def _listed(keys: Keys) -> Sequence[Any]:
    found: Sequence[Any] = keys.tolist() if isinstance(keys, np.ndarray) else keys
    return found


def _joined(parts: Sequence[Keys]) -> Keys:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return list(chain.from_iterable(map(_listed, parts)))
