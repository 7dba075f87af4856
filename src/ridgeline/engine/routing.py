"""Which of an operator's tuples go to which consumer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.api.codec import Hashes
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.tuples import Tuples
from ridgeline.engine.spec import Route
from ridgeline.plan.physical import Dealt


class Splitter:
    """Splits what one operator emitted on one port in one window; hashes every tuple once per codec.

    Dealing out begins with partition `start`, which differs from window to window, so that few tuples a window load all partitions.
    """

    def __init__(self, parts: Sequence[Tuples], start: int = 0) -> None:
        self._parts = parts
        self._start = start
        self._hashes: dict[int, list[Hashes]] = {}

    def select(self, route: Route) -> list[Tuples]:
        """The tuples that this route takes, in order; no empty runs."""
        if route.route is None:
            return list(self._parts)
        if isinstance(route.route, Dealt):
            return self._deal(route.route)
        return self._by_key(route, route.route)

    def _deal(self, dealt: Dealt) -> list[Tuples]:
        chosen, seen = [], 0
        for part in self._parts:
            indices = np.arange((dealt.index - self._start - seen) % dealt.of, len(part), dealt.of)
            seen += len(part)
            if len(indices):
                chosen.append(part.take(indices))
        return chosen

    def _by_key(self, route: Route, keys: PartitionKeys) -> list[Tuples]:
        hashes = self._hashes.get(id(route.codec))
        if hashes is None:
            hashes = self._hashes[id(route.codec)] = [route.codec.hashes(part).astype(np.uint64) for part in self._parts]
        mine = np.zeros(keys.mask + 1, dtype=np.bool_)
        mine[list(keys.keys)] = True
        chosen = []
        for part, part_hashes in zip(self._parts, hashes, strict=True):
            indices = np.flatnonzero(mine[(part_hashes & np.uint64(keys.mask)).astype(np.int64)])
            if len(indices) == len(part):
                chosen.append(part)
            elif len(indices):
                chosen.append(part.take(indices))
        return chosen
