"""A histogram of seconds that can be merged, with a bounded relative error and a bounded size.

The buckets are those of HDR histograms. Each octave is cut into `2 ** bits` equal parts. So a bucket's number
is the bit pattern of the float64 without its lower mantissa bits. Merging adds counts (DDSketch), so
percentiles are always taken after the merge, never averaged.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
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
_MOST_BITS = 16
_OCTAVES = 60
_WIDTHS = tuple(
    (width, np.dtype(width).itemsize, int(np.iinfo(width).max)) for width in (np.uint16, np.uint32, np.int64)
)
_NARROWEST_BYTES, _MOST = _WIDTHS[0][1], _WIDTHS[-1][2]


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
    0.07, the eighth. Raises ValueError unless 0 <= `quantile` <= 1.
    """
    if not 0.0 <= quantile <= 1.0:
        raise ValueError(
            f"a quantile must lie between 0 and 1; got {quantile}; did you mean {quantile / 100}?"
        )
    return min(max(1, math.ceil(round(quantile * count, 6))), count)


class Histogram:
    """A log-bucketed histogram of non-negative seconds.

    A quantile is off by at most 0.79 % of the nearest-rank value (with `BITS`), or 0.1 ms below
    `SMALLEST_SECONDS`. At `BITS` it takes at most 8 KiB; each further bit doubles that.

    Counts lie in one array from the lowest used bucket to the highest: 16 bits wide as long as they fit, then
    32, then 64. The array has 60, 30 or 15 octaves at most, counted from the highest value down. Lower values
    go into the lowest bucket that is kept (as in DDSketch). Quantiles at the very low end are then too high,
    all others stay right. 60 octaves are more than 0.1 ms to a million years; 30 octaves below 26 years end
    at 0.8 s. The result depends only on the values, not on the order in which they were added or merged.
    """

    __slots__ = ("_base", "_counts", "_zero", "bits", "count")

    def __init__(self, bits: int = BITS) -> None:
        if not 1 <= bits <= _MOST_BITS:
            raise ValueError(f"`bits` must lie between 1 and {_MOST_BITS}; got {bits}; did you mean {BITS}?")
        self.bits = bits
        self.count = 0
        """How many values were added."""
        self._zero = 0
        self._base = 0
        self._counts: npt.NDArray[np.uint16 | np.uint32 | np.int64] = np.zeros(0, np.uint16)

    @classmethod
    def of_buckets(cls, pairs: Iterable[tuple[int, int]], bits: int = BITS) -> Histogram:
        """The histogram that gave these `buckets()`.

        Raises:
            ValueError: If a number is of no bucket, or a count is below 1.
        """
        made = cls(bits)
        table = np.fromiter(chain.from_iterable(pairs), np.int64).reshape(-1, 2)
        numbers, counts = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
        known = (numbers == 0) | (
            (numbers >= lowest_bucket(bits)) & (numbers <= bucket(sys.float_info.max, bits))
        )
        if not (known & (counts > 0)).all():
            number, count = table[~(known & (counts > 0))][0].tolist()
            raise ValueError(
                f"a bucket of {bits} bits must be 0 or above {lowest_bucket(bits) - 1}, and hold "
                f"something; got ({number}, {count})"
            )
        made._count(numbers, counts)
        return made

    def add(self, values: npt.ArrayLike, counts: Integers | None = None) -> None:
        """Add an array of seconds, each once or as often as `counts` says.

        Raises:
            ValueError: If a value is negative, infinite or no number; then none is added.
        """
        seconds = np.ascontiguousarray(values, np.float64).ravel()
        if not seconds.size:
            return
        least, most = float(seconds.min()), float(seconds.max())
        if not (least >= 0.0 and most < math.inf):
            raise ValueError(f"a histogram takes finite seconds from 0 on; got values from {least} to {most}")
        self._count(bucket_numbers(seconds, self.bits), counts)

    def merge(self, other: Histogram) -> None:
        """Add all that another histogram holds; the other stays as it is.

        Raises:
            ValueError: If the other has other `bits`.
        """
        if other.bits != self.bits:
            raise ValueError(
                f"histograms of {self.bits} and {other.bits} bits do not merge; make both with the same "
                "`bits`"
            )
        self._grow(other.count)
        self._zero += other._zero
        if other._counts.size:
            self._join(other._base, other._counts)

    def __add__(self, other: Histogram) -> Histogram:
        both = self.copy()
        both.merge(other)
        return both

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.bits == other.bits and self.buckets() == other.buckets()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def copy(self) -> Histogram:
        """Another one that holds the same."""
        made = Histogram(self.bits)
        made.count, made._zero, made._base, made._counts = self.count, self._zero, self._base, self._counts
        return made  # `_counts` is replaced, never written to

    @property
    def full(self) -> bool:
        """True if its range is as wide as allowed.

        Low buckets may have been collapsed then, so `subtract` is not allowed.
        """
        return self._counts.size == self._kept(self._counts.itemsize)

    def subtract(self, other: Histogram) -> None:
        """Subtract a histogram that was merged before; the result is as if it never was.

        Only for a histogram that is not, and was not since, `full`.

        Raises:
            ValueError: If it is `full`, or does not contain `other`.
        """
        start = other._base - self._base if other._counts.size else 0
        rest = self._counts.astype(np.int64)
        part = rest[max(0, start) : max(0, start) + other._counts.size]
        if (
            self.full
            or start < 0
            or other._zero > self._zero
            or part.size < other._counts.size
            or (part < other._counts).any()
        ):
            raise ValueError(
                "only what was merged can be subtracted, and only from a histogram that is not full"
            )
        part -= other._counts
        self._zero -= other._zero
        self.count -= other.count
        used = np.flatnonzero(rest)
        if used.size:
            first, last = int(used[0]), int(used[-1])
            self._fit(self._base + first, rest[first : last + 1])
        else:
            self._base, self._counts = 0, np.zeros(0, np.uint16)

    def quantile(self, quantile: float) -> float | None:
        """The nearest-rank quantile in seconds, None of an empty histogram.

        Raises ValueError unless 0 <= `quantile` <= 1.
        """
        return self.quantiles((quantile,))[0]

    def quantiles(self, quantiles: Sequence[float]) -> tuple[float | None, ...]:
        """Several quantiles at once, in the order asked for. None and ValueError as `quantile`."""
        ranks = [nearest_rank(quantile, self.count) for quantile in quantiles]
        return self.at_ranks(ranks) if self.count else (None,) * len(ranks)

    def at_ranks(self, ranks: Sequence[int]) -> tuple[float, ...]:
        """The values at ranks of the sorted values, from 1 to `count`, in seconds: midpoints of buckets."""
        reached = np.cumsum(self._counts, dtype=np.int64) + self._zero
        found = self._midpoints(np.searchsorted(reached, ranks) + self._base).tolist()
        return tuple(0.0 if rank <= self._zero else value for rank, value in zip(ranks, found, strict=True))

    def buckets(self) -> tuple[tuple[int, int], ...]:
        """(number, count) of every bucket that is not empty, ascending; number 0 is the zero bucket."""
        used = np.flatnonzero(self._counts)
        pairs = tuple(zip((used + self._base).tolist(), self._counts[used].tolist(), strict=True))
        return ((0, self._zero), *pairs) if self._zero else pairs

    def values(self) -> tuple[Seconds, Integers]:
        """The midpoints of the buckets that are not empty, in seconds, and their counts.

        The midpoint of the zero bucket is 0.
        """
        used = np.flatnonzero(self._counts)
        midpoints, counts = self._midpoints(used + self._base), self._counts[used].astype(np.int64)
        if self._zero:
            midpoints, counts = np.insert(midpoints, 0, 0.0), np.insert(counts, 0, self._zero)
        return midpoints, counts

    @property
    def size_bytes(self) -> int:
        """The memory that it takes, Python's overhead included."""
        return sum(map(sys.getsizeof, (self, self._counts, self._zero, self._base, self.count)))

    def _kept(self, width_bytes: int) -> int:
        """How many buckets with counts of that width may be kept."""
        return (_OCTAVES << self.bits) * 2 // width_bytes

    def _midpoints(self, numbers: Integers) -> Seconds:
        return ((2 * numbers + 1) << (_MANTISSA - 1 - self.bits)).view(np.float64)

    def _grow(self, count: int) -> None:
        if self.count + count > _MOST:
            raise OverflowError(
                f"a histogram holds at most 2**63 - 1 values; got {self.count} and {count} more"
            )
        self.count += count

    def _count(self, numbers: Integers, counts: Integers | None) -> None:
        """Add values by the numbers of their buckets."""
        every = numbers.size if counts is None else sum(counts.tolist())
        self._grow(every)
        above = numbers >= lowest_bucket(self.bits)
        if not above.all():
            numbers, counts = numbers[above], None if counts is None else counts[above]
            self._zero += every - (numbers.size if counts is None else int(counts.sum()))
        if not numbers.size:
            return
        base = max(int(numbers.min()), int(numbers.max()) + 1 - self._kept(_NARROWEST_BYTES))
        places = np.maximum(numbers, base) - base
        if counts is None:
            added = np.bincount(places)
        else:
            added = np.zeros(int(places.max()) + 1, np.int64)
            np.add.at(added, places, counts)
        self._join(base, added)

    def _join(self, base: int, counts: npt.NDArray[np.integer]) -> None:
        """Add an array of counts whose first is of bucket `base`."""
        parts = [(base, counts)]
        if self._counts.size:
            parts.append((self._base, self._counts))
        above = max(start + part.size for start, part in parts)
        low = max(min(start for start, _ in parts), above - self._kept(_NARROWEST_BYTES))
        joined = np.zeros(above - low, np.int64)
        for start, part in parts:
            cut = max(0, low - start)
            joined[0] += int(part[:cut].sum())
            rest = part[cut:]
            joined[start + cut - low : start + cut - low + rest.size] += rest
        self._fit(low, joined)

    def _fit(self, base: int, counts: Integers) -> None:
        """Keep counts in the narrowest integers that hold them, and as many buckets as these allow.

        A value that was collapsed at some moment would be collapsed into the same bucket at the end. The
        highest bucket and the width of the counts only rise, so the lowest bucket that is kept only rises
        too. That is why order does not matter.
        """
        for width, width_bytes, most in _WIDTHS:
            cut = counts.size - self._kept(width_bytes)
            if cut > 0:
                lowest = counts[: cut + 1].sum()
                counts, base = counts[cut:].copy(), base + cut
                counts[0] = lowest
            if int(counts.max()) <= most:
                self._base, self._counts = base, counts.astype(width)
                return
