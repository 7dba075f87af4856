"""Latencies since the start of a run: percentiles, and counters that another system folds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.measure.age.histogram import BITS, Distribution, bucket_numbers, lowest_bucket, midpoints
from ridgeline.measure.metric import LATENCY_BOUNDS_SECONDS
from ridgeline.measure.topology import KEPT, surplus

Floats = npt.NDArray[np.float64]

_BOUNDS = np.array(LATENCY_BOUNDS_SECONDS)
_BUCKETS = 32 << BITS  # 8 KiB an operator; 32 octaves end at five days
_BELOW = lowest_bucket(BITS) - 1
_MIDPOINTS = np.append(0.0, midpoints(np.arange(1, _BUCKETS) + _BELOW, BITS))


@dataclass(frozen=True, slots=True)
class LatencyTotal:
    """One operator's windows since the start: latencies by `LATENCY_BOUNDS_SECONDS`, and sums of seconds."""

    latency: Distribution
    compute: float
    wait: float
    transfer: float
    cpu: float


@dataclass(frozen=True, slots=True)
class WindowTotal:
    """The windows since the start as wholes. `blame`: seconds by (what, operator's title)."""

    latency: Distribution
    blame: Mapping[tuple[str, str], float]


class _SinceStart:
    """A row for each key, with all its windows: rows survive a change of the plan. One thread at a time.

    Rows of keys that a new plan has not are kept for a plan that has them again. Once the new plan has a
    window they are `kept` at most.
    """

    def __init__(self, row: list[Any], kept: int = KEPT) -> None:
        self._asked: dict[tuple[float, ...], Sequence[tuple[float | None, ...]]] = {}
        """What was asked for since the last window: many windows show the same."""
        self._places: dict[Hashable, int] = {}
        self._rows = np.zeros(0, row)
        self._kept = kept
        self._former: dict[Hashable, np.void] = {}

    def planned(self, keys: Iterable[Hashable]) -> None:
        """These keys from now on, in the order of what is added."""
        known = {**self._former, **dict(zip(self._places, self._rows, strict=True))}
        self._places = {key: place for place, key in enumerate(keys)}
        self._asked.clear()
        self._rows = np.zeros(len(self._places), self._rows.dtype)
        for key, place in self._places.items():
            if key in known:
                self._rows[place] = known.pop(key)
        self._former = {key: row.copy() for key, row in known.items()}  # else all rows would stay

    def _trim(self) -> None:
        """The plan has a window, so it is no longer only tried: bound what is kept of others."""
        for gone in surplus(self._former, most=self._kept):
            del self._former[gone]
        self._asked.clear()


class Spreads(_SinceStart):
    """A histogram of latencies for each key; a quantile is off by at most 0.79 %."""

    def __init__(self, kept: int = KEPT) -> None:
        super().__init__([("buckets", np.uint32, _BUCKETS)], kept)

    def add(self, latencies: Floats) -> None:
        """Add windows: seconds by window and key, NaN where one did not report."""
        self._trim()
        known = ~np.isnan(latencies)
        buckets = bucket_numbers(np.maximum(latencies[known], 0.0), BITS) - _BELOW
        np.add.at(self._rows["buckets"], (np.nonzero(known)[1], np.clip(buckets, 0, _BUCKETS - 1)), 1)

    def quantiles(self, key: Hashable, quantiles: tuple[float, ...]) -> tuple[float | None, ...]:
        """The nearest-rank quantiles in seconds; None of a key without windows."""
        if quantiles not in self._asked:
            self._asked[quantiles] = self._found(quantiles)
        place = self._places.get(key)
        return (None,) * len(quantiles) if place is None else self._asked[quantiles][place]

    def _found(self, quantiles: tuple[float, ...]) -> Sequence[tuple[float | None, ...]]:
        """The quantiles of all keys in order."""
        used = np.flatnonzero(self._rows["buckets"].any(axis=0))
        if not len(used):
            return [(None,) * len(quantiles)] * len(self._places)
        reached = np.cumsum(self._rows["buckets"][:, used], axis=1, dtype=np.int64)[:, None]
        counts = reached[..., -1]
        ranks = np.clip(np.ceil(np.round(counts * quantiles, 6)), 1, np.maximum(counts, 1))
        found = _MIDPOINTS[used][np.argmax(reached >= ranks[..., None], axis=2)]
        return [
            tuple(row) if count else (None,) * len(row)
            for row, count in zip(found.tolist(), reached[:, 0, -1], strict=True)
        ]


class LatencyTotals(_SinceStart):
    """Sums over all windows for each key."""

    def __init__(self) -> None:
        super().__init__([("counts", np.int64, len(_BOUNDS) + 1), ("sums", np.float64, 5)])

    def add(self, times: Floats) -> None:
        """Add windows: by window, rows of seconds as in `LatencyTotal`, by key; NaN: it did not report."""
        self._trim()
        self._rows["sums"] += np.nansum(times, axis=0).T
        reported = ~np.isnan(times[:, 0])
        bounds = np.searchsorted(_BOUNDS, times[:, 0][reported])
        np.add.at(self._rows["counts"], (np.nonzero(reported)[1], bounds), 1)

    def totals(self) -> list[LatencyTotal]:
        """The sums of all keys, in their order."""
        counts, sums = np.cumsum(self._rows["counts"], axis=1).tolist(), self._rows["sums"].tolist()
        return [
            LatencyTotal(Distribution(tuple(own), latency), *parts)
            for own, (latency, *parts) in zip(counts, sums, strict=True)
        ]


class WindowTotals:
    """Sums over all windows as wholes."""

    def __init__(self) -> None:
        self._windows = np.zeros(len(_BOUNDS) + 1, np.int64)
        self._latency = 0.0
        self._blame: defaultdict[tuple[str, str], float] = defaultdict(float)

    def add(self, latencies: Sequence[float], blame: Mapping[tuple[str, str], float]) -> None:
        """Add windows: their latencies in seconds, and the steps of their blame chains in sum.

        These are seconds by what and operator's title.
        """
        np.add.at(self._windows, np.searchsorted(_BOUNDS, latencies), 1)
        self._latency += math.fsum(latencies)
        for key, seconds in blame.items():
            self._blame[key] += seconds

    def total(self) -> WindowTotal:
        """The sums."""
        latency = Distribution(tuple(np.cumsum(self._windows).tolist()), self._latency)
        return WindowTotal(latency, dict(self._blame))
