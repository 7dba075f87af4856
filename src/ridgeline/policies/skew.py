"""The policy that evens out skew: keys move from full partitions to others, and hot ones are shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from pydantic import Field, PrivateAttr

from ridgeline.api.balancing import BalancedPartitioner, balance
from ridgeline.api.partitioner import Partitioner
from ridgeline.measure.deciding.capacity import busy_share
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.measure.deciding.key_load import KeyLoad
from ridgeline.plan.edits import Repartition
from ridgeline.plan.spec.values import write_partitioner
from ridgeline.policies.answers import MISSED, REFUSED, Decision, Expectation
from ridgeline.policies.model import MOSTLY, behind
from ridgeline.policies.steering import Seconds, SteeringPolicy

_LEAST_TUPLES = 500
"""Of fewer tuples a partition nothing is said about keys: chance alone would make them uneven."""
_KEY_SECONDS = 60.0
_LOOK_SECONDS = 5.0
"""Keys are counted for so long before anything is decided, unless the cool-down is shorter."""
_TELLING = 2.0  # a key is named if it is so many times as heavy as its error
_NAMED = 3


class SkewPolicy(SteeringPolicy):
    """Moves keys away from a partition that has too many tuples, and shares hot keys among several.

    It acts once the busiest partition has more than `ratio` times the mean, if that matters. That is so if
    the partition is busier than `busy`, or bounds the latency of most windows. Then it gives the operator a
    `BalancedPartitioner` that moves as little as it can, if the busiest partition is to have the share
    `worth_it` less. A key that is heavier than a partition should be is shared if `may_share` and the plan
    allow it. What did not help is not tried again for `patience`, while the skew is the same. It looks at
    `operator`, or at all that are divided by key. One with a partitioner of its author stays.
    """

    operator: str | None = None
    ratio: float = Field(default=1.5, gt=1)
    busy: float = Field(default=0.5, gt=0, le=1)
    worth_it: float = Field(default=0.1, gt=0, le=1)
    may_share: bool = True
    tolerance: float = Field(default=0.05, gt=0)
    patience: Seconds = 600.0
    _counting_since: dict[str, float] = PrivateAttr(default_factory=dict)
    """By operator, since when its keys are counted."""

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """At most one decision, for the operator with the greatest skew that matters."""
        settled = self.ready(figures)
        if settled is None:
            return None
        return min(self._skewed(settled), key=lambda one: one[0], default=(0.0, None))[1]

    def told(self, decision: Decision, state: str) -> None:
        """Remember what was refused or has not helped, and do not try it again while the skew is the same."""
        for edit in decision.edits:
            if isinstance(edit, Repartition) and state in {REFUSED, MISSED} and decision.expects:
                self._unhelpful[edit.operator] = decision.expects[0].before, self._changed_at or 0.0

    def _skewed(self, figures: ApplicationFigures) -> Iterator[tuple[float, Decision]]:
        """The decisions that even out skew, each with how even it makes its operator."""
        for name, one in figures.operators.items():
            if self.operator not in {None, name} or one.partitions == 1 or one.is_input:
                continue
            reason = self._matters(figures, one) if one.imbalance > self.ratio else ""
            if not reason:
                continue
            keys, since = self._keys(figures, one), figures.at - self.patience
            if keys is None or keys.fixed or keys.imbalance <= self.ratio:
                continue
            if self.was_unhelpful(name, keys.imbalance, self.worth_it, since):
                continue
            may_share = self.may_share and not keys.alone
            partitioner = balance(
                keys.loads, keys.owners, keys.partitions, may_share=may_share, tolerance=self.tolerance
            )
            after = divided_by(keys, partitioner)
            if after.imbalance > (1 - self.worth_it) * keys.imbalance:
                self._unhelpful[name] = keys.imbalance, figures.at
                continue
            yield after.imbalance, self._evened(figures, one, keys, after, partitioner, reason)

    def _matters(self, figures: ApplicationFigures, one: OperatorFigures) -> str:
        """Why skew of an operator matters now; "" if it does not."""
        busy = busy_share(one)
        if busy > self.busy:
            return f"that partition is busy {busy:.0%} of the time"
        latency = figures.window_latency.p50_seconds
        gain = one.compute.p50_seconds * (1 - 1 / one.imbalance)
        if one.critical_path_share > MOSTLY and gain > self.worth_it * latency:
            return f"it is on the critical path of {one.critical_path_share:.0%} of windows"
        return ""

    def _keys(self, figures: ApplicationFigures, one: OperatorFigures) -> KeyLoad | None:
        """The keys of an operator, once they have been counted for some time."""
        keys = figures.for_seconds(_KEY_SECONDS).operators[one.name].keys
        since = self._counting_since.setdefault(one.name, figures.at)
        enough = figures.at - since >= min(_LOOK_SECONDS, self.cooldown)
        telling = keys is not None and keys.tuples >= _LEAST_TUPLES * keys.partitions
        return keys if telling and enough else None

    def _evened(
        self,
        figures: ApplicationFigures,
        one: OperatorFigures,
        keys: KeyLoad,
        after: KeyLoad,
        partitioner: BalancedPartitioner,
        reason: str,
    ) -> Decision:
        """Divide an operator evenly."""
        moved = int(np.count_nonzero(after.owners != keys.owners))
        parts = [f"moves {moved} of {len(keys.owners):,} cells"]
        if after.shared:
            parts.append(f"shares {len(after.shared)} among several partitions")
        hot = [key for key in keys.heavy if key.share > _TELLING * key.error][:_NAMED]
        hot = [key for key in hot if key.share * keys.partitions > self.tolerance * _NAMED]
        named = ", ".join(f"key `{key.key}` is {key.share:.0%} of `{one.name}`" for key in hot)
        note = (
            f"skew: a partition of {one.name} has {one.imbalance:.2f} times the mean, and {reason}; "
            f"{named or 'no key is heavy by itself'}; {' and '.join(parts)}; "
            f"expects {after.imbalance:.2f} times the mean"
        )
        expects = [Expectation("imbalance", one.imbalance, after.imbalance, one.name)]
        if behind(figures):
            rate = one.tuples_in_per_second
            expects.append(
                Expectation("tuples_per_second", rate, rate * one.imbalance / after.imbalance, one.name)
            )
        else:
            busy = busy_share(one)
            expects.append(Expectation("utilization", busy, busy * after.imbalance / one.imbalance, one.name))
        self._changed_at = figures.at
        undo = () if keys.partitioner is None else (_repartition(one.name, keys.partitioner),)
        return Decision((_repartition(one.name, partitioner),), note, tuple(expects), undo)


def _repartition(operator: str, partitioner: Partitioner) -> Repartition:
    """The number of partitions stays that of the moment when it is made, even if others change it."""
    return Repartition(operator, None, write_partitioner(partitioner))


def divided_by(keys: KeyLoad, partitioner: BalancedPartitioner) -> KeyLoad:
    """The same load, divided otherwise."""
    owners = np.array(partitioner.owners, np.intp)
    shared = {cell: tuple(some) for cell, some in partitioner.sharers.items()}
    return replace(keys, owners=owners, shared=shared, partitioner=partitioner)
