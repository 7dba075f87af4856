"""Operator latency (Apex): how long after its slowest upstream an operator ends its window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import OperatorWindow
from ridgeline.measure.latency.window import Stages, WindowTimes, in_slots, tasks_by_stage
from ridgeline.measure.topology import Topology, for_neighbours

_NONE_BEHIND: Mapping[int, int] = MappingProxyType({})
Figures = npt.NDArray[np.float64]
_Pieces = tuple[tuple[float, float], ...]


class OperatorLatency(NamedTuple):
    """The latency of a physical operator in one window, in seconds: compute + wait + transfer.

    `upstream`: the slowest of those that it reads from, None for inputs. `estimated`: windows behind times
    the width of a window, since no upstream had reported. `clamped`: it ended before its upstream, so the
    clocks disagree and the latency was taken as 0.
    """

    operator: int
    latency: float
    compute: float
    wait: float
    transfer: float
    upstream: int | None = None
    estimated: bool = False
    clamped: bool = False

    @property
    def own(self) -> float:
        """Seconds that it would take if it waited for nobody but its upstream: compute and transfer."""
        return self.compute + self.transfer


@dataclass(frozen=True, slots=True)
class LogicalLatency:
    """The latency of a logical operator, in seconds.

    It is that of its slowest partition with its slowest unifiers, which are `chain`.
    """

    name: str
    latency: float
    compute: float
    wait: float
    transfer: float
    chain: tuple[int, ...]


def operator_latencies(
    topology: Topology,
    times: WindowTimes,
    *,
    window_seconds: float = 0.0,
    behind: Mapping[int, int] = _NONE_BEHIND,
    lag: float = math.inf,
    stages: Stages | None = None,
) -> dict[int, OperatorLatency]:
    """The latency of every operator that reported, by id.

    `latency = max(0, EWT - max upstream EWT)`; of an input operator: its compute. Upstreams that have not
    reported are left out; if none has, or the operator is more than `lag` windows behind, it is
    `behind[operator] * window_seconds`, estimated.

    In slots a container waits for its producers, then for its slot. The time from the slowest upstream's end
    to the operator's turn has two parts. Launch, shuffle, restoring
    state and decoding blocks are transfer. The rest is wait: for the stage before, for a slot with other
    containers or earlier windows, for siblings. `stages`: its `tasks_by_stage`, where they are known.
    """
    ended = {operator: found.ended for operator, found in times.operators.items()}
    pieces: Mapping[int, _Pieces]
    if in_slots(times):
        pieces = {
            container: ((-math.inf, found.ready), _own_transfer(topology, times, container))
            for container, found in times.containers.items()
        }
    else:
        pieces = _transfer_pieces(topology, times, stages or tasks_by_stage(topology, times))

    def slowest_of(sources: tuple[int, ...]) -> int | None:
        return max((source for source in sources if source in ended), key=ended.__getitem__, default=None)

    slowest_upstream = for_neighbours(topology.upstream, slowest_of)
    latencies = {}
    for node in topology.operators:
        own = times.operators.get(node.id)
        if own is None:
            continue
        slowest = slowest_upstream(node.id)
        compute = max(0.0, own.compute_seconds)
        if not topology.upstream[node.id]:
            latencies[node.id] = OperatorLatency(node.id, compute, compute, 0.0, 0.0)
        elif slowest is None or behind.get(node.id, 0) > lag:
            latency = behind.get(node.id, 0) * window_seconds
            compute = min(compute, latency)
            latencies[node.id] = OperatorLatency(
                node.id, latency, compute, latency - compute, 0.0, estimated=True
            )
        else:
            fused = topology.by_id[slowest].container == node.container
            latencies[node.id] = _measured(
                node.id, own, slowest, ended[slowest], () if fused else pieces.get(node.container, ())
            )
    return latencies


def logical_latencies(
    topology: Topology, latencies: Mapping[int, OperatorLatency]
) -> dict[str, LogicalLatency]:
    """The latency of every logical operator of which a partition is in `latencies`, by name.

    It is the greatest over its partitions, each with the slowest chain of its unifiers added. This is Apex's
    `StreamingContainerManager.fillLogicalOperatorInfo`: a unifier is charged to the operator whose output it
    unifies.
    """
    chains: dict[int, LogicalLatency] = {}
    found: dict[str, LogicalLatency] = {}
    for node in reversed(topology.operators):
        behind = [
            chains[sink]
            for sink in topology.downstream[node.id]
            if sink in chains and topology.by_id[sink].unifier and topology.by_id[sink].name == node.name
        ]
        rest = max(behind, key=lambda chain: chain.latency, default=None)
        own = latencies.get(node.id)
        if own is None:
            continue
        chain = LogicalLatency(node.name, own.latency, own.compute, own.wait, own.transfer, (node.id,))
        if rest is not None:
            chain = LogicalLatency(
                node.name,
                own.latency + rest.latency,
                own.compute + rest.compute,
                own.wait + rest.wait,
                own.transfer + rest.transfer,
                (node.id, *rest.chain),
            )
        chains[node.id] = chain
        if not node.unifier and (node.name not in found or chain.latency >= found[node.name].latency):
            found[node.name] = chain
    return {name: found[name] for name in topology.names if name in found}


def logical_columns(topology: Topology, latencies: Figures) -> dict[str, Figures]:
    """The latencies of logical operators, as `logical_latencies` has them, of many windows at once.

    `latencies`: seconds; rows: the topology's operators; columns: windows. NaN: it did not report.
    """
    columns = {node.id: latencies[row] for row, node in enumerate(topology.operators)}
    chains: dict[int, Figures] = {}
    found: dict[str, Figures] = {}
    for node in reversed(topology.operators):
        rest: Figures | None = None
        for sink in topology.downstream[node.id]:
            other = topology.by_id[sink]
            if other.unifier and other.name == node.name:
                rest = chains[sink] if rest is None else np.fmax(rest, chains[sink])
        chain = columns[node.id]
        if rest is not None:
            chain = chain + np.nan_to_num(rest)
        chains[node.id] = chain
        if not node.unifier:
            found[node.name] = chain if node.name not in found else np.fmax(found[node.name], chain)
    return found


def _measured(
    operator: int, own: OperatorWindow, slowest: int, upstream_ended: float, pieces: _Pieces
) -> OperatorLatency:
    """The latency of an operator whose slowest upstream ended at `upstream_ended`.

    `pieces`: the intervals before its turn in which its tuples or state moved.
    """
    latency = max(0.0, own.ended - upstream_ended)
    compute = max(0.0, own.compute_seconds)
    began = min(own.began, own.ended)
    if began < upstream_ended:
        compute = min(compute, latency)
        return OperatorLatency(
            operator, latency, compute, 0.0, latency - compute, slowest, clamped=own.ended < upstream_ended
        )
    running = own.ended - began
    compute = min(compute, running)
    moving = _length_within(pieces, upstream_ended, began)
    return OperatorLatency(
        operator,
        latency,
        compute,
        max(0.0, began - upstream_ended - moving),
        moving + running - compute,
        slowest,
    )


def _transfer_pieces(topology: Topology, times: WindowTimes, stages: Stages) -> dict[int, _Pieces]:
    """For each container of a job: the intervals spent moving tuples or state before its operators start."""
    pieces: dict[int, _Pieces] = {}
    barrier: float | None = None
    for tasks in stages:
        for task in tasks:
            reading: _Pieces = (
                (task.entered if barrier is None else barrier, task.entered),
                (task.entered, task.began),
            )
            for container in task.containers:
                pieces[container] = (*reading, _own_transfer(topology, times, container))
        barrier = max(task.ended for task in tasks)
    return pieces


def _own_transfer(topology: Topology, times: WindowTimes, container: int) -> tuple[float, float]:
    """From a container's turn to that of its first operator: state is restored, blocks are decoded."""
    found = times.containers[container]
    turns = [
        times.operators[operator].began
        for operator in topology.containers[container]
        if operator in times.operators
    ]
    return found.began, max(found.restored, min(turns, default=found.restored))


def _length_within(pieces: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """Seconds of the pieces between `begin` and `end`.

    Where pieces overlap, since clocks are not perfect, time counts once.
    """
    length, position = 0.0, begin
    for first, last in pieces:
        first, last = max(first, position), min(last, end)  # noqa: PLW2901  clipped
        if last > first:
            length, position = length + last - first, last
    return length
