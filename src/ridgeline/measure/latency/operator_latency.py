"""Operator latency (Apex): how long after its slowest upstream an operator ends its window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ridgeline.measure.latency.window import Figures, Places, Windows

ROWS = 6
"""The rows of `Latencies.figures`; the last one is taken from the events as it is."""
SHOWN = [0, 1, 2, 3, 5]
"""Of these rows, those that are shown: latency, compute, wait, transfer, cpu."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """The latencies of operators, by window and in the topology's order; NaN: one did not report.

    `figures`: before the operators, rows latency, compute, wait, transfer, turn and cpu in seconds. The turn
    is how long the operator held its container: callbacks, decoding, encoding, and of the first one restoring
    state. Cpu is the processor time of the compute.
    `upstream`: the place of the slowest of those that each reads from, -1 for none. `estimated`: windows
    behind times the width of a window, since no upstream had reported. `clamped`: it ended before its
    upstream, so the clocks disagree and the latency was taken as 0.
    """

    figures: Figures
    upstream: Places
    estimated: npt.NDArray[np.bool_]
    clamped: npt.NDArray[np.bool_]

    @property
    def own(self) -> Figures:
        """Seconds that each would take if it waited for its upstream only; 0 without a report."""
        return own_seconds(self.figures)


def own_seconds(figures: Figures) -> Figures:
    """As `Latencies.own`, of the rows of one window or of several."""
    own: Figures = np.fmax(0.0, figures[..., 1, :] + figures[..., 3, :])
    return own


def latencies(
    windows: Windows, *, window_seconds: float = 0.0, behind: Sequence[int] = (), lag: float = math.inf
) -> Latencies:
    """The latency of every operator in each window; its cost hardly depends on the number of either.

    All arrays are windows by operators, or by containers.

    `latency = max(0, EWT - max upstream EWT)`; of an input operator: its compute. Upstreams that have not
    reported are left out; if none has, or the window is more than `lag` windows behind, it is
    `behind * window_seconds`, estimated. `behind`: of each window.

    A container waits for its producers, then for its slot. The time from the slowest upstream's end to the
    operator's turn has two parts. Sending, restoring state and decoding blocks are transfer. The rest is
    wait: for other producers of its container, for a slot with other containers or earlier windows, for
    siblings. These are in its own container, or in its upstream's: a container's messages go once all its
    operators have run.
    """
    topology, began, ended = windows.topology, windows.began, windows.ended
    spent = np.maximum(0.0, windows.compute)
    slowest, upstream_ended = topology.above.latest(ended)
    late_by = np.zeros_like(ended)
    late_by += np.reshape(behind or 0.0, (-1, 1))
    reported, reads = ~np.isnan(ended), topology.above.groups >= 0
    estimated = reported & reads & ((slowest < 0) | (late_by > lag))
    measured = reported & reads & ~estimated

    # Measured: what came before the operator's turn, and its turn
    own = topology.rows_of_containers
    opening = _openings(windows)
    turn = np.maximum(0.0, ended - began) + _first_turns(windows, opening)
    pieces = np.concatenate([_arrivals(windows, slowest), opening[:, None, :, own]], axis=1)
    starts = np.minimum(began, ended)
    late = starts < upstream_ended  # its clock is off, or it ran while its upstream did
    pieces[..., own[slowest] == own] = np.nan  # within a container nothing moves
    latency = np.maximum(0.0, ended - upstream_ended)
    running = ended - starts
    compute = np.minimum(spent, np.where(late, latency, running))
    moving = _length_within(pieces, upstream_ended, starts)
    wait = np.where(late, 0.0, np.maximum(0.0, starts - upstream_ended - moving))
    transfer = np.where(late, latency - compute, moving + running - compute)
    found = np.array([latency, compute, wait, transfer, turn, windows.cpu])

    guessed = late_by * window_seconds
    nothing, guessed_compute = np.zeros_like(ended), np.minimum(spent, guessed)
    guesses = [guessed, guessed_compute, guessed - guessed_compute, nothing, turn, windows.cpu]
    found = np.where(estimated, guesses, found)
    found = np.where(reads, found, [spent, spent, nothing, nothing, turn, windows.cpu])
    found[-1] = np.minimum(np.maximum(found[-1], 0.0), found[1])  # no more than its compute
    found[:, ~reported] = np.nan
    return Latencies(
        found.swapaxes(0, 1),
        np.where(measured, slowest, -1),
        estimated,
        measured & late & (ended < upstream_ended),
    )


def _arrivals(windows: Windows, slowest: Places) -> Figures:
    """When what operators read was on its way, from the end of each one's slowest upstream.

    Between these pieces siblings of the upstream ran, other producers of the container, or its slot ran
    others. Begins and ends, by piece in order, then by window and operator. `slowest`: the place of each
    one's slowest upstream, -1 for none.
    """
    topology = windows.topology
    own, in_order = topology.rows_of_containers, topology.members
    came = windows.came[:, own]
    _, last = topology.containers_above.latest(windows.sent)
    source = own[slowest]
    sent = np.take_along_axis(windows.sent, source, 1)
    upstream_ended = np.take_along_axis(windows.ended, slowest, 1)
    done = np.fmin(np.where(np.isnan(sent), upstream_ended, sent), came)

    # What siblings of the upstream took after it: their turns, less those up to it
    turns = np.cumsum(np.fmax(0.0, windows.ended - windows.began)[:, in_order.order], axis=1)
    summed = np.empty_like(turns)
    summed[:, in_order.order] = turns
    whole = turns[:, in_order.ends]
    siblings = np.take_along_axis(whole, source, 1) - np.take_along_axis(summed, slowest, 1)
    pieces = [(upstream_ended, done - np.minimum(siblings, np.maximum(0.0, done - upstream_ended)))]

    position = np.fmax(done, last[:, own])
    for first, final in windows.busy[..., own]:
        pieces.append((position, np.where(np.isnan(first), position, first)))
        position = np.fmax(position, final)
    pieces.append((position, came))
    found = np.array(pieces).swapaxes(0, 1)
    found[..., np.isnan(came)] = np.nan  # nothing is known of a container that has not reported
    return found


def _first_turns(windows: Windows, opening: Figures) -> Figures:
    """How long the first operator of each container that has run held it before its turn; 0 for others.

    `opening`: begins and ends by container, from the container's turn to that of its first operator.
    """
    _, size = windows.began.shape
    known = np.where(np.isnan(windows.began), size, np.arange(size))
    first = windows.topology.members.reduced(np.minimum, known)
    found = np.zeros((len(windows), size + 1))  # one more for containers of which none has run
    np.put_along_axis(found, first, np.fmax(0.0, opening[1] - opening[0]), 1)
    return found[:, :-1]


def _openings(windows: Windows) -> Figures:
    """From a container's turn to that of its first operator: state is restored, blocks are decoded.

    Begins and ends, by window and container; NaN: it has not reported.
    """
    turns = windows.topology.members.reduced(np.fmin, windows.began)
    restored = windows.restored
    return np.array([windows.turned, np.where(np.isnan(restored), np.nan, np.fmax(restored, turns))])


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
