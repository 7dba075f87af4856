"""The effect of other numbers of partitions: predictions from compute, transfer, unifiers and skew."""

from __future__ import annotations

import math

from ridgeline.measure.deciding.capacity import crowding, divided, lanes, lanes_with, reached
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures

MOSTLY = 0.5
"""On the critical path of so many windows, an operator is what the application waits for."""
ROOM = 0.7
"""An operator that is busier than this has nothing to give back."""


def predicted_latency(operator: OperatorFigures, wanted: int) -> float | None:
    """The median latency with `wanted` partitions; None without windows.

    Only compute divides. Transfer and waits stay. A unifier costs more with each partition that it reads.
    Where there is none yet, it is expected to cost what moving the tuples costs now.
    """
    latency, compute = operator.latency.p50_seconds, operator.compute.p50_seconds
    if not operator.latency.count:
        return None
    now, then = lanes(operator), lanes_with(operator, wanted)
    compute = min(compute * math.ceil(operator.partitions / now), latency)  # those of a slot take turns
    after = divided(compute, crowding(operator), now, then)
    transfer = operator.transfer.p50_seconds
    unifier = operator.unifier_seconds
    if operator.partitions > 1:
        more = unifier * (wanted / operator.partitions - 1) if wanted > 1 else -unifier
    else:
        more = (unifier or transfer) if wanted > 1 else 0.0
    return max(latency - compute + after + more, 0.0)


def reachable_gain(figures: ApplicationFigures, name: str, gain: float) -> float:
    """How much of an operator's `gain` the application sees: no more than the slack of paths beside it.

    An operator before or behind it is on a path with it, and gets faster with it.
    """
    connected = reached(figures, name, forward=True) | reached(figures, name, forward=False)
    beside = [
        one.slack_seconds
        for other, one in figures.operators.items()
        if other not in connected and one.slack_seconds is not None and one.critical_path_share < MOSTLY
    ]
    return min([gain, *beside])


def wanted_load(figures: ApplicationFigures, catch_up_seconds: float) -> float:
    """The load to carry, as a multiple of now: arrivals, and the backlog within that time."""
    factor = 1.0
    for source in figures.sources:
        if source.taken_per_second <= 0:
            continue
        grows = max(source.grows_per_second or 0.0, 0.0)
        arriving = source.arriving_per_second
        rate = source.taken_per_second + grows if arriving is None else arriving
        rate += (source.backlog or 0.0) / catch_up_seconds
        factor = max(factor, rate / source.taken_per_second)
    return factor


def behind(figures: ApplicationFigures) -> bool:
    """Whether a backlog is being processed, or grows, or windows are later than one window."""
    if figures.late_seconds > figures.window_seconds:
        return True
    for source in figures.sources:
        window = source.taken_per_second * figures.window_seconds
        if (source.backlog or 0.0) > 2 * window + 1:
            return True
    return False
