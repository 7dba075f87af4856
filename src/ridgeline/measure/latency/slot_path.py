"""Who waited for whom in slots: from the last container of a window back to the first, without a stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgeline.measure.clocks import corrected_events
from ridgeline.measure.events import ContainerWindow
from ridgeline.measure.latency.window import WindowTimes
from ridgeline.measure.topology import Topology


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
        if other.began < own.began and other.written > own.ready
    ]
    return sorted(found, key=lambda other: (other.began, other.container), reverse=True)
