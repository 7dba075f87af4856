"""Percentiles of all windows since the start, of many operators at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ridgeline.measure.age.histogram import BITS, bucket_numbers, lowest_bucket, midpoints, nearest_rank

_BUCKETS = 32 << BITS  # 8 KiB an operator; 32 octaves end at five days
_BELOW = lowest_bucket(BITS) - 1
_MIDPOINTS = np.append(0.0, midpoints(np.arange(1, _BUCKETS) + _BELOW, BITS))

Floats = npt.NDArray[np.float64]


class Spreads:
    """A histogram of latencies for each key; a quantile is off by at most 0.79 %. One thread at a time."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._counts = np.zeros((0, _BUCKETS), np.uint32)
        self._former: dict[Hashable, npt.NDArray[np.uint32]] = {}

    def planned(self, keys: Iterable[Hashable]) -> None:
        """These keys from now on, in the order of what is added. What others had is kept until `trim`."""
        known = {**self._former, **dict(zip(self._places, self._counts, strict=True))}
        self._places = {key: place for place, key in enumerate(keys)}
        counts = np.zeros((len(self._places), _BUCKETS), np.uint32)
        for key, place in self._places.items():
            counts[place] = known.pop(key, 0)
        self._counts, self._former = counts, known

    def trim(self, most: int) -> None:
        """Keep at most so many of those that are gone, the last ones."""
        for key in list(self._former)[: max(0, len(self._former) - most)]:
            del self._former[key]

    def add(self, latencies: Floats) -> None:
        """Add a window: seconds by key, NaN where one did not report."""
        known = np.flatnonzero(~np.isnan(latencies))
        buckets = bucket_numbers(np.maximum(latencies[known], 0.0), BITS) - _BELOW
        self._counts[known, np.clip(buckets, 0, _BUCKETS - 1)] += 1

    def quantiles(self, key: Hashable, quantiles: Sequence[float]) -> tuple[float | None, ...]:
        """The nearest-rank quantiles in seconds; None of a key without windows."""
        place = self._places.get(key)
        reached = (
            np.cumsum(self._counts[place], dtype=np.int64) if place is not None else np.zeros(1, np.int64)
        )
        count = int(reached[-1])
        if not count:
            return (None,) * len(quantiles)
        ranks = [nearest_rank(quantile, count) for quantile in quantiles]
        return tuple(_MIDPOINTS[np.searchsorted(reached, ranks)].tolist())
