"""The base of policies that change partitions: cool-down, limits, and edits with a note."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr

from ridgeline.api.policy import Policy
from ridgeline.api.support.duration import parse_duration
from ridgeline.measure.deciding.figures import ApplicationFigures
from ridgeline.plan.edits import Repartition
from ridgeline.policies.answers import Decision, Expectation
from ridgeline.policies.model import behind

_FEWEST = 3
"""Windows that are enough to decide while the application is behind: they take long then."""
_LONGEST = 900.0
"""Figures are over a longer period than usual, up to this, where windows take long."""
_LEAST = 1e-9
_SOONEST = 1.0
"""Seconds after which it can be seen at the earliest what came of a change."""
Seconds = Annotated[Any, BeforeValidator(parse_duration)]
"""A duration: seconds, or text such as `30s`."""


class SteeringPolicy(Policy):
    """Changes numbers of partitions: rests after each change, keeps to limits, asks nothing while one is due.

    `cooldown`: how long it rests after a change. `min_windows`: it decides on no fewer windows than these;
    while the application is behind three are enough.
    `max_slots`: no operator gets more partitions; without it as many as the application has slots, or 8.
    `max_partitions`: limits by operator, such as the partitions of a topic.
    """

    cooldown: Seconds = 30.0
    min_windows: int = Field(default=10, ge=1)
    max_slots: int | None = Field(default=None, ge=1)
    max_partitions: dict[str, int] = Field(default_factory=dict)
    _changed_at: float | None = PrivateAttr(default=None)
    _version: int | None = PrivateAttr(default=None)
    _unhelpful: dict[Any, tuple[float, float]] = PrivateAttr(default_factory=dict)
    """By what was refused or has not helped: at which load or skew, and when."""

    def ready(self, figures: ApplicationFigures) -> ApplicationFigures | None:
        """The figures since the last change of the plan, by anybody; None while it is too early to decide."""
        if self._version != figures.plan_version:
            if self._version is not None:
                self._changed_at = figures.at
            self._version = figures.plan_version
        if figures.changing:
            return None
        longest = _LONGEST
        if self._changed_at is not None:
            since = figures.at - self._changed_at
            if since < self.cooldown:
                return None
            longest = max(since, figures.window_seconds)
            figures = figures.for_seconds(min(longest, max(figures.seconds, figures.window_seconds)))
        enough = min(self.min_windows, _FEWEST) if behind(figures) else self.min_windows
        seconds = figures.seconds
        while figures.windows < enough and 0 < seconds < longest:  # windows may take long
            seconds = min(2 * seconds, longest)
            figures = figures.for_seconds(seconds)
        return figures if figures.windows >= enough else None

    def limit(self, figures: ApplicationFigures, name: str) -> int:
        """The most partitions that an operator may have."""
        slots = self.max_slots or figures.slots or 8
        if self.max_slots and figures.slots:
            slots = min(self.max_slots, figures.slots)
        return min(slots, self.max_partitions.get(name, slots))

    def was_unhelpful(self, tried: object, now: float, alike: float, since: float = -math.inf) -> bool:
        """Whether it did not help, since then, at a load or skew within `alike` of that of now."""
        level, at = self._unhelpful.get(tried, (math.inf, -math.inf))
        return at >= since and abs(now / max(level, _LEAST) - 1) <= alike

    def repartition(
        self,
        figures: ApplicationFigures,
        wanted: Mapping[str, int],
        note: str,
        expects: tuple[Expectation, ...] = (),
    ) -> Decision | None:
        """A decision that gives operators these numbers of partitions; None if they have them."""
        edits = tuple(
            Repartition(name, number)
            for name, number in wanted.items()
            if number != figures.operators[name].partitions
        )
        if not edits:
            return None
        self._changed_at = figures.at
        soon = tuple(replace(one, seconds=min(one.seconds, max(self.cooldown, _SOONEST))) for one in expects)
        return Decision(edits, note, soon)
