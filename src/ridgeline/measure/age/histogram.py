"""A histogram of seconds that can be merged, with a bounded relative error.

The buckets are those of HDR histograms. Each octave is cut into `2 ** bits` equal parts. So a bucket's number
is the bit pattern of the float64 without its lower mantissa bits. Merging adds counts (DDSketch), so
percentiles are always taken after the merge, never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

BITS = 6
"""64 buckets per octave: a bucket's midpoint is at most 0.79 % off."""
TRANSPORT_BITS = 8
"""256 buckets per octave, at most 0.2 % off.

Reports hold these; `BITS` buckets made of them after a shift stay within 1 %.
"""
SMALLEST_SECONDS = 1e-4
"""Smaller values are counted in the zero bucket and read as 0: an absolute error of at most 0.1 ms."""

Integers = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float64]

_MANTISSA = 52


def bucket(seconds: float, bits: int) -> int:
    """The number of the bucket of one non-negative value; 0 is the zero bucket."""
    number = int(np.float64(seconds).view(np.int64)) >> (_MANTISSA - bits)
    return number if number >= lowest_bucket(bits) else 0


def lowest_bucket(bits: int) -> int:
    """The number of the bucket above the zero bucket, the one of `SMALLEST_SECONDS`."""
    return int(np.float64(SMALLEST_SECONDS).view(np.int64)) >> (_MANTISSA - bits)


def bucket_numbers(seconds: Seconds, bits: int) -> Integers:
    """The bucket numbers of contiguous non-negative values.

    Values below `lowest_bucket` belong to the zero bucket.
    """
    return seconds.view(np.int64) >> (_MANTISSA - bits)


def lower_bounds(numbers: Integers, bits: int) -> Seconds:
    """The least values of buckets by their numbers, which are above the zero bucket."""
    return (numbers << (_MANTISSA - bits)).view(np.float64)


def nearest_rank(quantile: float, count: int) -> int:
    """The rank, from 1, of a quantile among `count` values, by the nearest-rank definition.

    It is the least rank that is not below `quantile * count`.

    The product is rounded to a millionth, so that 0.07 of 100 values is the seventh and not, by the error of
    0.07, the eighth.
    """
    return min(max(1, math.ceil(round(quantile * count, 6))), count)


def values_of(buckets: Iterable[tuple[int, int]], bits: int) -> tuple[Seconds, Integers]:
    """The midpoints of buckets in seconds, and their counts. `buckets`: as `Histogram.buckets`."""
    table = np.fromiter(chain.from_iterable(buckets), np.int64).reshape(-1, 2)
    numbers = table[:, 0]
    return np.where(numbers > 0, midpoints(numbers, bits), 0.0), table[:, 1].copy()


def midpoints(numbers: Integers, bits: int) -> Seconds:
    """Those of buckets by their numbers, which are above the zero bucket."""
    return ((2 * numbers + 1) << (_MANTISSA - 1 - bits)).view(np.float64)


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of a histogram of a metrics system.

    `counts`: up to each of the metric's bounds, cumulative, and last all of them. `total`: their sum.
    """

    counts: tuple[int, ...]
    total: float


class Histogram:
    """A log-bucketed histogram of seconds.

    A quantile is off by at most 0.79 % of the nearest-rank value (with `BITS`), or 0.1 ms below
    `SMALLEST_SECONDS`. Buckets that hold something are kept, ascending: 16 bytes each, 64 for values within a
    factor of two. Those of negative values have the negative numbers of their opposites.
    The result depends only on the values, not on the order in which they were added or merged.
    """

    __slots__ = ("_below", "bits", "counts", "numbers")

    def __init__(self, bits: int = BITS) -> None:
        self.bits = bits
        self._below = lowest_bucket(bits) - 1
        self.numbers: Integers = np.zeros(0, np.int64)
        """Of buckets that hold something, ascending, counted from the zero bucket."""
        self.counts: Integers = np.zeros(0, np.int64)

    @property
    def count(self) -> int:
        """How many values were added."""
        return int(self.counts.sum())

    def add(self, values: npt.ArrayLike, counts: Integers | None = None) -> None:
        """Add an array of seconds, each once or as often as `counts` says.

        Raises:
            ValueError: If a value is infinite or no number; then none is added.
        """
        seconds = np.ascontiguousarray(values, np.float64).ravel()
        if not np.isfinite(seconds).all():
            raise ValueError(f"a histogram takes finite seconds; got {seconds[~np.isfinite(seconds)][0]}")
        numbers = np.maximum(bucket_numbers(np.abs(seconds), self.bits) - self._below, 0)
        self._add(np.copysign(numbers, seconds).astype(np.int64), counts)

    def merge(self, other: Histogram) -> None:
        """Add all that another histogram of the same `bits` holds; the other stays as it is."""
        self._add(other.numbers, other.counts)

    def subtract(self, other: Histogram) -> None:
        """Take out a histogram that was merged before; the result is as if it never was."""
        self._add(other.numbers, -other.counts)

    def quantiles(self, quantiles: Sequence[float]) -> tuple[float | None, ...]:
        """The nearest-rank quantiles in seconds, in the order asked for; None of an empty histogram.

        They are midpoints of buckets.
        """
        count = self.count
        ranks = [nearest_rank(quantile, count) for quantile in quantiles]
        if not count:
            return (None,) * len(ranks)
        found = self.numbers[np.searchsorted(np.cumsum(self.counts), ranks)]
        seconds = np.where(found == 0, 0.0, midpoints(np.abs(found) + self._below, self.bits))
        return tuple(np.copysign(seconds, found).tolist())

    def buckets(self) -> tuple[tuple[int, int], ...]:
        """(number, count) of every bucket that holds something, ascending; 0 is the zero bucket.

        Of a histogram without negative values.
        """
        names = np.where(self.numbers > 0, self.numbers + self._below, 0)
        return tuple(zip(names.tolist(), self.counts.tolist(), strict=True))

    def _add(self, numbers: Integers, counts: Integers | None) -> None:
        """Add values by the numbers of their buckets, counted from the zero bucket."""
        if not numbers.size:
            return
        least, most = int(numbers.min()), int(numbers.max())
        if self.numbers.size:
            least, most = min(least, int(self.numbers[0])), max(most, int(self.numbers[-1]))
        dense = np.bincount(numbers - least, counts, most + 1 - least).astype(np.int64)  # exact up to 2**53
        dense[self.numbers - least] += self.counts
        used = np.flatnonzero(dense)
        self.numbers, self.counts = used + least, dense[used]
