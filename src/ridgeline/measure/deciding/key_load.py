"""How the tuples of an operator are spread over its keys, as policies see it."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ridgeline.api.partitioner import Partitioner

KEY_BITS = 10
"""Tuples are counted by this many bits of their hashes."""
_ROUNDS = 20
"""How often shared cells are distributed again, since each makes way for the others."""


@dataclass(frozen=True, slots=True)
class HeavyKey:
    """A key that many tuples have, as text.

    `share`: of the tuples of its operator, give or take `error` (of 19 of 20 samples). `hash`: by the codec.
    """

    key: str
    hash: int
    share: float
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class KeyLoad:
    """The tuples that came for an operator by cell: by the value of `hash & (2 ** bits - 1)`.

    `loads`: the share of the tuples in each cell; all together 1. `tuples`: how many were counted, in some of
    the windows of the last `seconds` seconds. `owners`: the partition that each cell belongs to now, of a
    shared one the first; `shared`: the partitions of each cell that several share. `partitioner`: the
    operator's, None if it does not say. `fixed`: why the operator cannot be divided otherwise, "" if one may.
    `alone`: why no cell may be shared, "" if some may. `heavy`: keys with the most tuples, the heaviest
    first; found in samples.
    """

    bits: int
    loads: npt.NDArray[np.float64]
    heavy: tuple[HeavyKey, ...]
    tuples: int
    seconds: float
    partitions: int
    owners: npt.NDArray[np.intp]
    shared: Mapping[int, tuple[int, ...]]
    partitioner: Partitioner | None = None
    fixed: str = ""
    alone: str = ""

    @property
    def by_partition(self) -> npt.NDArray[np.float64]:
        """The share of each partition, were tuples spread now as they were over the period."""
        mine = np.ones(len(self.loads), bool)
        mine[list(self.shared)] = False
        found = np.zeros(self.partitions)
        np.add.at(found, self.owners[mine], self.loads[mine])
        poured: dict[int, npt.NDArray[np.float64]] = {}
        for _ in range(_ROUNDS if len(self.shared) > 1 else 1):
            for cell, several in self.shared.items():
                among = list(several)
                found[among] -= poured.get(cell, 0.0)
                risen = levelled(found[among], float(self.loads[cell]))
                poured[cell] = risen - found[among]
                found[among] = risen
        return found

    @property
    def imbalance(self) -> float:
        """The share of the fullest partition, as a multiple of an even one."""
        return float(self.by_partition.max(initial=0.0)) * self.partitions


def levelled(levels: npt.NDArray[np.float64], more: float) -> npt.NDArray[np.float64]:
    """Levels after `more` is poured into the lowest ones.

    >>> levelled(np.array([1.0, 4.0, 2.0]), 2.0).tolist()
    [2.5, 4.0, 2.5]
    """
    ordered = np.sort(levels)
    surfaces = (np.cumsum(ordered) + more) / np.arange(1, len(ordered) + 1)
    surface = surfaces.min()
    return np.maximum(levels, surface)


KEPT_SECONDS = 300.0
_SLICE_SECONDS = 1.0
_MOST_KEYS = 200
"""A slice has no more keys than this; of those beyond it the rarer half is left out."""
_SHOWN = 20
_TWO_SIGMA = 2.0


@dataclass(slots=True)
class _Slice:
    """The tuples of one operator in the windows committed since `begin`.

    `keys`: the weights of sampled keys, by hash and text. A key that was left out had at most `missed`.
    """

    begin: float
    cells: npt.NDArray[np.int64]
    tuples: int = 0
    sampled: int = 0
    keys: Counter[tuple[int, str]] = field(default_factory=Counter)
    missed: int = 0


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
            present.keys[number, text] += max(1, round(many * tuples / sampled))
        if len(present.keys) > _MOST_KEYS:
            known = present.keys.most_common()
            present.keys = Counter(dict(known[: _MOST_KEYS // 2]))
            present.missed += known[_MOST_KEYS // 2][1]

    def counted(self, operator: str, since: float) -> Counted | None:
        """The tuples of an operator since a time; None if nothing was counted."""
        slices = [one for one in self._slices.get(operator, ()) if one.begin >= since]
        tuples = sum(one.tuples for one in slices)
        if not tuples:
            return None
        keys: Counter[tuple[int, str]] = Counter()
        for one in slices:
            keys.update(one.keys)
        sampled, missed = sum(one.sampled for one in slices), sum(one.missed for one in slices)
        heavy = []
        for (number, key), weight in keys.most_common(_SHOWN):
            share = min(weight / tuples, 1.0)
            error = _TWO_SIGMA * math.sqrt(share * (1 - share) / max(sampled, 1)) + missed / tuples
            heavy.append(HeavyKey(key, number, share, error))
        return Counted(np.sum([one.cells for one in slices], axis=0), tuples, tuple(heavy))

    def forget(self, operators: Iterable[str]) -> None:
        """Forget what was counted of operators."""
        for operator in operators:
            self._slices.pop(operator, None)
