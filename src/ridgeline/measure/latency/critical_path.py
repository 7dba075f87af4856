"""The critical path: the longest chain of operators, if each waits for its upstream only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.measure.latency.window import Figures, Places, Windows, chains
from ridgeline.measure.topology import Rank, Topology

_PER_SECOND = 10**12
"""Paths are compared in whole picoseconds, so that the order of additions does not change a sum."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The longest path.

    `path`: ids of physical operators from an input to a leaf, unifiers too. `latency_seconds`: the sum of
    their own latencies.
    """

    latency_seconds: float
    path: tuple[int, ...]

    @classmethod
    def of(cls, topology: Topology, own: Figures, places: Places) -> CriticalPath:
        """That of one window, as `critical_paths` finds it."""
        path = places[places >= 0]
        return cls(math.fsum(own[path]), tuple(topology.operators[place].id for place in path))


def critical_paths(topology: Topology, own: Figures) -> Places:
    """Of each window the path with the greatest sum of `own` latencies: places by step, -1 after the end.

    `own`: seconds by window and operator. Of equal paths it is the one whose titles sort first. Time linear
    in operators and in different sets of neighbours. An empty topology has an empty path.
    """
    inputs = np.array(topology.inputs_by_title, np.intp)
    if not len(inputs):
        return np.full((len(own), 1), -1)
    rest = _longest(np.rint(own * _PER_SECOND), topology.ranks_below)
    following, _ = topology.below.latest(rest)
    return chains(inputs[np.argmax(rest[:, inputs], axis=1)], following)


def _longest(weights: npt.NDArray[Any], ranks: Sequence[Rank]) -> npt.NDArray[Any]:
    """The greatest sum of a chain from each one (the last axis) to an end, inclusive, rank after rank."""
    longest = weights.copy()
    for rank in ranks:
        longest[..., rank.rows] += rank.reduced(np.maximum, longest)
    return longest


def slot_paths(windows: Windows) -> Places:
    """The container that ended last, then of its producers the last, and so on to one without producers.

    Places of containers by window, -1 after the end. Only containers that reported. Containers that ended at
    the same time: the one with the lowest id.
    """
    ended = np.where(np.isnan(windows.sent), -np.inf, windows.sent)
    last = np.argmax(ended, axis=1) if ended.shape[1] else np.zeros(len(windows), np.intp)
    known = np.isfinite(ended.max(axis=1, initial=-np.inf))
    following, _ = windows.topology.containers_above.latest(windows.sent)
    return chains(np.where(known, last, -1), following)


def slack_of_figures(topology: Topology, figures: Figures) -> dict[int, float]:
    """How many seconds slower the operators of each container may become before a window takes longer.

    It is as if every container had a slot of its own. The operators of a container run one after the other,
    and its messages go once all have run. So all operators of a container have the same slack. It is the
    greatest sum of all chains of containers, less the greatest of those through this one. `figures`: as in
    `Latencies`, of one window.
    """
    _, compute, _, transfer, turn, _ = np.nan_to_num(figures)
    rows, size = topology.rows_of_containers, len(topology.containers)
    held = np.bincount(rows, turn, minlength=size)
    came = np.zeros(size)
    np.maximum.at(came, rows, compute + transfer - turn)
    weights = np.rint((held + came) * _PER_SECOND).astype(np.int64)
    above, below = topology.ranks_of_containers
    before, rest = _longest(weights, above), _longest(weights, below)
    free = (rest.max(initial=0) - before - rest + weights) / _PER_SECOND
    return dict(zip(topology.containers, free.tolist(), strict=True))
