"""Operator latency (Apex): how long after its slowest upstream an operator ends its window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import Corrected, corrected_events
from ridgeline.measure.events import ContainerWindow
from ridgeline.measure.latency.window import WindowTimes
from ridgeline.measure.topology import Topology

Figures = npt.NDArray[np.float64]
ROWS = 6
"""The rows of `LatencyColumns.figures`; the last one is taken from the events as it is."""
SHOWN = [0, 1, 2, 3, 5]
"""Of these rows, those that are shown: latency, compute, wait, transfer, cpu."""


@dataclass(frozen=True, slots=True)
class LatencyColumns:
    """The latencies of a window's operators, in the topology's order; NaN: one did not report.

    `figures`: rows latency, compute, wait, transfer, turn and cpu in seconds. The turn is how long the
    operator held its container: callbacks, decoding, encoding, and of the first one restoring state. Cpu is
    the processor time of the compute.
    `upstream`: the place of the slowest of those that each reads from, -1 for none. `estimated`: windows
    behind times the width of a window, since no upstream had reported. Or the operator ran in one query with
    others, so its time is in part a share. `clamped`: it ended before its upstream, so the clocks disagree
    and the latency was taken as 0.
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


def latency_columns(
    topology: Topology,
    windows: Sequence[WindowTimes],
    *,
    window_seconds: float = 0.0,
    behind: Sequence[Mapping[int, int]] = (),
    lag: float = math.inf,
) -> list[LatencyColumns]:
    """The latency of every operator in each window; its cost hardly depends on the number of either.

    All arrays are windows by operators, or by containers.

    `latency = max(0, EWT - max upstream EWT)`; of an input operator: its compute. Upstreams that have not
    reported are left out; if none has, or the operator is more than `lag` windows behind, it is
    `behind[operator] * window_seconds`, estimated. `behind`: of each window.

    A container waits for its producers, then for its slot. The time from the slowest upstream's end to the
    operator's turn has two parts. Sending, restoring state and decoding blocks are transfer. The rest is
    wait: for other producers of its container, for a slot with other containers or earlier windows, for
    siblings. These are in its own container, or in its upstream's: a container's messages go once all its
    operators have run.
    """
    began, ended, spent, cpu, shares = _reported(
        topology.places,
        [corrected_events(times.operators) for times in windows],
        ("began", "ended", "compute_seconds", "cpu_seconds", "estimated"),
    )
    spent = np.maximum(0.0, spent)
    slowest, upstream_ended = topology.above.latest(ended)
    late_by = np.zeros_like(ended)
    for row, by_operator in enumerate(behind):
        if by_operator:
            late_by[row] = [by_operator.get(node.id, 0) for node in topology.operators]
    reported, reads = ~np.isnan(ended), topology.above.groups >= 0
    estimated = reported & reads & ((slowest < 0) | (late_by > lag))
    measured = reported & reads & ~estimated

    # Measured: what came before the operator's turn, and its turn
    own = topology.rows_of_containers
    containers = [corrected_events(times.containers) for times in windows]
    opening = _openings(topology, containers, began)
    turn = np.maximum(0.0, ended - began) + _first_turns(topology, began, opening)
    arrivals = _arrivals(topology, containers, slowest, began, ended)
    pieces = np.concatenate([arrivals, opening[:, None, :, own]], axis=1)
    starts = np.minimum(began, ended)
    late = starts < upstream_ended  # its clock is off, or it ran while its upstream did
    pieces[..., own[slowest] == own] = np.nan  # within a container nothing moves
    latency = np.maximum(0.0, ended - upstream_ended)
    running = ended - starts
    compute = np.minimum(spent, np.where(late, latency, running))
    moving = _length_within(pieces, upstream_ended, starts)
    wait = np.where(late, 0.0, np.maximum(0.0, starts - upstream_ended - moving))
    transfer = np.where(late, latency - compute, moving + running - compute)
    found = np.array([latency, compute, wait, transfer, turn, cpu])

    guessed = late_by * window_seconds
    nothing, guessed_compute = np.zeros_like(ended), np.minimum(spent, guessed)
    guesses = [guessed, guessed_compute, guessed - guessed_compute, nothing, turn, cpu]
    found = np.where(estimated, guesses, found)
    found = np.where(reads, found, [spent, spent, nothing, nothing, turn, cpu])
    found[-1] = np.minimum(np.maximum(found[-1], 0.0), found[1])  # no more than its compute
    found[:, ~reported] = np.nan
    rows = (
        found.swapaxes(0, 1),
        np.where(measured, slowest, -1),
        estimated | (shares == 1.0),
        measured & late & (ended < upstream_ended),
    )
    return [LatencyColumns(topology, *of_window) for of_window in zip(*rows, strict=True)]


def _reported(places: Mapping[int, int], windows: Sequence[Corrected[Any]], names: Sequence[str]) -> Figures:
    """Values of events: by name, window and place; NaN where none has reported, or the value is not known."""
    found = np.full((len(names), len(windows), len(places)), np.nan)
    for row, events in enumerate(windows):
        found[:, row, [places[number] for number in events]] = [events.column(name) for name in names]
    return found


def _arrivals(
    topology: Topology,
    containers: Sequence[Corrected[ContainerWindow]],
    slowest: npt.NDArray[np.intp],
    began: Figures,
    ended: Figures,
) -> Figures:
    """When what operators read was on its way, from the end of each one's slowest upstream.

    Between these pieces siblings of the upstream ran, other producers of the container, or its slot ran
    others. Begins and ends, by piece in order, then by window and operator. `slowest`: the place of each
    one's slowest upstream, -1 for none. `began`, `ended`: of operators.
    """
    places, own, in_order = topology.places_of_containers, topology.rows_of_containers, topology.by_container
    names = "ready", "began", "written", "sent"
    came, turn, written, sent = _reported(places, containers, names)
    ready, sent = np.where(came == 0.0, turn, came)[:, own], np.maximum(written, sent)
    _, last = topology.containers_above.latest(sent)
    source = own[slowest]
    sent, upstream_ended = np.take_along_axis(sent, source, 1), np.take_along_axis(ended, slowest, 1)
    done = np.fmin(np.where(np.isnan(sent), upstream_ended, sent), ready)

    # What siblings of the upstream took after it: their turns, less those up to it
    turns = np.cumsum(np.fmax(0.0, ended - began)[:, in_order.places], axis=1)
    summed = np.empty_like(turns)
    summed[:, in_order.places] = turns
    whole = turns[:, in_order.ends]
    siblings = np.take_along_axis(whole, source, 1) - np.take_along_axis(summed, slowest, 1)
    pieces = [(upstream_ended, done - np.minimum(siblings, np.maximum(0.0, done - upstream_ended)))]

    position = np.fmax(done, last[:, own])
    stretches = [
        (row, places[number], events[number].busy_times)
        for row, events in enumerate(containers)
        for number, one in events.reported.items()
        if one.busy
    ]
    most = max((len(times) for _, _, times in stretches), default=0)
    busy = np.full((most, 2, len(containers), len(places)), np.nan)
    for row, place, times in stretches:
        busy[: len(times), :, row, place] = times
    for first, final in busy[..., own]:
        pieces.append((position, np.where(np.isnan(first), position, first)))
        position = np.fmax(position, final)
    pieces.append((position, ready))
    found = np.array(pieces).swapaxes(0, 1)
    found[..., np.isnan(ready)] = np.nan  # nothing is known of a container that has not reported
    return found


def _first_turns(topology: Topology, began: Figures, opening: Figures) -> Figures:
    """How long the first operator of each container that has run held it before its turn; 0 for others.

    `opening`: begins and ends by container, from the container's turn to that of its first operator.
    """
    in_order, size = topology.by_container, began.shape[1]
    known = np.where(np.isnan(began[:, in_order.places]), size, in_order.places)
    first = np.minimum.reduceat(known, in_order.starts, axis=1)
    found = np.zeros((len(began), size + 1))  # one more for containers of which none has run
    np.put_along_axis(found, first, np.fmax(0.0, opening[1] - opening[0]), 1)
    return found[:, :-1]


def _openings(
    topology: Topology, containers: Sequence[Corrected[ContainerWindow]], began: Figures
) -> Figures:
    """From a container's turn to that of its first operator: state is restored, blocks are decoded.

    Begins and ends, by window and container; NaN: it has not reported. `began`: of operators.
    """
    in_order = topology.by_container
    turns = np.fmin.reduceat(began[:, in_order.places], in_order.starts, axis=1)
    opened, restored = _reported(topology.places_of_containers, containers, ("began", "restored"))
    return np.array([opened, np.where(np.isnan(restored), np.nan, np.fmax(restored, turns))])


def _length_within(pieces: Figures, begin: Figures, end: Figures) -> Figures:
    """Seconds of the pieces between `begin` and `end`, of all windows and operators.

    Where pieces overlap, since clocks are not perfect, time counts once.
    """
    length, position = np.zeros_like(begin), begin
    for first, last in pieces.swapaxes(0, 1):
        from_, until = np.maximum(first, position), np.minimum(last, end)
        counts = until > from_
        length = np.where(counts, length + until - from_, length)
        position = np.where(counts, until, position)
    return length
