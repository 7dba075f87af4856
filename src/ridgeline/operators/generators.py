"""Made-up records: the columns that `EventGenerator` fills.

A value depends on a seed and the number of its record only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.support.duration import parse_duration
from ridgeline.api.times import to_times
from ridgeline.operators.random_event_generator import random_integers

_DIGITS = 2.0**-53
_OTHER = 0x2545F4914F6CDD1D
_LARGEST = 2**62


@dataclass(frozen=True)
class Integers:
    """See `integers`.

    Example:
        >>> integers(1, 6)
        Integers(minimum=1, maximum=6)
    """

    minimum: int
    maximum: int

    kind = pa.int64()

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        return pa.array(random_integers(seed, start, stop, self.minimum, self.maximum))


@dataclass(frozen=True)
class Uniform:
    """See `uniform`.

    Example:
        >>> uniform(0, 1)
        Uniform(low=0.0, high=1.0)
    """

    low: float
    high: float

    kind = pa.float64()

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        return pa.array(self.low + (self.high - self.low) * _shares(seed, start, stop))


@dataclass(frozen=True)
class Normal:
    """See `normal`.

    Example:
        >>> normal(100, 15)
        Normal(mean=100.0, deviation=15.0)
    """

    mean: float
    deviation: float

    kind = pa.float64()

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1 (Box and Muller, 1958)."""
        radius = np.sqrt(-2.0 * np.log1p(-_shares(seed, start, stop)))
        angle = 2.0 * math.pi * _shares(seed ^ _OTHER, start, stop)
        return pa.array(self.mean + self.deviation * radius * np.cos(angle))


@dataclass(frozen=True)
class Choice:
    """See `choice`.

    Example:
        >>> choice(["a", "b"]).options
        ('a', 'b')
    """

    options: tuple[Any, ...]
    shares: tuple[float, ...]

    @property
    def kind(self) -> pa.DataType:
        """The type of the options."""
        return pa.array(self.options).type

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        borders = np.cumsum(self.shares)
        places = np.searchsorted(borders, _shares(seed, start, stop) * borders[-1], "right")
        return pa.array(self.options).take(pa.array(places))


@dataclass(frozen=True)
class Numbered:
    """See `sequence`.

    Example:
        >>> sequence(1)
        Numbered(first=1, step=1)
    """

    first: int
    step: int

    kind = pa.int64()

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        return pa.array(self.first + self.step * np.arange(start, stop))


@dataclass(frozen=True)
class Times:
    """See `times`; in microseconds.

    Example:
        >>> times("2026-01-01", every="1s").every
        1000000
    """

    begin: int
    every: int
    late_by: int

    kind = pa.timestamp("us", "UTC")

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        found = self.begin + self.every * np.arange(start, stop)
        return pa.array(found - random_integers(seed, start, stop, 0, self.late_by)).cast(self.kind)


Column = Integers | Uniform | Normal | Choice | Numbered | Times
"""All kinds of columns."""


def _shares(seed: int, start: int, stop: int) -> npt.NDArray[np.float64]:
    """Floats from 0 to 1, exclusively."""
    return random_integers(seed, start, stop, 0, 2**53 - 1).astype(np.float64) * _DIGITS


def integers(minimum: int, maximum: int) -> Integers:
    """Random integers, both bounds included. Raises ValueError for bounds in the wrong order."""
    if not -_LARGEST <= minimum <= maximum <= _LARGEST:
        raise ValueError(
            f"`minimum` and `maximum` are integers in this order; got {minimum!r} and {maximum!r}"
        )
    return Integers(minimum, maximum)


def uniform(low: float, high: float) -> Uniform:
    """Random floats, each as likely as another. Raises ValueError for bounds in the wrong order."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"`low` and `high` are numbers in this order; got {low!r} and {high!r}")
    return Uniform(float(low), float(high))


def normal(mean: float, deviation: float) -> Normal:
    """Random floats of a normal distribution. Raises ValueError for a negative deviation."""
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0):
        raise ValueError(
            f"a normal distribution has a mean and a deviation of 0 or more; got {mean!r}, {deviation!r}"
        )
    return Normal(float(mean), float(deviation))


def choice(options: Sequence[Any], weights: Sequence[float] | None = None) -> Choice:
    """Values of a list, each as often as its weight says; without weights, as often as another.

    Raises ValueError without values, and for weights that do not fit.
    """
    weights = [1.0] * len(options) if weights is None else [float(weight) for weight in weights]
    if not options or len(weights) != len(options) or min(weights) < 0 or not 0 < sum(weights) < math.inf:
        raise ValueError(
            f"`choice` takes values, and a weight for each, 0 or more; got {options!r} and {weights!r}"
        )
    return Choice(tuple(options), tuple(weights))


def sequence(first: int = 0, step: int = 1) -> Numbered:
    """Numbers one after the other: 0, 1, 2."""
    return Numbered(first, step)


def times(begin: datetime | str, *, every: float | str, late_by: float | str = 0) -> Times:
    """Times of records: one `every` so often, each earlier by a random time up to `late_by`.

    `begin`: that of the first; without a zone UTC. Raises ValueError for what is no time or duration.
    """
    first = datetime.fromisoformat(begin) if isinstance(begin, str) else begin
    return Times(
        int(to_times([first])[0]),
        round(parse_duration(every) * 1_000_000),
        round(parse_duration(late_by) * 1_000_000),
    )
