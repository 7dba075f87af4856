"""Policies with two bounds: tuples a second for each partition, and latency."""

from __future__ import annotations

import math

from pydantic import Field, model_validator

from ridgeline.measure.deciding.figures import ApplicationFigures
from ridgeline.policies.answers import Decision
from ridgeline.policies.model import ROOM, behind, busy_share, predicted_busy, predicted_latency
from ridgeline.policies.steering import OneOperatorPolicy, Seconds


class ThroughputBounds(OneOperatorPolicy):
    """Keeps the tuples a second of each partition between two bounds.

    `at_most`: what a partition is to take. `at_least`: below it a partition is taken back, unless that would
    bring the others above three quarters of `at_most`, or a backlog is worked off.
    """

    at_most: float = Field(gt=0)
    at_least: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _bounds(self) -> ThroughputBounds:
        if self.at_least >= self.at_most:
            raise ValueError(
                f"`at_least` is {self.at_least}, `at_most` {self.at_most}: give a smaller `at_least`"
            )
        return self

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """More partitions above the bound, at once as many as it takes; one fewer below the other bound."""
        settled = self.ready(figures)
        operator = self.watched(settled) if settled else None
        if settled is None or operator is None:
            return None
        each = operator.tuples_in_per_second or operator.tuples_out_per_second
        total, each = each, each / operator.partitions
        if each > self.at_most:
            why = f"{each:.0f} tuples/s for each partition, {self.at_most:.0f} wanted"
            return self.step(settled, math.ceil(total / self.at_most), why)
        fewer = operator.partitions - 1
        if fewer and each < self.at_least and total / fewer < 0.75 * self.at_most and not behind(settled):
            if predicted_busy(operator, fewer) > ROOM:
                return None
            why = f"{each:.0f} tuples/s for each partition, less than {self.at_least:.0f}"
            return self.step(settled, fewer, why)
        return None


class LatencyBounds(OneOperatorPolicy):
    """Keeps an operator's p99 latency between two bounds, if partitions can.

    Above `at_most` it gives one more if the model expects that to help by a tenth. Below `at_least` it takes
    one back, if the operator is to stay below three quarters of `at_most` and is not busy.
    """

    at_most: Seconds
    at_least: Seconds = 0.0

    @model_validator(mode="after")
    def _bounds(self) -> LatencyBounds:
        if self.at_least >= self.at_most:
            raise ValueError(
                f"`at_least` is {self.at_least} s, `at_most` {self.at_most} s: give a smaller `at_least`"
            )
        return self

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """One partition more or fewer, or nothing."""
        settled = self.ready(figures)
        operator = self.watched(settled) if settled else None
        if settled is None or operator is None:
            return None
        late, median = operator.latency.p99_seconds, operator.latency.p50_seconds
        if not median:
            return None
        now = operator.partitions
        if late > self.at_most:
            after = predicted_latency(operator, now + 1)
            if after is None or after > 0.9 * median:
                return None
            why = f"p99 {late:.3g} s, {self.at_most:.3g} s wanted; expects p50 {median:.3g} -> {after:.3g} s"
            return self.step(settled, now + 1, why)
        if now > 1 and late < self.at_least and not behind(settled) and busy_share(operator) < ROOM:
            after = predicted_latency(operator, now - 1)
            fits = after is not None and late * after / median < 0.75 * self.at_most
            if fits and predicted_busy(operator, now - 1) < ROOM:
                return self.step(settled, now - 1, f"p99 {late:.3g} s, less than {self.at_least:.3g} s")
        return None
