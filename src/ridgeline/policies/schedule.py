"""A policy that knows the hours: numbers of partitions by the time of day."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from ridgeline.measure.deciding.figures import ApplicationFigures
from ridgeline.policies.answers import Decision
from ridgeline.policies.steering import OneOperatorPolicy


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
