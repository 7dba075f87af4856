"""Operator latency (Apex): how long after its slowest upstream an operator ends its window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.events import OperatorWindow
from ridgeline.measure.latency.window import WindowTimes
from ridgeline.measure.topology import Topology

_NONE_BEHIND: Mapping[int, int] = MappingProxyType({})
Figures = npt.NDArray[np.float64]
ROWS = 6
"""The rows of `LatencyColumns.figures`; the last one is taken from the events as it is."""
SHOWN = [0, 1, 2, 3, 5]
"""Of these rows, those that are shown: latency, compute, wait, transfer, cpu."""


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
        return np.fmax(0.0, self.figures[1] + self.figures[3])

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
) -> LatencyColumns:
    """The latency of every operator; its cost hardly depends on their number.

    `latency = max(0, EWT - max upstream EWT)`; of an input operator: its compute. Upstreams that have not
    reported are left out; if none has, or the operator is more than `lag` windows behind, it is
    `behind[operator] * window_seconds`, estimated.

    A container waits for its producers, then for its slot. The time from the slowest upstream's end to the
    operator's turn has two parts. Sending, restoring state and decoding blocks are transfer. The rest is
    wait: for other producers of its container, for a slot with other containers or earlier windows, for
    siblings. These are in its own container, or in its upstream's: a container's messages go once all its
    operators have run.
    """
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
    opening = _openings(topology, times, began)
    turn = np.maximum(0.0, ended - began) + _first_turns(topology, began, opening)
    arrivals = _arrivals(topology, times, slowest, began, ended)
    pieces = np.concatenate([arrivals, opening[:, None, containers]], axis=1)
    starts = np.minimum(began, ended)
    late = starts < upstream_ended  # its clock is off, or it ran while its upstream did
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
    events = [operators.reported.get(node.id) for node in topology.operators]
    shares = np.array([event is not None and event.estimated for event in events], np.bool_)
    return LatencyColumns(
        topology,
        np.vstack([found, _cpu(events, found[1])]),
        np.where(measured, slowest, -1),
        estimated | shares,
        measured & late & (ended < upstream_ended),
    )


def _cpu(events: Sequence[OperatorWindow | None], compute: Figures) -> Figures:
    """The processor time of all operators, as far as it is known; not more than their compute."""
    found = [None if event is None else event.cpu_seconds for event in events]
    return np.minimum(np.maximum(np.array(found, np.float64), 0.0), compute)


def _arrivals(
    topology: Topology, times: WindowTimes, slowest: npt.NDArray[np.intp], began: Figures, ended: Figures
) -> Figures:
    """When what operators read was on its way, from the end of each one's slowest upstream.

    Between these pieces siblings of the upstream ran, other producers of the container, or its slot ran
    others. Begins and ends, by piece in order, then by operator. `slowest`: the place of each one's slowest
    upstream, -1 for none. `began`, `ended`: of operators.
    """
    containers = corrected_events(times.containers)
    rows = {container: row for row, container in enumerate(topology.containers)}
    places = np.fromiter(map(rows.__getitem__, containers), np.intp, len(containers))
    size = len(rows)
    ready, sent = np.full(size, np.nan), np.full(size, np.nan)
    came = containers.column("ready")
    ready[places] = np.where(came == 0.0, containers.column("began"), came)
    sent[places] = np.maximum(containers.column("written"), containers.column("sent"))
    _, last = topology.containers_above.latest(sent)
    own = topology.rows_of_containers
    source, upstream_ended = own[slowest], ended[slowest]
    done = np.fmin(np.where(np.isnan(sent[source]), upstream_ended, sent[source]), ready[own])

    # What siblings of the upstream took after it: their turns, less those up to it
    turns = np.fmax(0.0, ended - began)
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
    first = np.full(len(topology.containers), -1)
    known = np.flatnonzero(~np.isnan(began))[::-1]
    first[topology.rows_of_containers[known]] = known  # of several the last one stays, the first in order
    found = np.zeros(len(began) + 1)  # one more for containers of which none has run
    found[first] = np.fmax(0.0, opening[1] - opening[0])
    return found[:-1]


def _openings(topology: Topology, times: WindowTimes, began: Figures) -> Figures:
    """From a container's turn to that of its first operator: state is restored, blocks are decoded.

    Begins and ends, by container; NaN: it has not reported. `began`: of operators.
    """
    containers = corrected_events(times.containers)
    rows = {container: row for row, container in enumerate(topology.containers)}
    places = np.fromiter(map(rows.__getitem__, containers), np.intp, len(containers))
    turns = np.full(len(rows), np.inf)
    known = ~np.isnan(began)
    np.minimum.at(turns, topology.rows_of_containers[known], began[known])
    restored, first_turn = containers.column("restored"), turns[places]
    opening = np.full((2, len(rows)), np.nan)
    opening[0, places] = containers.column("began")
    opening[1, places] = np.maximum(restored, np.where(np.isinf(first_turn), restored, first_turn))
    return opening


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
