"""Deals tuples whose keys several partitions share out among these: to whom has got the fewest so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.api.codec import Hashes
from ridgeline.api.partitioner import PartitionKeys

_Counts = npt.NDArray[np.int64]


class LeastLoaded:
    """The shared keys of the partitions of one operator, and what each has got in this window from here.

    Every partition of the operator must be there. The same runs of tuples are dealt out in the same way.
    """

    def __init__(self, members: Sequence[PartitionKeys]) -> None:
        self._mask = max(keys.mask for keys in members)
        values = np.arange(self._mask + 1)
        shares = np.array([np.isin(values & keys.mask, list(keys.shared)) for keys in members])
        self._sharers = {
            int(cell): np.flatnonzero(shares[:, cell]) for cell in np.flatnonzero(shares.any(axis=0))
        }
        self._shared: npt.NDArray[np.bool_] = np.logical_or.reduce(shares, axis=0)
        self._got: _Counts = np.zeros(len(members), np.int64)
        self._order = np.arange(len(members))

    def begin(self, start: int) -> None:
        """A window begins: nobody has got anything. Of those who have as little, `start` comes first."""
        self._got[:] = 0
        self._order = (np.arange(len(self._got)) - start) % len(self._got)

    def deal(self, hashes: Hashes, owners: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The number of the partition of each tuple. `owners`: those of tuples that nobody shares."""
        cells = (hashes & np.uint64(self._mask)).astype(np.intp)
        positions = np.flatnonzero(self._shared[cells])
        many = len(self._got)
        self._got += np.bincount(owners, minlength=many + 1)[:many]  # the last: tuples that nobody owns
        if not len(positions):
            return owners
        owners = owners.copy()
        found = cells[positions]
        for cell in np.unique(found).tolist():
            several = self._sharers[cell]
            mine = positions[found == cell]
            more = _level(self._got[several], len(mine), self._order[several])
            owners[mine] = np.repeat(several, more)
            self._got[several] += more
        return owners


def _level(got: _Counts, more: int, order: npt.NDArray[np.intp]) -> _Counts:
    """How many of `more` tuples each gets so that those with the fewest get them; `order` breaks ties.

    >>> _level(np.array([4, 0, 1]), 5, np.array([0, 1, 2])).tolist()
    [0, 3, 2]
    """
    levels = np.sort(got)
    surfaces = (np.cumsum(levels) + more) // np.arange(1, len(got) + 1)
    found = np.maximum(int(surfaces.min()) - got, 0)
    left = more - int(found.sum())
    lowest = np.lexsort((order, got + found))[:left]
    found[lowest] += 1
    return found
