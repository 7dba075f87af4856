"""The critical path: the longest chain of operators, if each waits for its upstream only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.events import ContainerWindow
from ridgeline.measure.latency.window import WindowTimes
from ridgeline.measure.topology import Neighbours, Rank, Topology

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


def critical_path_of(topology: Topology, own: Sequence[float]) -> CriticalPath:
    """The path with the greatest sum of `own` latencies: seconds, in the order of the operators.

    Of equal paths it is the one whose titles sort first. Time linear in operators and in different sets of
    neighbours. An empty topology has an empty path.
    """
    rest = _longest(_whole(own), topology.below, range(len(own) - 1, -1, -1))
    nodes, places = topology.operators, topology.places
    path: list[int] = []
    candidates: Sequence[int] = [places[operator] for operator in topology.inputs]
    while candidates:
        longest = max(map(rest.__getitem__, candidates))
        longest_ones = (place for place in candidates if rest[place] == longest)
        path.append(min(longest_ones, key=lambda place: nodes[place].title))
        group = topology.below.group[path[-1]]
        candidates = topology.below.members[group] if group >= 0 else ()
    return CriticalPath(math.fsum(own[place] for place in path), tuple(nodes[place].id for place in path))


def _whole(own: Sequence[float]) -> list[int]:
    return [round(seconds * _PER_SECOND) for seconds in own]


def _longest(whole: Sequence[int], beyond: Neighbours, places: Iterable[int]) -> list[int]:
    """The greatest sum from each operator to an end, inclusive, by place.

    `places`: in an order in which those `beyond` an operator come before it.
    """
    longest = [0] * len(whole)
    greatest: list[int | None] = [None] * len(beyond.members)
    for place in places:
        group = beyond.group[place]
        if group < 0:
            longest[place] = whole[place]
            continue
        rest = greatest[group]
        if rest is None:
            rest = greatest[group] = max(map(longest.__getitem__, beyond.members[group]))
        longest[place] = whole[place] + rest
    return longest


def slot_path(topology: Topology, times: WindowTimes) -> tuple[int, ...]:
    """The container that ended last, then of its producers the last, and so on to one without producers.

    Only containers that reported. Containers that ended at the same time: the one with the lowest id.
    """
    containers = corrected_events(times.containers)
    ends = np.maximum(containers.column("written"), containers.column("sent")).tolist()
    ended = dict(zip(containers, ends, strict=True))
    path: list[int] = []
    found: set[int] | frozenset[int] = set(times.containers)
    while found:
        path.append(max(found, key=lambda container: (ended[container], -container)))
        found = producers(topology, times, path[-1]) - set(path)
    return tuple(path)


def producers(topology: Topology, times: WindowTimes, container: int) -> frozenset[int]:
    """The containers that reported and that this one reads from."""
    return frozenset(topology.producers[container]) & times.containers.keys()


def ran_meanwhile(times: WindowTimes, container: int) -> Sequence[ContainerWindow]:
    """The containers of the same slot that ran while this one was ready and waited, the last one first."""
    own = times.containers[container]
    same_slot = (
        number
        for number, other in corrected_events(times.containers).reported.items()
        if other.task == own.task
    )
    found = [
        other
        for other in map(times.containers.__getitem__, same_slot)
        if other.began < own.began and other.written > own.came
    ]
    return sorted(found, key=lambda other: (other.began, other.container), reverse=True)


LEAST_SECONDS = 0.001
"""A shorter wait is not reported."""


class Held(NamedTuple):
    """The results of `output` waited for `by`, so many seconds; both are names of logical operators."""

    output: str
    by: str
    seconds: float


def held_results(topology: Topology, times: WindowTimes) -> tuple[Held, ...]:
    """For each output that was done early: which operator the window waited for, and how long; longest first.

    Of those on the way to the container that ended last, and of which the output reads nothing, that operator
    ran longest in the meantime.
    """
    containers = corrected_events(times.containers)
    ends = np.maximum(containers.column("written"), containers.column("sent"))
    ended = dict(zip(containers, ends.tolist(), strict=True))
    done: dict[str, float] = {}
    before: dict[str, int] = {}
    for leaf in topology.leaves:
        node = topology.by_id[leaf]
        if node.container in ended:
            done[node.name] = max(done.get(node.name, 0.0), ended[node.container])
            before[node.name] = before.get(node.name, 0) | topology.lineage[leaf]
    over = max(ended.values(), default=0.0)
    early = [name for name, at in done.items() if over - at >= LEAST_SECONDS]
    if not early:
        return ()
    turns = [
        (own.began, own.ended, operator)
        for container in slot_path(topology, times)
        for operator in topology.containers[container]
        if (own := times.operators.get(operator)) is not None
    ]
    found = []
    for name in early:
        others = [
            (own_ended - max(began, done[name]), operator)
            for began, own_ended, operator in turns
            if not before[name] & topology.bits[operator]
        ]
        if others:
            found.append(Held(name, topology.by_id[max(others)[1]].name, over - done[name]))
    return tuple(sorted(found, key=lambda one: (-one.seconds, one.output)))


def slack_of_figures(topology: Topology, figures: npt.NDArray[np.float64]) -> dict[int, float]:
    """How many seconds slower the operators of each container may become before a window takes longer.

    It is as if every container had a slot of its own. The operators of a container run one after the other,
    and its messages go once all have run. So all operators of a container have the same slack. It is the
    greatest sum of all chains of containers, less the greatest of those through this one. `figures`: as in
    `LatencyColumns`.
    """
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
    """The greatest sum of a chain from each container to an end, inclusive, rank after rank."""
    longest = weights.copy()
    for rank in ranks:
        longest[rank.rows] += np.maximum.reduceat(longest[rank.flat], rank.starts)[rank.set_of]
    return longest
