"""Latencies since the start of a run, as counters that another system folds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.measure.metric import LATENCY_BOUNDS_SECONDS
from ridgeline.measure.topology import OperatorNode, Topology

_BOUNDS = np.array(LATENCY_BOUNDS_SECONDS)
KEPT = 1_000
"""Operators whose sums are kept though the plan has them not."""


@dataclass(frozen=True, slots=True)
class LatencyTotal:
    """One operator's windows since the start; seconds.

    `counts`: windows whose latency was up to each of `LATENCY_BOUNDS_SECONDS`, cumulative, and last all of
    them.
    """

    counts: tuple[int, ...]
    latency: float
    compute: float
    wait: float
    transfer: float
    cpu: float


@dataclass(frozen=True, slots=True)
class WindowTotal:
    """The windows since the start as wholes; `counts` as in `LatencyTotal`.

    `blame`: seconds by (what, operator's title).
    """

    counts: tuple[int, ...]
    latency: float
    blame: Mapping[tuple[str, str], float]


class LatencyTotals:
    """Sums over all windows, by operators' labels and partitions: they survive a change of the plan.

    Those of operators that a new plan has not are kept for a plan that has them again. Once the new plan has
    a window they are `KEPT` at most. One thread at a time.
    """

    def __init__(self) -> None:
        self._windows = np.zeros(len(_BOUNDS) + 1, np.int64)
        self._latency = 0.0
        self._blame: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._topology = Topology((), ())
        self._sums = np.zeros((5, 0))
        self._counts = np.zeros((0, len(_BOUNDS) + 1), np.int64)
        self._former: dict[tuple[str, int], tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] = {}

    def add(self, topology: Topology, figures: npt.NDArray[np.float64]) -> None:
        """Add a window.

        Rows: latency, compute, wait, transfer, cpu in seconds. Columns: the topology's operators. NaN: it did
        not report.
        """
        self.planned(topology)
        self._trim()
        known = ~np.isnan(figures)
        np.add(self._sums, figures, out=self._sums, where=known)
        reported = np.flatnonzero(known[0])
        buckets = np.searchsorted(_BOUNDS, figures[0, reported])
        self._counts[reported, buckets] += 1

    def add_window(self, latency: float, blame: Iterable[tuple[tuple[str, str], float]]) -> None:
        """Add a window as a whole: its latency in seconds, and its blame chain.

        A step is ((what, operator's title), seconds).
        """
        self._windows[np.searchsorted(_BOUNDS, latency)] += 1
        self._latency += latency
        for step, seconds in blame:
            self._blame[step] += seconds

    def window(self) -> WindowTotal:
        """The totals of windows as wholes."""
        return WindowTotal(tuple(np.cumsum(self._windows).tolist()), self._latency, dict(self._blame))

    def rows(self) -> list[tuple[OperatorNode, LatencyTotal]]:
        """The totals of all operators, in the topology's order."""
        counts = np.cumsum(self._counts, axis=1).tolist()
        totals = (
            LatencyTotal(tuple(count), *sums)
            for count, sums in zip(counts, self._sums.T.tolist(), strict=True)
        )
        return list(zip(self._topology.operators, totals, strict=True))

    def planned(self, topology: Topology) -> None:
        """Replace the plan."""
        if topology is self._topology:
            return
        for column, node in enumerate(self._topology.operators):
            self._former.pop(node.series, None)
            self._former[node.series] = self._sums[:, column], self._counts[column]
        self._topology = topology
        self._sums = np.zeros((5, len(topology.operators)))
        self._counts = np.zeros((len(topology.operators), len(_BOUNDS) + 1), np.int64)
        for column, node in enumerate(topology.operators):
            if node.series in self._former:
                self._sums[:, column], self._counts[column] = self._former.pop(node.series)

    def _trim(self) -> None:
        """The plan has a window, so it is no longer only tried: bound what is kept of others."""
        while len(self._former) > KEPT:
            del self._former[next(iter(self._former))]
