"""Made-up records: the columns that `EventGenerator` fills.

A value depends on a seed and the number of its record only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ridgeline.api.codec import mix
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.times import to_times

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_DIGITS = 2.0**-53
_OTHER = 0x2545F4914F6CDD1D
_LARGEST = 2**62


@dataclass(frozen=True, eq=False)
class Column:
    """A column of made-up values, as `integers`, `choice` and others return it.

    `values(seed, start, stop)` gives those of the records `start` to `stop` - 1.

    Example:
        >>> sequence(1).values(0, 0, 3).to_pylist()
        [1, 2, 3]
    """

    kind: pa.DataType
    make: Callable[[int, int, int], Any]

    def values(self, seed: int, start: int, stop: int) -> pa.Array:
        """The values of the records `start` to `stop` - 1."""
        return pa.array(self.make(seed, start, stop)).cast(self.kind)


def _random(minimum: int, maximum: int, seed: int, start: int, stop: int) -> npt.NDArray[np.int64]:
    """The random integers with the numbers `start` to `stop` - 1 of a seed, both bounds included.

    Number i is a hash of seed and i, modulo the size of the range. The hash is SplitMix64 (Steele, Lea and
    Flood, OOPSLA 2014), advanced to its i-th value. The bias is less than size / 2^64. So each number can be
    computed without those before it.
    """
    values = mix(np.arange(start, stop, dtype=np.uint64) * _GAMMA + np.uint64(seed % 2**64))
    return (values % np.uint64(maximum - minimum + 1)).astype(np.int64) + np.int64(minimum)


def _shares(seed: int, start: int, stop: int) -> npt.NDArray[np.float64]:
    """Floats from 0 to 1, exclusively."""
    return _random(0, 2**53 - 1, seed, start, stop).astype(np.float64) * _DIGITS


def integers(minimum: int, maximum: int) -> Column:
    """Random integers, both bounds included. Raises ValueError for bounds in the wrong order."""
    if not -_LARGEST <= minimum <= maximum <= _LARGEST:
        raise ValueError(
            f"`minimum` and `maximum` are integers in this order; got {minimum!r} and {maximum!r}"
        )
    return Column(pa.int64(), lambda *numbers: _random(minimum, maximum, *numbers))


def uniform(low: float, high: float) -> Column:
    """Random floats, each as likely as another. Raises ValueError for bounds in the wrong order."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"`low` and `high` are numbers in this order; got {low!r} and {high!r}")
    return Column(pa.float64(), lambda *numbers: low + (high - low) * _shares(*numbers))


def normal(mean: float, deviation: float) -> Column:
    """Random floats of a normal distribution (Box and Muller, 1958).

    Raises ValueError for a negative deviation.
    """
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0):
        raise ValueError(
            f"a normal distribution has a mean and a deviation of 0 or more; got {mean!r}, {deviation!r}"
        )

    def make(seed: int, start: int, stop: int) -> npt.NDArray[np.float64]:
        radius = np.sqrt(-2.0 * np.log1p(-_shares(seed, start, stop)))
        angle = 2.0 * math.pi * _shares(seed ^ _OTHER, start, stop)
        return mean + deviation * radius * np.cos(angle)

    return Column(pa.float64(), make)


def choice(options: Sequence[Any], weights: Sequence[float] | None = None) -> Column:
    """Values of a list, each as often as its weight says; without weights, as often as another.

    Raises ValueError without values, and for weights that do not fit.
    """
    weights = [1.0] * len(options) if weights is None else weights
    if not options or len(weights) != len(options) or min(weights) < 0 or not 0 < sum(weights) < math.inf:
        raise ValueError(
            f"`choice` takes values, and a weight for each, 0 or more; got {options!r} and {weights!r}"
        )
    every, borders = pa.array(options), np.cumsum(weights, dtype=np.float64)

    def make(*numbers: int) -> pa.Array:
        return every.take(pa.array(np.searchsorted(borders, _shares(*numbers) * borders[-1], "right")))

    return Column(every.type, make)


def sequence(first: int = 0, step: int = 1) -> Column:
    """Numbers one after the other: 0, 1, 2."""
    return Column(pa.int64(), lambda _, start, stop: first + step * np.arange(start, stop))


def times(begin: datetime | str, *, every: float | str, late_by: float | str = 0) -> Column:
    """Times of records: one `every` so often, each earlier by a random time up to `late_by`.

    `begin`: that of the first; without a zone UTC. Raises ValueError for what is no time or duration.
    """
    first = int(to_times([datetime.fromisoformat(begin) if isinstance(begin, str) else begin])[0])
    step, most = (round(parse_duration(one) * 1_000_000) for one in (every, late_by))

    def make(seed: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        return first + step * np.arange(start, stop) - _random(0, most, seed, start, stop)

    return Column(pa.timestamp("us", "UTC"), make)
