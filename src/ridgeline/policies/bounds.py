"""A policy that keeps a figure between two bounds."""

from __future__ import annotations

from pydantic import model_validator

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.deciding.capacity import arriving_load, busy_share, partitions_enough, predicted_busy
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import FIGURES, Decision, shown
from ridgeline.policies.model import MOSTLY, ROOM, behind, predicted_latency
from ridgeline.policies.steering import Seconds, SteeringPolicy

_LEAST = 1e-9
_HELPS, _ROOMY = 0.9, 0.75
"""What a partition more leaves of a figure, at most; how near one fewer may bring it to the upper bound."""


class Bounds(SteeringPolicy):
    """Keeps a figure between two bounds by the number of partitions of an operator.

    `figure`: one of `FIGURES`, such as `tuples_per_partition`, `latency_p99_seconds`, `backlog`. Above
    `at_most` the operator gets more partitions, as many as bring it below by the model. They must be expected
    to help by a tenth. A backlog or another figure that partitions do not divide gets as many as
    keep up with what arrives, while the operator is busy. At `at_least` or below, one is taken back: the
    figure is to stay below three quarters of `at_most`, nothing waits, and the operator has room.
    """

    operator: str
    figure: str
    at_most: Seconds
    at_least: Seconds = 0.0

    @model_validator(mode="after")
    def _check(self) -> Bounds:
        if self.figure not in FIGURES:
            raise ValueError(f"there is no figure `{self.figure}`; {did_you_mean(self.figure, FIGURES)}")
        if self.at_least >= self.at_most:
            raise ValueError(
                f"`at_least` is {self.at_least}, `at_most` {self.at_most}: give a smaller `at_least`"
            )
        return self

    def latency_limit(self) -> float | None:
        """Its upper bound, if it is of a latency."""
        return float(self.at_most) if self.figure.startswith("latency") else None

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """Judge by the figures since the last change; nothing while it is too early for that."""
        settled = self.ready(figures)
        operator = settled.operators.get(self.operator) if settled is not None else None
        return None if settled is None or operator is None else self._judged(settled, operator)

    def _judged(self, figures: ApplicationFigures, operator: OperatorFigures) -> Decision | None:
        """Another number of partitions, or nothing."""
        found = FIGURES[self.figure](figures, self.operator)
        if found is None:
            return None
        why, now = f"{self.figure} is {shown(self.figure, found)}", operator.partitions
        if found > self.at_most:
            wanted = self._more(figures, operator, found)
            why += f", at most {shown(self.figure, self.at_most)} is wanted"
            return self._step(figures, wanted, why) if self._left(operator, wanted) <= _HELPS else None
        if now == 1 or found > self.at_least or behind(figures) or predicted_busy(operator, now - 1) >= ROOM:
            return None
        stays = found * (self._left(operator, now - 1) if self._divides else 1.0) < _ROOMY * self.at_most
        return self._step(figures, now - 1, f"{why} only") if stays else None

    def _step(self, figures: ApplicationFigures, wanted: int, why: str) -> Decision | None:
        """To `wanted` partitions, if more are wanted within limits."""
        now = figures.operators[self.operator].partitions
        if wanted > now:
            wanted = max(min(wanted, self.limit(figures, self.operator)), now)
        note = f"{self.operator}: {now} -> {wanted} partitions; {why}"
        return self.repartition(figures, {self.operator: wanted}, note)

    @property
    def _divides(self) -> bool:
        """Whether partitions divide the figure itself."""
        return self.figure == "tuples_per_partition" or self.figure.startswith("latency")

    def _more(self, figures: ApplicationFigures, operator: OperatorFigures, found: float) -> int:
        """How many partitions the operator should have, its own number if none more is due."""
        wanted, limit = operator.partitions, self.limit(figures, self.operator)
        if self._divides:
            while wanted < limit and found * self._left(operator, wanted) > self.at_most:
                wanted += 1
            return wanted
        falls = self.figure == "backlog" and sum(one.grows_per_second or 0.0 for one in figures.sources) < 0
        if falls or busy_share(operator) <= MOSTLY:
            return wanted
        load = arriving_load(figures, operator.name)
        return max(wanted + 1, 0 if load is None else partitions_enough(operator, load) or 0)

    def _left(self, operator: OperatorFigures, wanted: int) -> float:
        """What the model expects of the figure with so many partitions, as a share of what it is."""
        if self.figure == "tuples_per_partition":
            return operator.partitions / wanted
        if self.figure.startswith("latency"):
            after = predicted_latency(operator, wanted)
            return 1.0 if after is None else after / max(operator.latency.p50_seconds, _LEAST)
        return predicted_busy(operator, wanted) / max(busy_share(operator), _LEAST)
