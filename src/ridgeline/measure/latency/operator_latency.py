"""Operator latency (Apex): how long after its slowest upstream an operator ends its window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.events import OperatorWindow
from ridgeline.measure.latency.window import Stages, WindowTimes, in_slots, tasks_by_stage
from ridgeline.measure.topology import Topology

_NONE_BEHIND: Mapping[int, int] = MappingProxyType({})
Figures = npt.NDArray[np.float64]
_FOUND = 5
ROWS = 6
"""The rows of `LatencyColumns.figures`; the last one is taken from the events as it is."""
SHOWN = [0, 1, 2, 3, 5]
"""Of these rows, those that are shown: latency, compute, wait, transfer, cpu."""
_Row = tuple[float, float, float, float, float, int, bool, bool]
"""The columns of `LatencyColumns` for one operator."""
_MISSING: _Row = (*[math.nan] * _FOUND, -1, False, False)  # type: ignore[assignment]  # five of them
_Pieces = Sequence[tuple[float, float]]
FEW = 48
"""Number of operators at which arrays cost as much as one by one."""


class OperatorLatency(NamedTuple):
    """The latency of a physical operator in one window, in seconds: compute + wait + transfer.

    `upstream`: the slowest of those that it reads from, None for inputs. `estimated`: windows behind times
    the width of a window, since no upstream had reported. Or the operator ran in one query with others, so
    its time is in part a share. `clamped`: it ended before its upstream, so the
    clocks disagree and the latency was taken as 0. `cpu`: processor time of `compute`, if it is known.
    """

    operator: int
    latency: float
    compute: float
    wait: float
    transfer: float
    upstream: int | None = None
    estimated: bool = False
    clamped: bool = False
    cpu: float | None = None

    @property
    def own(self) -> float:
        """Seconds that it would take if it waited for its upstream only: compute and transfer."""
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
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class LatencyColumns:
    """The latencies of a window's operators, in the topology's order; NaN: one did not report.

    `figures`: rows latency, compute, wait, transfer, turn and cpu in seconds. The turn is how long the
    operator held its container: callbacks, decoding, encoding, and of the first one restoring state. Cpu is
    the processor time of the compute.
    `upstream`: the place of the slowest of those that each reads from, -1 for none. `estimated`, `clamped`:
    as in `OperatorLatency`.
    """

    topology: Topology
    figures: Figures
    upstream: npt.NDArray[np.intp]
    estimated: npt.NDArray[np.bool_]
    clamped: npt.NDArray[np.bool_]

    @property
    def own(self) -> Figures:
        """Seconds that each would take if it waited for its upstream only; 0 without a report."""
        return np.nan_to_num(self.figures[1] + self.figures[3])

    def of(self, operators: Iterable[int]) -> dict[int, OperatorLatency]:
        """The latencies of these operators, of those that reported."""
        places, nodes = self.topology.places, self.topology.operators
        found = {}
        for operator in operators:
            place = places[operator]
            latency, compute, wait, transfer, _, cpu = self.figures[:, place].tolist()
            upstream = int(self.upstream[place])
            if not math.isnan(latency):
                found[operator] = OperatorLatency(
                    operator,
                    latency,
                    compute,
                    wait,
                    transfer,
                    nodes[upstream].id if upstream >= 0 else None,
                    bool(self.estimated[place]),
                    bool(self.clamped[place]),
                    None if math.isnan(cpu) else cpu,
                )
        return found


def latency_columns(
    topology: Topology,
    times: WindowTimes,
    *,
    window_seconds: float = 0.0,
    behind: Mapping[int, int] = _NONE_BEHIND,
    lag: float = math.inf,
    stages: Stages | None = None,
    few: int = FEW,
) -> LatencyColumns:
    """The latency of every operator.

    `latency = max(0, EWT - max upstream EWT)`; of an input operator: its compute. Upstreams that have not
    reported are left out; if none has, or the operator is more than `lag` windows behind, it is
    `behind[operator] * window_seconds`, estimated.

    In slots a container waits for its producers, then for its slot. The time from the slowest upstream's end
    to the operator's turn has two parts. Launch, shuffle, restoring state and decoding blocks are transfer.
    The rest is wait: for the stage before, for other producers of its container, for a slot with other
    containers or earlier windows, for siblings. These are in its own container, or in its upstream's: a
    container's messages go once all its operators have run.

    `stages`: its `tasks_by_stage`, where they are known. `few`: up to so many operators are taken one by one.
    """
    find = _one_by_one if len(topology.operators) <= few else _all_at_once
    found = find(topology, times, window_seconds, behind, lag, stages)
    reported = corrected_events(times.operators).reported
    events = [reported.get(node.id) for node in topology.operators]
    shares = np.array([event is not None and event.estimated for event in events], np.bool_)
    return replace(
        found,
        figures=np.vstack([found.figures, _cpu(events, found.figures[1])]),
        estimated=found.estimated | shares,
    )


def _cpu(events: Sequence[OperatorWindow | None], compute: Figures) -> Figures:
    """The processor time of all operators, as far as it is known; not more than their compute."""
    found = [None if event is None else event.cpu_seconds for event in events]
    return np.minimum(np.maximum(np.array(found, np.float64), 0.0), compute)


def _all_at_once(
    topology: Topology,
    times: WindowTimes,
    window_seconds: float,
    behind: Mapping[int, int],
    lag: float,
    stages: Stages | None,
) -> LatencyColumns:
    """`latency_columns` with arrays: its cost hardly depends on the number of operators."""
    operators, size = corrected_events(times.operators), len(topology.operators)
    places = np.fromiter(map(topology.places.__getitem__, operators), np.intp, len(operators))

    def column(name: str) -> Figures:
        found = np.full(size, np.nan)
        found[places] = operators.column(name)
        return found

    began, ended = column("began"), column("ended")
    spent = np.maximum(0.0, column("compute_seconds"))
    slowest, upstream_ended = topology.above.latest(ended)
    windows = np.zeros(size)
    if behind:
        windows = np.array([behind.get(node.id, 0) for node in topology.operators], np.float64)
    reported, reads = ~np.isnan(ended), topology.above.groups >= 0
    estimated = reported & reads & ((slowest < 0) | (windows > lag))
    measured = reported & reads & ~estimated

    # Measured: what came before the operator's turn, and its turn
    containers = topology.rows_of_containers
    pieces = _pieces(topology, times, began, stages)
    turn = np.maximum(0.0, ended - began) + _first_turns(topology, began, pieces[:, -1])
    pieces = pieces[:, :, containers]
    starts = np.minimum(began, ended)
    late = starts < upstream_ended  # its clock is off, or it ran while its upstream did
    if in_slots(times):
        pieces = np.concatenate([_arrivals(topology, times, slowest, began, ended), pieces], axis=1)
    fused = containers[slowest] == containers
    pieces[:, :, fused] = np.nan
    latency = np.maximum(0.0, ended - upstream_ended)
    running = ended - starts
    compute = np.minimum(spent, np.where(late, latency, running))
    moving = _length_within(pieces, upstream_ended, starts)
    wait = np.where(late, 0.0, np.maximum(0.0, starts - upstream_ended - moving))
    transfer = np.where(late, latency - compute, moving + running - compute)
    found = np.array([latency, compute, wait, transfer, turn])

    guessed = windows * window_seconds
    nothing, guessed_compute = np.zeros(size), np.minimum(spent, guessed)
    found = np.where(estimated, [guessed, guessed_compute, guessed - guessed_compute, nothing, turn], found)
    found = np.where(reads, found, [spent, spent, nothing, nothing, turn])
    found[:, ~reported] = np.nan
    return LatencyColumns(
        topology,
        found,
        np.where(measured, slowest, -1),
        estimated,
        measured & late & (ended < upstream_ended),
    )


def _one_by_one(
    topology: Topology,
    times: WindowTimes,
    window_seconds: float,
    behind: Mapping[int, int],
    lag: float,
    stages: Stages | None,
) -> LatencyColumns:
    """`latency_columns` operator by operator: of few it costs less than the first array."""
    ended = {operator: found.ended for operator, found in times.operators.items()}
    arrivals = _Arrivals(topology, times) if in_slots(times) else None
    pieces = _pieces_of_tasks(stages or tasks_by_stage(topology, times)) if arrivals is None else {}
    rows: list[_Row] = []
    opened: set[int] = set()
    """The containers whose first operator was there."""
    places, containers = topology.places, times.containers
    for node in topology.operators:
        own = times.operators.get(node.id)
        if own is None:
            rows.append(_MISSING)
            continue
        upstream = topology.upstream[node.id]
        slowest = max((one for one in upstream if one in ended), key=ended.__getitem__, default=None)
        compute = max(0.0, own.compute_seconds)
        turn = max(0.0, own.ended - own.began)
        if node.container in containers and node.container not in opened:
            opened.add(node.container)
            first, last = _own_transfer(topology, times, node.container)
            turn += max(0.0, last - first)
        if not upstream:
            rows.append((compute, compute, 0.0, 0.0, turn, -1, False, False))
        elif slowest is None or behind.get(node.id, 0) > lag:
            latency = behind.get(node.id, 0) * window_seconds
            compute = min(compute, latency)
            rows.append((latency, compute, latency - compute, 0.0, turn, -1, True, False))
        else:
            before: list[tuple[float, float]] = []
            if topology.by_id[slowest].container != node.container and node.container in containers:
                before += pieces[node.container] if arrivals is None else arrivals.of(node.container, slowest)
                before.append(_own_transfer(topology, times, node.container))
            rows.append(_measured(own, places[slowest], ended[slowest], before, turn))
    figures = np.array([row[:_FOUND] for row in rows], np.float64).reshape(-1, _FOUND).T.copy()
    return LatencyColumns(
        topology,
        figures,
        np.array([row[_FOUND] for row in rows], np.intp),
        np.array([row[_FOUND + 1] for row in rows], np.bool_),
        np.array([row[_FOUND + 2] for row in rows], np.bool_),
    )


def logical_latencies(
    topology: Topology, latencies: Mapping[int, OperatorLatency]
) -> dict[str, LogicalLatency]:
    """The latency of every logical operator of which a partition is in `latencies`, by name.

    It is the greatest over its partitions, each with the slowest chain of its unifiers added. This is Apex's
    `StreamingContainerManager.fillLogicalOperatorInfo`: a unifier is charged to the operator whose output it
    unifies.
    """
    chains: dict[int, LogicalLatency] = {}
    slowest: dict[tuple[int, ...], LogicalLatency | None] = {(): None}
    """By unifiers: partitions of one operator have the same."""
    found: dict[str, LogicalLatency] = {}
    for node in reversed(topology.operators):
        unifiers = topology.own_unifiers.get(node.id, ())
        if unifiers not in slowest:
            behind = [chains[sink] for sink in unifiers if sink in chains]
            slowest[unifiers] = max(behind, key=lambda chain: chain.latency, default=None)
        rest = slowest[unifiers]
        own = latencies.get(node.id)
        if own is None:
            continue
        chain = LogicalLatency(
            node.name, own.latency, own.compute, own.wait, own.transfer, (node.id,), own.cpu
        )
        if rest is not None:
            chain = LogicalLatency(
                node.name,
                own.latency + rest.latency,
                own.compute + rest.compute,
                own.wait + rest.wait,
                own.transfer + rest.transfer,
                (node.id, *rest.chain),
                None if own.cpu is None or rest.cpu is None else own.cpu + rest.cpu,
            )
        chains[node.id] = chain
        if not node.unifier and (node.name not in found or chain.latency >= found[node.name].latency):
            found[node.name] = chain
    return {name: found[name] for name in topology.names if name in found}


def _slowest(latencies: Figures, rows: npt.NDArray[np.intp]) -> int | None:
    """The row with the greatest latency, the first of equal ones; None if none is known."""
    own = latencies[rows]
    place = np.where(own == own, own, -np.inf).argmax()  # noqa: PLR0124  `nanargmax` takes five times as long
    return int(rows[place]) if own[place] == own[place] else None


def logical_columns(topology: Topology, latencies: Figures) -> dict[str, Figures]:
    """The latencies of logical operators, as `logical_latencies` has them, of many windows at once.

    `latencies`: seconds; rows: the topology's operators; columns: windows. NaN: it did not report.
    """
    chains = latencies.copy() if topology.chains else latencies
    for sinks, members in topology.chains:
        chains[members] += np.nan_to_num(np.fmax.reduce(chains[sinks], axis=0))
    return {name: np.fmax.reduce(chains[rows], axis=0) for name, rows in topology.places_of.items()}


def _measured(
    own: OperatorWindow,
    upstream: int,
    upstream_ended: float,
    before: Iterable[tuple[float, float]],
    turn: float,
) -> _Row:
    """The latency of an operator whose slowest upstream ended at `upstream_ended`.

    `before`: the intervals before its turn in which its tuples or state moved.
    """
    latency = max(0.0, own.ended - upstream_ended)
    compute = max(0.0, own.compute_seconds)
    began = min(own.began, own.ended)
    if began < upstream_ended:
        compute = min(compute, latency)
        return latency, compute, 0.0, latency - compute, turn, upstream, False, own.ended < upstream_ended
    running = own.ended - began
    compute = min(compute, running)
    moving, position = 0.0, upstream_ended
    for piece_began, piece_ended in before:
        first, last = max(piece_began, position), min(piece_ended, began)
        if last > first:
            moving, position = moving + last - first, last
    wait = max(0.0, began - upstream_ended - moving)
    return latency, compute, wait, moving + running - compute, turn, upstream, False, False


class _Arrivals:
    """When the messages of producers were on their way to containers in slots, one container at a time."""

    def __init__(self, topology: Topology, times: WindowTimes) -> None:
        self._topology, self._times = topology, times
        self._last: dict[int, float] = {}

    def of(self, container: int, upstream: int) -> _Pieces:
        """The intervals from the end of an operator's `upstream` in which what it reads moved, in order.

        Between them siblings of the upstream ran, other producers of the container, or its slot ran others.
        """
        times, found = self._times, self._times.containers[container]
        source, position = self._topology.by_id[upstream].container, times.operators[upstream].ended
        sent = min(times.containers[source].ended, found.ready) if source in times.containers else position
        members = self._topology.containers[source]
        after = (times.operators.get(one) for one in members[members.index(upstream) + 1 :])
        siblings = sum(max(0.0, turn.ended - turn.began) for turn in after if turn is not None)
        # The turns of siblings as a sum, as in `_arrivals`: else both would differ where a clock is off.
        pieces = [(position, sent - min(siblings, max(0.0, sent - position)))]
        position = max(sent, self._last_of(container))
        for began, ended in found.busy_times:
            pieces.append((position, began))
            position = max(position, ended)
        pieces.append((position, found.ready))
        return pieces

    def _last_of(self, container: int) -> float:
        """When the last of its producers was done."""
        if container not in self._last:
            known = self._times.containers
            ends = (known[one].ended for one in self._topology.producers[container] if one in known)
            self._last[container] = max(ends, default=-math.inf)
        return self._last[container]


def _arrivals(
    topology: Topology, times: WindowTimes, slowest: npt.NDArray[np.intp], began: Figures, ended: Figures
) -> Figures:
    """The values of `_Arrivals`, of all operators: begins and ends of pieces, by piece, then by operator.

    `slowest`: the place of each one's slowest upstream, -1 for none. `began`, `ended`: of operators.
    """
    containers = corrected_events(times.containers)
    rows = {container: row for row, container in enumerate(topology.containers)}
    places = np.fromiter(map(rows.__getitem__, containers), np.intp, len(containers))
    size = len(rows)
    ready, sent = np.full(size, np.nan), np.full(size, np.nan)
    ready[places] = containers.column("ready")
    sent[places] = np.maximum(containers.column("written"), containers.column("sent"))
    _, last = topology.containers_above.latest(sent)
    own = topology.rows_of_containers
    source, upstream_ended = own[slowest], ended[slowest]
    done = np.fmin(np.where(np.isnan(sent[source]), upstream_ended, sent[source]), ready[own])

    # What siblings of the upstream took after it: their turns, less those up to it
    turns = np.nan_to_num(np.maximum(0.0, ended - began))
    by_container = np.argsort(own, kind="stable")
    summed = np.empty(len(own))
    summed[by_container] = np.cumsum(turns[by_container])
    whole = np.full(size, -np.inf)
    np.maximum.at(whole, own, summed)
    siblings = whole[source] - summed[slowest]
    pieces = [(upstream_ended, done - np.minimum(siblings, np.maximum(0.0, done - upstream_ended)))]

    position = np.fmax(done, last[own])
    reported = zip(places, containers.reported.items(), strict=True)
    stretches = [(row, containers[number]) for row, (number, one) in reported if one.busy]
    most = max((len(one.busy) // 2 for _, one in stretches), default=0)
    busy = np.full((most, 2, size), np.nan)
    for row, container in stretches:
        for number, stretch in enumerate(container.busy_times):
            busy[number, :, row] = stretch
    for first, final in busy[:, :, own]:
        pieces.append((position, np.where(np.isnan(first), position, first)))
        position = np.fmax(position, final)
    pieces.append((position, ready[own]))
    found = np.array(pieces).transpose(1, 0, 2)
    found[:, :, np.isnan(ready[own])] = np.nan  # nothing is known of a container that has not reported
    return found


def _first_turns(topology: Topology, began: Figures, opening: Figures) -> Figures:
    """How long the first operator of each container that has run held it before its turn; 0 for others.

    `opening`: begins and ends by container, from the container's turn to that of its first operator.
    """
    found, known = np.zeros(len(began)), np.flatnonzero(~np.isnan(began))
    containers, first = np.unique(topology.rows_of_containers[known], return_index=True)
    found[known[first]] = np.nan_to_num(np.maximum(0.0, opening[1] - opening[0]))[containers]
    return found


def _pieces_of_tasks(stages: Stages) -> dict[int, list[tuple[float, float]]]:
    """For each container of a job: the intervals in which its task waited to be launched, and then read."""
    pieces: dict[int, list[tuple[float, float]]] = {}
    barrier: float | None = None
    for tasks in stages:
        for task in tasks:
            launched = task.entered if barrier is None else barrier
            reading = [(launched, task.entered), (task.entered, task.began)]
            pieces.update(dict.fromkeys(task.containers, reading))
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


def _pieces(topology: Topology, times: WindowTimes, began: Figures, stages: Stages | None) -> Figures:
    """When tuples or state moved before the operators of containers had their turn: pieces in order.

    First their begins, then their ends; by piece, then by container. NaN: there is none. `began`: of
    operators.
    """
    containers = corrected_events(times.containers)
    rows = {container: row for row, container in enumerate(topology.containers)}
    places = np.fromiter(map(rows.__getitem__, containers), np.intp, len(containers))
    count = 1 if in_slots(times) else 3
    pieces = np.full((2, count, len(rows)), np.nan)
    # From a container's turn to that of its first operator: state is restored, blocks are decoded
    turns = np.full(len(rows), np.inf)
    known = ~np.isnan(began)
    np.minimum.at(turns, topology.rows_of_containers[known], began[known])
    restored, first_turn = containers.column("restored"), turns[places]
    pieces[0, -1, places] = containers.column("began")
    pieces[1, -1, places] = np.maximum(restored, np.where(np.isinf(first_turn), restored, first_turn))
    if in_slots(times):
        return pieces
    for container, reading in _pieces_of_tasks(stages or tasks_by_stage(topology, times)).items():
        pieces[:, :2, rows[container]] = np.transpose(reading)
    return pieces


def _length_within(pieces: Figures, begin: Figures, end: Figures) -> Figures:
    """Seconds of the pieces between `begin` and `end`, of all operators.

    Where pieces overlap, since clocks are not perfect, time counts once.
    """
    length, position = np.zeros_like(begin), begin
    for first, last in pieces.swapaxes(0, 1):
        from_, until = np.maximum(first, position), np.minimum(last, end)
        counts = until > from_
        length = np.where(counts, length + until - from_, length)
        position = np.where(counts, until, position)
    return length
