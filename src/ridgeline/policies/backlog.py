"""Policies that look at what waits at the inputs: records, and how long until they are caught up."""

from __future__ import annotations

from pydantic import Field

from ridgeline.measure.deciding.figures import ApplicationFigures
from ridgeline.policies.answers import Decision
from ridgeline.policies.model import MOSTLY, ROOM, behind, busy_share, predicted_busy, wanted_load
from ridgeline.policies.steering import OneOperatorPolicy, Seconds

_FULL = 0.9


class BacklogBounds(OneOperatorPolicy):
    """One partition more while more than `at_most` records wait at the inputs and do not get fewer.

    One is taken back once at most `at_least` wait, and only from an operator with room.
    """

    at_most: float = Field(gt=0)
    at_least: float = Field(default=0.0, ge=0)

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """One partition more or fewer, or nothing."""
        settled = self.ready(figures)
        operator = self.watched(settled) if settled else None
        known = [] if settled is None else [one for one in settled.sources if one.backlog is not None]
        if settled is None or operator is None or not known:
            return None
        backlog = sum(one.backlog or 0.0 for one in known)
        grows = sum(one.grows_per_second or 0.0 for one in known)
        if backlog > self.at_most and grows >= 0 and busy_share(operator) > MOSTLY:
            return self.step(settled, operator.partitions + 1, f"{backlog:.0f} records wait, and not fewer")
        fewer = operator.partitions - 1
        if (
            fewer
            and backlog <= self.at_least
            and not behind(settled)
            and predicted_busy(operator, fewer) < ROOM
        ):
            return self.step(settled, fewer, f"only {backlog:.0f} records wait")
        return None


class CatchUpTime(OneOperatorPolicy):
    """As many partitions as it takes to have caught up `within` a time; it takes none back."""

    within: Seconds = Field(gt=0)

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """More partitions, as many as the model says, or nothing."""
        settled = self.ready(figures)
        operator = self.watched(settled) if settled else None
        if settled is None or operator is None or not behind(settled):
            return None
        due = settled.caught_up_in_seconds
        if (due is not None and due <= self.within) or busy_share(operator) < MOSTLY:
            return None
        load, limit, wanted = (
            wanted_load(settled, self.within),
            self.limit(settled, self.operator),
            operator.partitions,
        )
        while wanted < limit and predicted_busy(operator, wanted, load) > _FULL:
            wanted += 1
        if predicted_busy(operator, wanted) > 0.9 * busy_share(operator):
            return None
        return self.step(
            settled, wanted, f"{load:.2f} times as much must be taken to catch up in {self.within:.0f} s"
        )
