"""The latencies of operators one by one: what the arrays of `latencies` are compared with."""

import math
from typing import NamedTuple

import numpy as np

from ridgeline.measure.latency.critical_path import CriticalPath, critical_paths, slack_of_figures


class OperatorLatency(NamedTuple):
    """As `LatencyColumns` has it of one operator, in seconds."""

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
    def own(self):
        return self.compute + self.transfer


def by_operator(topology, latencies, window):
    """The latencies of the operators that reported in one of several windows, by id."""
    found, nodes = {}, topology.operators
    columns = latencies.figures[window].T.tolist(), latencies.upstream[window]
    rows = zip(nodes, *columns, latencies.estimated[window], latencies.clamped[window], strict=True)
    for node, (*times, _, cpu), upstream, *flags in rows:
        if not math.isnan(times[0]):
            slowest = nodes[upstream].id if upstream >= 0 else None
            found[node.id] = OperatorLatency(
                node.id, *times, slowest, *flags, None if math.isnan(cpu) else cpu
            )
    return found


def critical_path(topology, own):
    seconds = np.array([own.get(node.id, 0.0) for node in topology.operators])
    return CriticalPath.of(topology, seconds, critical_paths(topology, seconds[None])[0])


def slack(topology, own, turns=None):
    """By operator. `turns`: how long each held its container; by default all of `own`."""
    figures = np.zeros((6, len(topology.operators)))
    figures[1] = [own[node.id] for node in topology.operators]
    figures[4] = [(turns or own)[node.id] for node in topology.operators]
    free = slack_of_figures(topology, figures)
    return {node.id: free[node.container] for node in topology.operators}


def latencies_by_hand(topology, times, *, window_seconds=0.0, behind=0, lag=math.inf):
    """The latency of every operator that reported, by id."""
    ended = {operator: found.ended for operator, found in times.operators.items()}
    found = {}
    for node in topology.operators:
        own = times.operators.get(node.id)
        if own is None:
            continue
        upstream = topology.upstream[node.id]
        slowest = max((one for one in upstream if one in ended), key=ended.__getitem__, default=None)
        compute, late = max(0.0, own.compute_seconds), behind
        if not upstream:
            row = compute, compute, 0.0, 0.0, None, False, False
        elif slowest is None or late > lag:
            latency = late * window_seconds
            row = latency, min(compute, latency), max(0.0, latency - compute), 0.0, None, True, False
        else:
            before = []
            if topology.by_id[slowest].container != node.container and node.container in times.containers:
                way = arrivals(topology, times, node.container, slowest)
                before = [*way, own_transfer(topology, times, node.container)]
            row = measured(own, slowest, ended[slowest], before)
        cpu = None if own.cpu_seconds is None else min(max(0.0, own.cpu_seconds), row[1])
        found[node.id] = OperatorLatency(node.id, *row, cpu)
    return found


def measured(own, upstream, upstream_ended, before):
    """Of an operator whose slowest upstream ended then. `before`: when its tuples or state moved."""
    latency, compute = max(0.0, own.ended - upstream_ended), max(0.0, own.compute_seconds)
    began = min(own.began, own.ended)
    if began < upstream_ended:
        compute = min(compute, latency)
        return latency, compute, 0.0, latency - compute, upstream, False, own.ended < upstream_ended
    compute = min(compute, own.ended - began)
    moving, position = 0.0, upstream_ended
    for piece_began, piece_ended in before:
        first, last = max(piece_began, position), min(piece_ended, began)
        if last > first:
            moving, position = moving + last - first, last
    wait = max(0.0, began - upstream_ended - moving)
    return latency, compute, wait, moving + own.ended - began - compute, upstream, False, False


def arrivals(topology, times, container, upstream):
    """When, from the end of its upstream on, what a container reads was on its way."""
    found, ends = times.containers[container], {one: own.ended for one, own in times.containers.items()}
    source, position = topology.by_id[upstream].container, times.operators[upstream].ended
    came = found.ready or found.began
    sent = min(ends[source], came) if source in ends else position
    members = topology.containers[source]
    after = (times.operators.get(one) for one in members[members.index(upstream) + 1 :])
    siblings = sum(max(0.0, turn.ended - turn.began) for turn in after if turn is not None)
    # The turns of siblings as a sum, as in the arrays: else both would differ where a clock is off.
    pieces = [(position, sent - min(siblings, max(0.0, sent - position)))]
    position = max([sent, *(ends[one] for one in topology.producers[container] if one in ends)])
    for began, ended in zip(found.busy[::2], found.busy[1::2], strict=True):
        pieces.append((position, found.ready - began))
        position = max(position, found.ready - ended)
    return [*pieces, (position, came)]


def own_transfer(topology, times, container):
    """From a container's turn to that of its first operator: state is restored, blocks are decoded."""
    found = times.containers[container]
    reported = [one for one in topology.containers[container] if one in times.operators]
    turns = [times.operators[one].began for one in reported]
    return found.began, max(found.restored, min(turns, default=found.restored))


def logical_by_hand(topology, latencies):
    """By logical operator: latency, compute, wait, transfer of its slowest partition and its unifiers.

    `latencies`: the same four by physical operator, of those that reported.
    """

    def chain(operator):
        unifiers = topology.own_unifiers.get(operator, ())
        behind = max((chain(one) for one in unifiers if one in latencies), default=(0.0,) * 4)
        return tuple(own + more for own, more in zip(latencies[operator], behind, strict=True))

    return {
        name: max(chain(topology.operators[row].id) for row in known)
        for name, rows in topology.rows_of.items()
        if (known := [row for row in rows if topology.operators[row].id in latencies])
    }
