"""Latencies on their way into histograms: of some operators with each window, of many windows at once.

A histogram takes an array of values for little more than one value. So those of an operator wait until there
are `TURN` windows. The operators take turns, so that no window pays for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ridgeline.measure.age.histogram import Histogram
from ridgeline.measure.latency.operator_latency import logical_columns
from ridgeline.measure.topology import Topology

TURN = 256
Latencies = npt.NDArray[np.float64]


class PendingLatencies:
    """The latencies of one plan's windows that its histograms do not have yet. One thread at a time.

    `histograms`: in the order of the topology's operators. `logical`: by name of the logical operator.
    """

    def __init__(
        self, topology: Topology, histograms: Sequence[Histogram], logical: dict[str, Histogram]
    ) -> None:
        self._topology = topology
        self._histograms = histograms
        self._logical = logical
        self._rows: deque[Latencies] = deque()
        self._first = 0
        """The number of the first row."""
        self._counted = [0] * min(TURN, len(histograms))
        """Of the operators at places n, n + `TURN`, ...: the first row that their histograms do not have."""

    def add(self, latencies: Latencies) -> None:
        """Take a window in: seconds by operator, NaN where one did not report. The array must not change."""
        self._rows.append(latencies)
        turn = (self._first + len(self._rows)) % TURN
        if turn < len(self._counted):
            self._count(turn)
        while len(self._rows) > TURN:
            self._rows.popleft()
            self._first += 1

    def count(self) -> None:
        """Put all that waits into the histograms."""
        for turn in range(len(self._counted)):
            self._count(turn)
        self._first += len(self._rows)
        self._rows.clear()

    def _count(self, turn: int) -> None:
        """Put what waits of the operators in turn into their histograms."""
        rows = [self._rows[number] for number in range(self._counted[turn] - self._first, len(self._rows))]
        self._counted[turn] = self._first + len(self._rows)
        if not rows:
            return
        for histogram, latencies in zip(
            self._histograms[turn::TURN], np.array([row[turn::TURN] for row in rows]).T, strict=True
        ):
            histogram.add(latencies[~np.isnan(latencies)])
        if turn == 0:
            for name, latencies in logical_columns(self._topology, np.array(rows).T).items():
                self._logical[name].add(latencies[~np.isnan(latencies)])
