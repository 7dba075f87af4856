"""The fold behind `KeyLoad`: tuples by cell and heavy keys, by slices of a second, for 5 minutes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from datasketches import frequent_items_error_type, frequent_strings_sketch

from ridgeline.measure.deciding.key_load import HeavyKey

KEPT_SECONDS = 300.0
_SLICE_SECONDS = 1.0
_MAP_BITS = 7
"""A sketch holds 3/4 of 2^7 keys."""
_SHOWN = 20
_TWO_SIGMA = 2.0
_HASH_DIGITS = 16


@dataclass(slots=True)
class _Slice:
    """The tuples of one operator in the windows committed since `begin`. `keys`: sampled keys, by weight."""

    begin: float
    cells: npt.NDArray[np.int64]
    tuples: int = 0
    sampled: int = 0
    keys: Any = field(default_factory=lambda: frequent_strings_sketch(_MAP_BITS))


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of an operator over a period."""

    cells: npt.NDArray[np.int64]
    tuples: int
    heavy: tuple[HeavyKey, ...]


class KeyFold:
    """Takes counts in, in the order of windows; `counted` answers for a period. One thread at a time."""

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._kept_seconds = kept_seconds
        self._slices: dict[str, deque[_Slice]] = {}

    def add(
        self,
        operator: str,
        at: float,
        cells: npt.NDArray[np.int64],
        sampled: int,
        heavy: Iterable[tuple[int, str, int]],
    ) -> None:
        """Take in what a port has sent to an operator in a window, committed `at`.

        `heavy`: hash, text and number of keys in the sample. With another number of cells the counts restart.
        """
        slices = self._slices.setdefault(operator, deque())
        if slices and len(slices[-1].cells) != len(cells):
            slices.clear()
        if not slices or at - slices[-1].begin >= _SLICE_SECONDS:
            slices.append(_Slice(at, np.zeros(len(cells), np.int64)))
            while slices[0].begin < at - self._kept_seconds:
                slices.popleft()
        present, tuples = slices[-1], int(cells.sum())
        present.cells += cells
        present.tuples += tuples
        present.sampled += sampled
        for number, text, many in heavy:  # each sampled tuple stands for as many
            weight = max(1, round(many * tuples / sampled))
            present.keys.update(f"{number:0{_HASH_DIGITS}x}{text}", weight)

    def counted(self, operator: str, since: float) -> Counted | None:
        """The tuples of an operator since a time; None if nothing was counted."""
        slices = [one for one in self._slices.get(operator, ()) if one.begin >= since]
        tuples = sum(one.tuples for one in slices)
        if not tuples:
            return None
        keys, sampled = frequent_strings_sketch(_MAP_BITS), sum(one.sampled for one in slices)
        for one in slices:
            keys.merge(one.keys)
        found = keys.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        heavy = []
        for item, estimate, low, high in found[:_SHOWN]:
            share = min(estimate / tuples, 1.0)
            error = _TWO_SIGMA * math.sqrt(share * (1 - share) / max(sampled, 1)) + (high - low) / tuples
            key, number = item[_HASH_DIGITS:], int(item[:_HASH_DIGITS], 16)
            heavy.append(HeavyKey(key, number, share, error))
        heavy.sort(key=lambda one: -one.share)
        return Counted(np.sum([one.cells for one in slices], axis=0), tuples, tuple(heavy))

    def forget(self, operators: Iterable[str]) -> None:
        """Forget what was counted of operators."""
        for operator in operators:
            self._slices.pop(operator, None)
