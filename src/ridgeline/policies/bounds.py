"""Policies with two bounds: tuples a second for each partition, and latency."""

from __future__ import annotations

import math
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from ridgeline.measure.deciding.capacity import arriving_load, busy_share, partitions_enough, predicted_busy
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import Decision
from ridgeline.policies.model import MOSTLY, ROOM, behind, predicted_latency, wanted_load
from ridgeline.policies.steering import OneOperatorPolicy, Seconds


def _in_order(policy: Any) -> Any:
    """Refuse bounds that leave nothing between them."""
    if policy.at_least >= policy.at_most:
        raise ValueError(
            f"`at_least` is {policy.at_least}, `at_most` {policy.at_most}: give a smaller `at_least`"
        )
    return policy


class ThroughputBounds(OneOperatorPolicy):
    """Keeps the tuples a second of each partition between two bounds.

    `at_most`: what a partition is to take. `at_least`: below it a partition is taken back, unless that would
    bring the others above three quarters of `at_most`, or a backlog is worked off.
    """

    at_most: float = Field(gt=0)
    at_least: float = Field(default=0.0, ge=0)
    _check = model_validator(mode="after")(_in_order)

    def judge(self, figures: ApplicationFigures, operator: OperatorFigures) -> Decision | None:
        """More partitions above the bound, at once as many as it takes; one fewer below the other bound."""
        each = operator.tuples_in_per_second or operator.tuples_out_per_second
        total, each = each, each / operator.partitions
        if each > self.at_most:
            why = f"{each:.0f} tuples/s for each partition, {self.at_most:.0f} wanted"
            return self.step(figures, math.ceil(total / self.at_most), why)
        fewer = operator.partitions - 1
        if fewer and each < self.at_least and total / fewer < 0.75 * self.at_most and not behind(figures):
            if predicted_busy(operator, fewer) > ROOM:
                return None
            why = f"{each:.0f} tuples/s for each partition, less than {self.at_least:.0f}"
            return self.step(figures, fewer, why)
        return None


class LatencyBounds(OneOperatorPolicy):
    """Keeps an operator's p99 latency between two bounds, if partitions can.

    Above `at_most` it gives one more if the model expects that to help by a tenth. Below `at_least` it takes
    one back, if the operator is to stay below three quarters of `at_most` and is not busy.
    """

    at_most: Seconds
    at_least: Seconds = 0.0
    _check = model_validator(mode="after")(_in_order)

    def latency_limit(self) -> float:
        """Its upper bound."""
        return self.at_most

    def judge(self, figures: ApplicationFigures, operator: OperatorFigures) -> Decision | None:
        """One partition more or fewer, or nothing."""
        late, median = operator.latency.p99_seconds, operator.latency.p50_seconds
        if not median:
            return None
        now = operator.partitions
        if late > self.at_most:
            after = predicted_latency(operator, now + 1)
            if after is None or after > 0.9 * median:
                return None
            why = f"p99 {late:.3g} s, {self.at_most:.3g} s wanted; expects p50 {median:.3g} -> {after:.3g} s"
            return self.step(figures, now + 1, why)
        if now > 1 and late < self.at_least and not behind(figures) and busy_share(operator) < ROOM:
            after = predicted_latency(operator, now - 1)
            fits = after is not None and late * after / median < 0.75 * self.at_most
            if fits and predicted_busy(operator, now - 1) < ROOM:
                return self.step(figures, now - 1, f"p99 {late:.3g} s, less than {self.at_least:.3g} s")
        return None


_FULL = 0.9


class BacklogBounds(OneOperatorPolicy):
    """More partitions while more than `at_most` records wait at the inputs and do not get fewer.

    It gives as many as keep up with what arrives, one more if that is not known.

    One is taken back once at most `at_least` wait, and only from an operator with room.
    """

    at_most: float = Field(gt=0)
    at_least: float = Field(default=0.0, ge=0)

    def judge(self, figures: ApplicationFigures, operator: OperatorFigures) -> Decision | None:
        """One partition more or fewer, or nothing."""
        known = [one for one in figures.sources if one.backlog is not None]
        if not known:
            return None
        backlog = sum(one.backlog or 0.0 for one in known)
        grows = sum(one.grows_per_second or 0.0 for one in known)
        if backlog > self.at_most and grows >= 0 and busy_share(operator) > MOSTLY:
            load, wanted = arriving_load(figures, operator.name), operator.partitions + 1
            if load is not None:
                wanted = max(wanted, partitions_enough(operator, load) or 0)
            return self.step(figures, wanted, f"{backlog:.0f} records wait, and not fewer")
        fewer = operator.partitions - 1
        if (
            fewer
            and backlog <= self.at_least
            and not behind(figures)
            and predicted_busy(operator, fewer) < ROOM
        ):
            return self.step(figures, fewer, f"only {backlog:.0f} records wait")
        return None


class CatchUpTime(OneOperatorPolicy):
    """As many partitions as it takes to have caught up `within` a time; it takes none back."""

    within: Seconds = Field(gt=0)

    def judge(self, figures: ApplicationFigures, operator: OperatorFigures) -> Decision | None:
        """More partitions, as many as the model says, or nothing."""
        if not behind(figures):
            return None
        due = figures.caught_up_in_seconds
        if (due is not None and due <= self.within) or busy_share(operator) < MOSTLY:
            return None
        load, limit, wanted = (
            wanted_load(figures, self.within),
            self.limit(figures, self.operator),
            operator.partitions,
        )
        while wanted < limit and predicted_busy(operator, wanted, load) > _FULL:
            wanted += 1
        if predicted_busy(operator, wanted) > 0.9 * busy_share(operator):
            return None
        return self.step(
            figures, wanted, f"{load:.2f} times as much must be taken to catch up in {self.within:.0f} s"
        )


class Schedule(OneOperatorPolicy):
    """Gives an operator numbers of partitions by the time of day, such as `{"08:00": 4, "20:00": 1}`.

    `timezone`: whose clock it goes by. Changes by others stay until the next hour of the schedule.
    """

    partitions: dict[str, int] = Field(min_length=1)
    timezone: str = "UTC"
    _last: tuple[str, str] | None = None

    @field_validator("partitions")
    @classmethod
    def _hours(cls, value: dict[str, int]) -> dict[str, int]:
        for hour, number in value.items():
            time.fromisoformat(hour)
            if number < 1:
                raise ValueError(f"{number} partitions at {hour}: give one or more")
        return value

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError) as error:
            raise ValueError(f"no time zone `{value}`; give one such as `Europe/Berlin`") from error
        return value

    def decide(self, figures: ApplicationFigures) -> Decision | None:
        """The change that is due since an hour of the schedule has begun."""
        if figures.changing or self.operator not in figures.operators:
            return None
        now = datetime.fromtimestamp(figures.at, ZoneInfo(self.timezone))
        by_time = sorted(self.partitions, key=time.fromisoformat)
        begun = [hour for hour in by_time if time.fromisoformat(hour) <= now.time()]
        hour = begun[-1] if begun else by_time[-1]
        day = str(now.date()) if begun else "before"
        if self._last == (day, hour):
            return None
        already = self._last is not None and not begun and self._last[1] == hour
        self._last = (day, hour)
        if already:
            return None
        return self.step(figures, self.partitions[hour], f"it is {hour} in {self.timezone}")
