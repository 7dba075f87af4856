"""A level that has changed for good."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ridgeline.api.support.results import names_call
from ridgeline.operators.patterns.pattern import Found, NumberPattern, at_least


@dataclass(frozen=True)
class ChangePoint(NumberPattern):
    """See `change_point`."""

    threshold: float
    drift: float
    learn: int

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory: number, sum, sum of squares about the mean; both sums, and when each began to rise."""
        count, mean, squares, up, up_since, down, down_since = memory or (0, 0.0, 0.0, 0.0, 0, 0.0, 0)
        if count < self.learn:  # Welford's way to mean and variance
            count += 1
            difference = item - mean
            mean += difference / count
            return (count, mean, squares + difference * (item - mean), 0.0, 0, 0.0, 0)
        deviation = math.sqrt(squares / (count - 1))
        distance = (item - mean) / deviation if deviation else math.copysign(math.inf, item - mean)
        if item == mean:
            distance = 0.0
        up_since, down_since = (time if not up else up_since), (time if not down else down_since)
        up, down = max(0.0, up + distance - self.drift), max(0.0, down - distance - self.drift)
        if up > self.threshold or down > self.threshold:
            risen = up > self.threshold
            found.append(Found("rise" if risen else "fall", up_since if risen else down_since, item))
            return None
        return (count, mean, squares, up, up_since, down, down_since)


@names_call
def change_point(column: str, threshold: float = 5.0, *, drift: float = 0.5, learn: int = 20) -> ChangePoint:
    """The level of a number has changed: Page's cumulative sums, in both directions.

    The first `learn` numbers of a key say what is usual: their mean and standard deviation. From then on the
    deviations from this mean are summed up, in standard deviations and each less `drift`. A sum never falls
    below 0. Once one is more than `threshold` the level has changed, and the key learns again. Findings are
    "rise" and "fall", since the record with which the sum began to rise; the value is that of the record
    that showed it. Raises ValueError for what does not fit.

    >>> change_point("celsius").threshold
    5.0
    """
    at_least(threshold, 0, "threshold")
    at_least(drift, 0, "drift")
    at_least(learn, 2, "learn")
    return ChangePoint(column, threshold, drift, learn)
