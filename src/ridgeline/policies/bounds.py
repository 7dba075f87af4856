"""A policy that keeps a figure between two bounds, and one that goes by the time of day."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.deciding.capacity import arriving_load, busy_share, partitions_enough, predicted_busy
from ridgeline.measure.deciding.figures import ApplicationFigures, OperatorFigures
from ridgeline.policies.answers import FIGURES, Decision, shown
from ridgeline.policies.model import MOSTLY, ROOM, behind, predicted_latency
from ridgeline.policies.steering import OneOperatorPolicy, Seconds

_LEAST = 1e-9
_HELPS, _ROOMY = 0.9, 0.75
"""What a partition more leaves of a figure, at most; how near one fewer may bring it to the upper bound."""


class Bounds(OneOperatorPolicy):
    """Keeps a figure between two bounds by the number of partitions of an operator.

    `figure`: one of `FIGURES`, such as `tuples_per_partition`, `latency_p99_seconds`, `backlog`. Above
    `at_most` the operator gets more partitions, as many as bring it below by the model. They must be expected
    to help by a tenth. A backlog or another figure that partitions do not divide gets as many as
    keep up with what arrives, while the operator is busy. At `at_least` or below, one is taken back: the
    figure is to stay below three quarters of `at_most`, nothing waits, and the operator has room.
    """

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

    def judge(self, figures: ApplicationFigures, operator: OperatorFigures) -> Decision | None:
        """Another number of partitions, or nothing."""
        found = FIGURES[self.figure](figures, self.operator)
        if found is None:
            return None
        why, now = f"{self.figure} is {shown(self.figure, found)}", operator.partitions
        if found > self.at_most:
            wanted = self._more(figures, operator, found)
            why += f", at most {shown(self.figure, self.at_most)} is wanted"
            return self.step(figures, wanted, why) if self._left(operator, wanted) <= _HELPS else None
        if now == 1 or found > self.at_least or behind(figures) or predicted_busy(operator, now - 1) >= ROOM:
            return None
        stays = found * (self._left(operator, now - 1) if self._divides else 1.0) < _ROOMY * self.at_most
        return self.step(figures, now - 1, f"{why} only") if stays else None

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
