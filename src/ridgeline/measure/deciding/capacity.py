"""How full operators are, which one limits the application, and the load that more partitions would carry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ridgeline.measure.answers.progress import FULL, BottleneckAnswer
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures, PartitionFigures

ENOUGH = 0.8
"""What is to keep up is at most so busy: bursts need room."""
LEAST_SECONDS = 2.0
"""Over less time nothing is said of how full operators are."""
_LEAST_BUSY = 0.5  # no operator that is less busy is what the others wait for
_TUPLES = "records", "tuples"
"""Units of sources of which each becomes a tuple."""


def bottleneck(figures: ApplicationFigures) -> BottleneckAnswer | None:
    """The operator that limits the application; None if none is busy enough, or too little was seen.

    An operator that is full comes before inputs: these may wait for what arrives while they are busy.
    """
    if figures.seconds < LEAST_SECONDS:
        return None
    slots: dict[object, float] = {}
    for one in figures.operators.values():
        for place, several in _by_slot(one).items():
            slots[place] = slots.get(place, 0.0) + sum(part.utilization for part in several)

    def rank(one: OperatorFigures) -> tuple[bool, float]:
        return (busy_share(one) >= FULL and not one.is_input), busy_share(one)

    found = max(figures.operators.values(), key=rank, default=None)
    if found is None:
        return None
    places = _by_slot(found)
    slot_busy = min(1.0, max((slots[place] for place in places), default=0.0))
    busy = busy_share(found)
    if max(busy, slot_busy) < FULL or busy < _LEAST_BUSY * slot_busy:
        return None
    rate = found.tuples_out_per_second if found.is_input else found.tuples_in_per_second
    load = arriving_load(figures, found.name)
    enough = None if load is None or found.is_input else partitions_enough(found, load)
    others = {place for one in figures.operators.values() if one is not found for place in _by_slot(one)}
    return {
        "operator": found.name,
        "busy": busy,
        "slotBusy": slot_busy,
        "perSecond": rate,
        "wantedPerSecond": None if load is None else rate * load,
        "partitions": found.partitions,
        "enough": enough,
        "slots": None if enough is None else len(others - places.keys()) + enough,
    }


def arriving_load(figures: ApplicationFigures, name: str) -> float | None:
    """How much arrives for an operator, as a multiple of what it does; None if no source says.

    Its sources may be several: that of which the most is left counts.
    """
    above = reached(figures, name, forward=False)
    known = []
    for source in figures.sources:
        if source.operator not in above or source.arriving_per_second is None:
            continue
        taken = source.taken_per_second
        if source.unit in _TUPLES:  # one for each: counted over the same time as what the operator does
            taken = figures.operators[source.operator].tuples_out_per_second
        if taken > 0:
            known.append(source.arriving_per_second / taken)
    return max(known, default=None)


def hottest_share(operator: OperatorFigures) -> float:
    """The share of its tuples that one key has, which stays in one partition; 0 if keys are not counted."""
    known = operator.keys
    return known.heavy[0].share if known is not None and known.heavy else 0.0


def partitions_enough(operator: OperatorFigures, load: float) -> int | None:
    """The fewest partitions that keep up with `load` times as much, each in a slot; None: skew forbids it.

    That is where it needs more than twice as many as it did if tuples were divided evenly.
    """
    hottest, busy = hottest_share(operator), busy_share(operator) * load
    most = 2 * math.ceil(busy * lanes(operator) / ENOUGH)
    if hottest * busy * lanes(operator) > ENOUGH:
        return None
    numbers = range(operator.partitions, most + 1)
    fits = (one for one in numbers if divided(busy, crowding(operator), lanes(operator), one) <= ENOUGH)
    return next(fits, None)


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
        place = (operator.name, one.partition) if one.process is None else (one.host, one.process)
        found.setdefault(place, []).append(one)
    return found


def lanes_with(operator: OperatorFigures, wanted: int) -> int:
    """How many could run at the same time with `wanted` partitions.

    If there are fewer lanes now than slots would allow, more partitions are not expected to get more.
    """
    if operator.slots is None:
        return wanted
    now = lanes(operator)
    most = max(operator.slots, 1)
    return min(wanted, most if now >= min(operator.partitions, most) else now)


def crowding(operator: OperatorFigures) -> float:
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
    after = lanes_with(operator, wanted)
    return divided(busy_share(operator) * load, crowding(operator), lanes(operator), after)


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


def reached(figures: ApplicationFigures, name: str, *, forward: bool) -> set[str]:
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
