"""Slack: how much slower an operator may become before windows take longer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ridgeline.measure.topology import Rank, Topology

_PER_SECOND = 10**12
"""Sums are compared in whole picoseconds, as in `critical_path`."""


def slack(
    topology: Topology, own: Mapping[int, float], turns: Mapping[int, float] | None = None
) -> dict[int, float]:
    """How many seconds slower each operator may become before a window takes longer.

    It is as if every container had a slot of its own. The operators of a container run one after the other,
    and its messages go once all have run. So all operators of a container have the same slack. It is the
    greatest sum of all chains of containers, less the greatest of those through this one.

    `own`: latencies without wait. `turns`: how long each held its container, without what its tuples took to
    come there; by default all of `own`. Operators that are not in them count 0.
    """
    turns = own if turns is None else turns
    weights: dict[int, int] = {}
    for container, operators in topology.containers.items():
        held = math.fsum(turns.get(operator, 0.0) for operator in operators)
        came = max(own.get(operator, 0.0) - turns.get(operator, 0.0) for operator in operators)
        weights[container] = round((held + max(came, 0.0)) * _PER_SECOND)
    free = _of_containers(topology, weights)
    return {node.id: free[node.container] for node in topology.operators}


def slack_of_figures(topology: Topology, figures: npt.NDArray[np.float64]) -> dict[int, float]:
    """The slack of containers in a window, by id; `figures` as in `LatencyColumns`."""
    _, compute, _, transfer, turn, _ = np.nan_to_num(figures)
    rows, size = topology.rows_of_containers, len(topology.containers)
    held = np.bincount(rows, turn, minlength=size)
    came = np.zeros(size)
    np.maximum.at(came, rows, compute + transfer - turn)
    weights = np.rint((held + came) * _PER_SECOND).astype(np.int64)
    above, below = topology.ranks_of_containers
    before, rest = _sums_of_chains(weights, above), _sums_of_chains(weights, below)
    free = (rest.max(initial=0) - before - rest + weights) / _PER_SECOND
    return dict(zip(topology.containers, free.tolist(), strict=True))


def _sums_of_chains(weights: npt.NDArray[np.int64], ranks: Sequence[Rank]) -> npt.NDArray[np.int64]:
    """`_longest` of all containers, rank after rank."""
    longest = weights.copy()
    for rank in ranks:
        longest[rank.rows] += np.maximum.reduceat(longest[rank.flat], rank.starts)[rank.set_of]
    return longest


def _of_containers(topology: Topology, weights: Mapping[int, int]) -> dict[int, float]:
    """The slack of each container. `weights`: how long each would take, in picoseconds."""
    order = topology.containers_in_order
    before = _longest(weights, topology.producers, order)
    rest = _longest(weights, topology.consumers, order[::-1])
    longest = max(rest.values(), default=0)
    return {one: (longest - before[one] - rest[one] + weights[one]) / _PER_SECOND for one in order}


def _longest(
    weights: Mapping[int, int], beyond: Mapping[int, tuple[int, ...]], order: Sequence[int]
) -> dict[int, int]:
    """The greatest sum of a chain from each container to an end, inclusive.

    `order`: those `beyond` a container come before it.
    """
    longest: dict[int, int] = {}
    greatest: dict[int, int] = {}
    for container in order:
        others = beyond[container]
        if id(others) not in greatest:  # many have the same
            greatest[id(others)] = max(map(longest.__getitem__, others), default=0)
        longest[container] = weights[container] + greatest[id(others)]
    return longest
