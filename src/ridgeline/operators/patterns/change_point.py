"""A level that has changed for good, and numbers that are far from those before them."""

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


@dataclass(frozen=True)
class ZScore(NumberPattern):
    """See `zscore`."""

    limit: float
    count: int
    least: int

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory has the newest numbers."""
        values = memory or ()
        if len(values) >= self.least:
            mean = math.fsum(values) / len(values)
            deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
            if abs(item - mean) > self.limit * deviation:
                found.append(Found("anomaly", time, item))
        return (*values, item)[-self.count :]


@dataclass(frozen=True)
class Ewma(NumberPattern):
    """See `ewma`."""

    limit: float
    alpha: float
    least: int

    def step(self, memory: Any, time: int, item: Any, found: list[Found]) -> Any:
        """The memory is the number of records, mean and variance."""
        if memory is None:
            return (1, item, 0.0)
        count, mean, variance = memory
        difference = item - mean
        if count >= self.least and abs(difference) > self.limit * math.sqrt(variance):
            found.append(Found("anomaly", time, item))
        moved = self.alpha * difference
        return (count + 1, mean + moved, (1 - self.alpha) * (variance + difference * moved))


@names_call
def zscore(column: str, limit: float = 3.0, *, count: int = 100, least: int = 10) -> ZScore:
    """A number is more than `limit` standard deviations from the mean of the newest `count` before it.

    Nothing is found before there were `least` numbers. The deviation is that of a sample. The finding is
    "anomaly", since the record; its value is the number. Raises ValueError for what does not fit.

    >>> zscore("celsius").limit
    3.0
    """
    at_least(limit, 0, "limit")
    at_least(least, 2, "least")
    at_least(count, least, "count")
    return ZScore(column, limit, count, least)


@names_call
def ewma(column: str, limit: float = 3.0, *, alpha: float = 0.1, least: int = 10) -> Ewma:
    """A number is more than `limit` standard deviations from an exponentially weighted mean of those before.

    `alpha`: the weight of the newest number; those before have the rest, as in a control chart. Mean and
    variance are as pandas' `ewm(alpha=alpha, adjust=False)` has them, with `bias=True`. Nothing is found
    before there were `least` numbers. The finding is "anomaly", since the record; its value is the number.
    Raises ValueError for what does not fit.

    >>> ewma("celsius", alpha=0.2).alpha
    0.2
    """
    at_least(limit, 0, "limit")
    at_least(least, 1, "least")
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must be between 0 and 1; got {alpha!r}")
    return Ewma(column, limit, alpha, least)
