"""The effect of other numbers of partitions: predictions from compute, transfer, unifiers and skew."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures, PartitionFigures

MOSTLY = 0.5
"""On the critical path of so many windows, an operator is what the application waits for."""
ROOM = 0.7
"""An operator that is busier than this has nothing to give back."""


def divided(part: float, imbalance: float, partitions: int, wanted: int) -> float:
    """The `part` of a busiest partition (seconds, or a share) with `wanted` partitions.

    Its excess over an even share is taken for one hot key, which stays together.
    """
    if partitions == 1:
        return part / wanted
    share = min(max(imbalance, 1.0) / partitions, 1.0)
    hot = (share - 1 / partitions) / (1 - 1 / partitions)
    return part * (hot + (1 - hot) / wanted) / share


def lanes(operator: OperatorFigures) -> int:
    """How many of an operator's partitions can run at the same time: those of one slot take turns."""
    if operator.slots is None or not operator.by_partition:
        return operator.partitions
    return len(_by_slot(operator))


def _by_slot(operator: OperatorFigures) -> Mapping[object, Sequence[PartitionFigures]]:
    """The partitions by the process that they live in; one that lives nowhere yet is by itself."""
    found: dict[object, list[PartitionFigures]] = {}
    for one in operator.by_partition:
        place = one.partition if one.process is None else (one.host, one.process)
        found.setdefault(place, []).append(one)
    return found


def _lanes_with(operator: OperatorFigures, wanted: int) -> int:
    """How many could run at the same time with `wanted` partitions.

    If there are fewer lanes now than slots would allow, more partitions are not expected to get more.
    """
    if operator.slots is None:
        return wanted
    now = lanes(operator)
    most = max(operator.slots, 1)
    return min(wanted, most if now >= min(operator.partitions, most) else now)


def _crowding(operator: OperatorFigures) -> float:
    """The tuples of the busiest lane as a multiple of the mean."""
    number = lanes(operator)
    if number == operator.partitions:
        return operator.imbalance
    loads = [
        sum(one.tuples_out if operator.is_input else one.tuples_in for one in several)
        for several in _by_slot(operator).values()
    ]
    return max(loads) * number / sum(loads) if sum(loads) else 1.0


def busy_share(operator: OperatorFigures) -> float:
    """The utilization of the busiest slot by this operator: a mean would promise room that skew leaves not.

    Partitions that share a slot are added up.
    """
    share = max((one.utilization for one in operator.by_partition), default=0.0)
    if operator.slots is not None:
        shares = (sum(one.utilization for one in several) for several in _by_slot(operator).values())
        share = min(1.0, max(shares, default=0.0))
    return max(operator.utilization, share)


def predicted_busy(operator: OperatorFigures, wanted: int, load: float = 1.0) -> float:
    """The utilization of the busiest slot with `wanted` partitions, if `load` times as much comes."""
    after = _lanes_with(operator, wanted)
    return divided(busy_share(operator) * load, _crowding(operator), lanes(operator), after)


def all_busy(figures: ApplicationFigures) -> float:
    """How many processors all operators keep busy, on average over the period."""
    return sum(one.utilization for each in figures.operators.values() for one in each.by_partition)


def partitions_for(operator: OperatorFigures, load: float, target: float, limit: int) -> int:
    """The fewest partitions that keep the busiest one below `target` if `load` times as much comes.

    As many as there are now if even `limit` would spare the busiest one less than a tenth: that is skew.
    """
    wanted = operator.partitions
    if limit <= wanted or predicted_busy(operator, limit) > 0.9 * predicted_busy(operator, wanted):
        return wanted
    while wanted < limit and predicted_busy(operator, wanted, load) > target:
        wanted += 1
    return wanted


def predicted_latency(operator: OperatorFigures, wanted: int) -> float | None:
    """The median latency with `wanted` partitions; None without windows.

    Only compute divides. Transfer and waits stay. A unifier costs more with each partition that it reads.
    Where there is none yet, it is expected to cost what moving the tuples costs now.
    """
    latency, compute = operator.latency.p50_seconds, operator.compute.p50_seconds
    if not operator.latency.count:
        return None
    now, then = lanes(operator), _lanes_with(operator, wanted)
    compute = min(compute * math.ceil(operator.partitions / now), latency)  # those of a slot take turns
    after = divided(compute, _crowding(operator), now, then)
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
    connected = _reached(figures, name, forward=True) | _reached(figures, name, forward=False)
    beside = [
        one.slack_seconds
        for other, one in figures.operators.items()
        if other not in connected and one.slack_seconds is not None and one.critical_path_share < MOSTLY
    ]
    return min([gain, *beside])


def _reached(figures: ApplicationFigures, name: str, *, forward: bool) -> set[str]:
    """The operator, and all that tuples come to from it, or come from to it."""
    reached, new = {name}, [name]
    while new:
        here = new.pop()
        for edge in figures.edges:
            begin, end = (edge.source, edge.sink) if forward else (edge.sink, edge.source)
            if begin == here and end not in reached:
                reached.add(end)
                new.append(end)
    return reached


def tying(figures: ApplicationFigures, one: str, other: str) -> set[str]:
    """The streams of which one reader leads to one operator, and another reader to the other only."""
    readers: dict[str, list[str]] = {}
    for edge in figures.edges:
        readers.setdefault(edge.stream, []).append(edge.sink)
    first, second = (_reached(figures, name, forward=False) for name in (one, other))
    return {
        stream
        for stream, sinks in readers.items()
        if any(sink in first - second for sink in sinks) and any(sink in second - first for sink in sinks)
    }


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
    """Whether a backlog is being worked off, or grows, or windows are later than one window."""
    if figures.late_seconds > figures.window_seconds:
        return True
    for source in figures.sources:
        window = source.taken_per_second * figures.window_seconds
        if (source.backlog or 0.0) > 2 * window + 1:
            return True
    return False
