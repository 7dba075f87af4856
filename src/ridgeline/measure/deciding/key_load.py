"""How the tuples of an operator are spread over its keys, as policies see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
