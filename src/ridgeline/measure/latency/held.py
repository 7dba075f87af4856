"""Results that are there and wait: a window is published once all that read its tuples are done with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.latency.slot_path import slot_path
from ridgeline.measure.latency.window import WindowTimes
from ridgeline.measure.topology import Topology

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
