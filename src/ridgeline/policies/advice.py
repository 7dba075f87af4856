"""Advice without acting: what would lower latency or raise throughput, by how much, and the command for it.

The predictions are those of the policies (`policies/model.py`). What cannot be predicted is not advised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import shown
from ridgeline.policies.model import (
    MOSTLY,
    ROOM,
    busy_share,
    predicted_busy,
    predicted_latency,
    reachable_gain,
)

LEAST_WINDOWS = 20
"""Of fewer windows nothing is said."""
_MOST_PARTITIONS = 8
_WORTH = 0.05
"""A change is worth it that brings this share of the window's latency."""
_CROWDED = 1.3
"""A partition with so many times the mean is why others help little."""
_IDLE = 0.2


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece. `figure` goes from `before` to `after` (predicted), both None where nothing is predicted.

    `command`: what to type after `ridgeline`, with `APP` for the application; "" if no command does it.
    """

    what: str
    why: str
    figure: str
    before: float | None
    after: float | None
    command: str = ""
    operator: str = ""


def advise(figures: ApplicationFigures) -> list[Advice]:
    """What would help most comes first: latency, throughput, skew, then what could be given back.

    Empty with fewer than `LEAST_WINDOWS` windows.
    """
    if figures.windows < LEAST_WINDOWS:
        return []
    latency = sorted(_for_latency(figures), key=lambda one: (one.after or 0.0) - (one.before or 0.0))
    found = [*latency, *_for_throughput(figures), *_for_skew(figures)]
    advised = {one.operator for one in found}
    return found + [one for one in _to_give_back(figures) if one.operator not in advised]


def _for_latency(figures: ApplicationFigures) -> Iterator[Advice]:
    """More partitions for operators on the critical path, as far as each one more brings something."""
    whole = figures.window_latency.p50_seconds
    for name, one in figures.operators.items():
        if one.critical_path_share < MOSTLY or one.is_input or not one.latency.count:
            continue
        best, gain = one.partitions, 0.0
        for wanted in range(one.partitions + 1, _MOST_PARTITIONS + 1):
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
            command = f"repartition APP {name} {best}"
            yield Advice(what, why, "latency_p50_seconds", whole, whole - gain, command, name)


def _for_throughput(figures: ApplicationFigures) -> Iterator[Advice]:
    """More partitions for the operator that is full first."""
    busiest = max(figures.operators.values(), key=busy_share, default=None)
    if busiest is None or busy_share(busiest) < ROOM or busiest.is_input:
        return
    room = [
        wanted
        for wanted in range(busiest.partitions + 1, _MOST_PARTITIONS + 1)
        if predicted_busy(busiest, wanted) < min(ROOM, 0.9 * busy_share(busiest))
    ]
    if room:
        now = _most(busiest, busiest.partitions)
        after = _most(busiest, room[0])
        why = f"its busiest partition is busy {busy_share(busiest):.0%} of the time: it is full first"
        what = f"give `{busiest.name}` {room[0]} partitions, it has {busiest.partitions}"
        command = f"repartition APP {busiest.name} {room[0]}"
        yield Advice(what, why, "tuples_per_second", now, after, command, busiest.name)


def _most(operator: OperatorFigures, partitions: int) -> float:
    """The tuples a second that an operator could take with so many partitions."""
    return operator.tuples_in_per_second / max(predicted_busy(operator, partitions), 1e-9)


def _for_skew(figures: ApplicationFigures) -> Iterator[Advice]:
    """Partitions that get much more than others: more of them help little."""
    for name, one in figures.operators.items():
        if one.partitions > 1 and one.imbalance > _CROWDED and busy_share(one) > _IDLE:
            why = f"one partition gets {one.imbalance:.1f} times the mean, and others wait for it"
            what = f"divide the keys of `{name}` otherwise: another key, or a `Partitioner` of your own"
            yield Advice(what, why, "imbalance", one.imbalance, None, "", name)


def _to_give_back(figures: ApplicationFigures) -> Iterator[Advice]:
    """Partitions that nobody would miss."""
    for name, one in figures.operators.items():
        fewer = one.partitions - 1
        if fewer < 1 or one.is_input or one.critical_path_share >= MOSTLY or one.slack_seconds is None:
            continue
        after = predicted_latency(one, fewer)
        slower = 0.0 if after is None else after - one.latency.p50_seconds
        if after is not None and predicted_busy(one, fewer) < _IDLE and one.slack_seconds > 2 * slower:
            why = (
                f"it is busy {busy_share(one):.0%} of the time, and could be "
                f"{shown('_seconds', one.slack_seconds)} slower without anybody waiting"
            )
            what = f"`{name}` could give a partition back, it has {one.partitions}"
            command = f"repartition APP {name} {fewer}"
            yield Advice(what, why, "utilization", busy_share(one), predicted_busy(one, fewer), command, name)
