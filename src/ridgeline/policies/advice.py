"""Advice without acting: what would lower latency or raise throughput, by how much, and the command for it.

The predictions are those of the policies (`policies/model.py`). Changes that cannot be predicted are not
advised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ridgeline.measure.answers.progress import BottleneckAnswer
from ridgeline.measure.deciding.capacity import (
    bottleneck,
    busy_share,
    crowding,
    divided,
    hottest_share,
    lanes,
    lanes_with,
    partitions_for,
    predicted_busy,
)
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import shown
from ridgeline.policies.model import MOSTLY, ROOM, behind, predicted_latency, reachable_gain

LEAST_WINDOWS = 20
"""Of fewer windows nothing is said, unless an operator is full."""
LEAST_SECONDS = 10.0
"""So long an operator is watched that is full; windows are long then."""
_FEW_WINDOWS = 3
_MOST_PARTITIONS = 8
_WORTH = 0.05
"""A change is worth it that brings this share of the window's latency."""
_NEARLY = 0.95  # of what it can do; it does not catch up if more arrives
_MORE = 1.1  # a change is worth it that brings so many times the throughput
_CROWDED = 1.3
"""A partition with so many times the mean is why others help little."""
_IDLE = 0.2


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece. `figure` goes from `before` to `after` (predicted), both None where nothing is predicted.

    `partitions`: the number that `operator` should have, None if another one would not help. `slots`: with
    how many slots to start the application, None if it has enough.
    """

    what: str
    why: str
    figure: str
    before: float | None
    after: float | None
    operator: str = ""
    partitions: int | None = None
    slots: int | None = None

    @property
    def command(self) -> str:
        """The command after `ridgeline`, with `APP` for the application; "" if no command does it."""
        if self.slots is not None:
            return f"run FILE --master local[{self.slots}]"
        return "" if self.partitions is None else f"repartition APP {self.operator} {self.partitions}"


def advise(figures: ApplicationFigures) -> list[Advice]:
    """Advice, the most helpful first: latency, throughput, skew, partitions to give back.

    Empty if too little was seen, without tuples, and while the plan changes.
    """
    if not is_enough(figures) or figures.changing or not _worked(figures):
        return []
    if behind(figures) and (full := bottleneck(figures)) is not None:
        return [*_for_full(figures, full), *_for_skew(figures)]
    latency = sorted(_for_latency(figures), key=lambda one: (one.after or 0.0) - (one.before or 0.0))
    found = [*latency, *_for_throughput(figures), *_for_skew(figures)]
    advised = {one.operator for one in found}
    back = [one for one in _to_give_back(figures) if one.operator not in advised]
    return [*found, *back]


def is_enough(figures: ApplicationFigures) -> bool:
    """Whether enough was seen to say anything: many windows, or some seconds of an operator that is full."""
    if figures.windows >= LEAST_WINDOWS:
        return True
    seen = figures.windows >= _FEW_WINDOWS and figures.seconds >= LEAST_SECONDS
    return seen and bottleneck(figures) is not None


def _for_full(figures: ApplicationFigures, full: BottleneckAnswer) -> Iterator[Advice]:
    """More partitions for the operator that is full while records wait, and the slots that these need."""
    one, rate = figures.operators[full["operator"]], full["perSecond"]
    enough, needed = full["enough"], full["slots"]
    if one.is_input:
        return
    arriving, most = full["wantedPerSecond"] or 0.0, _most_partitions(figures)
    of = f" of {arriving:,.0f}" if arriving > rate else ""
    why = f"it is saturated: it does {rate:,.0f}{of} tuples/s"
    wanted = max(min(enough or most, most), one.partitions)
    yield from _more(figures, one, wanted, rate, why)
    too_few = arriving > _NEARLY * _throughput(figures, one, wanted)
    if too_few and needed is not None and figures.slots is not None and needed > figures.slots:
        what = (
            f"start with {needed} slots, there are {figures.slots}, and give `{one.name}` {enough} "
            "partitions: with fewer it hardly keeps up"
        )
        after = _throughput(figures, one, enough or one.partitions, slots=needed)
        yield Advice(what, why, "tuples_per_second", rate, after, one.name, slots=needed)


def _more(
    figures: ApplicationFigures, one: OperatorFigures, wanted: int, rate: float, why: str
) -> Iterator[Advice]:
    """More partitions for an operator that does `rate` at most, if they bring something."""
    after = _throughput(figures, one, wanted)
    if wanted > one.partitions and after > _MORE * rate:
        what = f"give `{one.name}` {wanted} partitions, it has {one.partitions}"
        yield Advice(what, why, "tuples_per_second", rate, after, one.name, wanted)


def _throughput(
    figures: ApplicationFigures, operator: OperatorFigures, wanted: int, slots: int | None = None
) -> float:
    """The tuples a second that an operator does with so many partitions: as far as others and processors can.

    `slots`: as many as there are, if None.
    """
    lanes_then = lanes_with(operator, wanted) if slots is None else wanted
    share = divided(busy_share(operator), crowding(operator), lanes(operator), lanes_then)
    share = max(share, hottest_share(operator) * busy_share(operator) * lanes(operator))
    others = [busy_share(one) for one in figures.operators.values() if one is not operator]
    processors = sum(part.cpu_seconds for one in figures.operators.values() for part in one.by_partition)
    if figures.cores and figures.seconds:
        others.append(processors / figures.seconds / figures.cores)
    return _most(operator, max([share, *others]))


def unknown(figures: ApplicationFigures) -> list[str]:
    """Advice that cannot be given, and why; also on an operator that bounds the application unadvised."""
    if figures.changing:
        return ["a change of the plan is under way: ask again once it is made"]
    if not is_enough(figures):
        return [f"{figures.windows} windows are known of this plan, {LEAST_WINDOWS} are needed"]
    if not _worked(figures):
        return [f"no tuple came in {figures.seconds:.0f} s: what a load would cost is not known"]
    found = []
    busiest = max(figures.operators.values(), key=busy_share)
    if busy_share(busiest) >= ROOM and busiest.is_input:
        found.append(
            f"`{busiest.name}` saturates first, busy {busy_share(busiest):.0%} of the time: "
            "whether the source of an input divides is not known"
        )
    elif busy_share(busiest) < ROOM and behind(figures):
        found.append(
            "windows are late or a backlog waits, though no operator is saturated: see "
            "`ridgeline critical-path`"
        )
    if figures.slots is None:
        found.append("whether a processor is free for another partition is not known")
    return found


def _worked(figures: ApplicationFigures) -> bool:
    """Whether any tuple came."""
    return any(one.tuples_in_per_second or one.tuples_out_per_second for one in figures.operators.values())


def _for_latency(figures: ApplicationFigures) -> Iterator[Advice]:
    """More partitions for operators on the critical path, as far as each one more brings something."""
    whole = figures.window_latency.p50_seconds
    for name, one in figures.operators.items():
        if one.critical_path_share < MOSTLY or one.is_input or not one.latency.count:
            continue
        best, gain = one.partitions, 0.0
        for wanted in range(one.partitions + 1, _most_partitions(figures) + 1):
            after = predicted_latency(one, wanted)
            reached = reachable_gain(figures, name, one.latency.p50_seconds - (after or 0.0))
            if after is None or reached < gain + _WORTH * whole:
                break
            best, gain = wanted, reached
        if best > one.partitions:
            why = (
                f"it is on the critical path of {one.critical_path_share:.0%} of windows; "
                f"{shown('_seconds', one.compute.p50_seconds)} of its "
                f"{shown('_seconds', one.latency.p50_seconds)} is compute, which divides"
            )
            what = f"give `{name}` {best} partitions, it has {one.partitions}"
            yield Advice(what, why, "latency_p50_seconds", whole, whole - gain, name, best)


def _for_throughput(figures: ApplicationFigures) -> Iterator[Advice]:
    """More partitions for the operator that is full first."""
    busiest = max(figures.operators.values(), key=busy_share, default=None)
    if busiest is None or busy_share(busiest) < ROOM or busiest.is_input:
        return
    others = [one for one in figures.operators.values() if one is not busiest]
    second = max(others, key=busy_share, default=None)
    bound = 0.0 if second is None else busy_share(second)
    wanted = partitions_for(busiest, 1.0, max(ROOM, bound), _most_partitions(figures))
    why = f"its busiest partition is busy {busy_share(busiest):.0%} of the time: it saturates first"
    if second is not None and bound >= predicted_busy(busiest, wanted):
        why += f"; then `{second.name}` does"
    yield from _more(figures, busiest, wanted, _most(busiest, busy_share(busiest)), why)


def _most_partitions(figures: ApplicationFigures) -> int:
    """More would share slots, and wait for each other there."""
    return min(_MOST_PARTITIONS, figures.slots or _MOST_PARTITIONS)


def _most(operator: OperatorFigures, busy: float) -> float:
    """The tuples a second that the application could take, if what is full first is so busy at this load."""
    return operator.tuples_in_per_second / max(busy, 1e-9)


def _for_skew(figures: ApplicationFigures) -> Iterator[Advice]:
    """Partitions that get much more than others: more of them help little."""
    for name, one in figures.operators.items():
        if one.partitions > 1 and one.imbalance > _CROWDED and busy_share(one) > _IDLE:
            why = f"one partition gets {one.imbalance:.1f} times the mean, and others wait for it"
            what = (
                f"distribute the keys of `{name}` differently: `ridgeline keys` shows them, `SkewPolicy` "
                "evens them out, or take another key"
            )
            if (share := hottest_share(one)) * one.partitions > _CROWDED and one.keys and one.keys.alone:
                why = f"the key `{one.keys.heavy[0].key}` has {share:.0%} of its tuples, in one partition"
                what = f"take another key for `{name}`, or sum up by part of it before: no distribution helps"
            yield Advice(what, why, "imbalance", one.imbalance, None, name)


def _to_give_back(figures: ApplicationFigures) -> Iterator[Advice]:
    """Partitions that could be given back."""
    for name, one in figures.operators.items():
        fewer = one.partitions - 1
        if fewer < 1 or one.is_input or one.slack_seconds is None:
            continue
        after = predicted_latency(one, fewer)
        slower = 0.0 if after is None else max(after - one.latency.p50_seconds, 0.0)
        little = max(one.slack_seconds, _WORTH * figures.window_latency.p50_seconds)
        if after is not None and predicted_busy(one, fewer) < _IDLE and little > 2 * slower:
            why = (
                f"it is busy {busy_share(one):.0%} of the time; with one less it is "
                f"{shown('_seconds', slower)} slower, and it has {shown('_seconds', one.slack_seconds)}"
            )
            what = f"`{name}` could give a partition back, it has {one.partitions}"
            yield Advice(what, why, "utilization", busy_share(one), predicted_busy(one, fewer), name, fewer)
