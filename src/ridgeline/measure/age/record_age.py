"""Record end-to-end latency after KIP-613: how old records are when an operator is done with them.

An age is a clock's reading less the record's timestamp. How this differs from what Kafka Streams does:

- The clock is read after the work, once per batch (`sample`). Kafka read it before the work until
  KAFKA-14597, so that its sinks reported no processing time. Here a batch's early records are reported older
  than they were, by at most the batch's time; none is reported younger.
- Figures are of the last 60 to 61 seconds: intervals of one second, dropped as a whole. Kafka's samples of
  30 seconds reach back 60 to 90.
- After a minute without records there are no figures: None where Kafka says `NaN`. An idle operator has no
  age, not the age 0.
- Minimum, maximum and average are exact, and there are percentiles, which Kafka dropped for their memory: see
  `histogram`.
- State has an age per operator and batch, where Kafka has one per state store and `put`.
- An output has two ages: at `emit`, as in Kafka, and at `commit`, when a reader can see the record.
- Negative ages come from a clock behind STRAM's or a timestamp in the future. They are in minimum, average,
  percentiles and count as they are, as in Kafka. Here they are also counted apart.

A container's clock may be off, and only the driver knows the offset. Buckets of ages would not survive the
correction, since their error is relative to the uncorrected age. So buckets hold how much older a record is
than the youngest one of its sample. The age of that one is exact, so the error after the correction is still
relative to the age.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from ridgeline.api.times import NO_TIME, Microseconds
from ridgeline.measure.age.histogram import (
    TRANSPORT_BITS,
    Distribution,
    Histogram,
    Integers,
    Seconds,
    bucket,
    bucket_numbers,
    lower_bounds,
    lowest_bucket,
    values_of,
)
from ridgeline.measure.events import AgeSample
from ridgeline.measure.topology import Series, surplus

LEVELS: Mapping[str, str] = {
    "source": "INFO",
    "state": "TRACE",
    "emit": "INFO",
    "commit": "INFO",
    "publish": "INFO",
}
"""The places where ages are taken, in a record's order, and their recording levels in KIP-613."""
_ORDER = {place: number for number, place in enumerate(LEVELS)}
# fmt: off
AGE_BOUNDS_SECONDS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1800.0, 3600.0, 7200.0, 21600.0,
    86400.0,
)
# fmt: on
"""Upper bounds, inclusive, of the lifetime counts for Prometheus: 5 ms to a day."""
QUANTILES = (0.5, 0.9, 0.99, 0.999)
KIP_613_NAMES = {
    name: f"record-e2e-latency-{short}"
    for name, short in {"minimum": "min", "maximum": "max", "average": "avg"}.items()
}
"""The names of statistics that KIP-613 has; it has no percentiles."""

Buckets = tuple[tuple[int, int], ...]

_CHUNK = 8192  # records whose intermediate results stay in the cache
_FARTHEST = 1 << 61  # microseconds: 73,000 years from 1970
_NEAR = 1 << 50  # microseconds: 35 years
_PER_SECOND = 1_000_000
_LEAST_AHEAD = 1e-6


def place_order(place: str) -> int:
    """A key by which places are sorted, in the order in which records come to them."""
    return _ORDER.get(place, len(_ORDER))


# ------------------------------------------------------------------------------------------- in the container


def sample(
    place: str,
    newest_us: Sequence[Microseconds],
    oldest_us: Sequence[Microseconds] | None,
    now_seconds: float,
) -> AgeSample | None:
    """The ages of batches of records at one place, as of one clock read after the work.

    Args:
        place: `source`, `state`, `emit` or `commit`; for `commit`, `now_seconds` is the operator's end-window
            timestamp.
        newest_us: The records' timestamps, batch by batch: microseconds since 1970, `NO_TIME` for none.
        oldest_us: The timestamps of the oldest records that went into each; None if the records are no
            results of several.
        now_seconds: The clock's reading, seconds since 1970. It is rounded to microseconds; all else is exact
            until it is seconds again.

    Returns:
        The sample, or None if no record has a timestamp. Timestamps beyond the year 73,000 count as of that
        year.
    """
    batches, first, last = _known(newest_us)
    count = sum(times.size for times in batches)
    if not count:
        return None
    now = round(now_seconds * _PER_SECOND)
    oldest_maximum = now - first
    if oldest_us is not None:
        oldest, earliest, _ = _known(oldest_us)
        oldest_maximum = now - earliest if oldest else oldest_maximum
    base, ahead, negative = now - last, Buckets(), 0
    total = _total(batches, first, last) + count * base
    if base < 0:  # in the future by this clock: apart, so that they cost the others no precision
        ahead = _buckets([times[times > now] for times in batches], max(first, now + 1), last)
        batches = [times[times <= now] for times in batches]
        negative = count - sum(times.size for times in batches)
        base = now - max((int(times.max()) for times in batches if times.size), default=now)
    return AgeSample(
        place,
        count,
        negative,
        (now - last) / _PER_SECOND,
        (now - first) / _PER_SECOND,
        total / _PER_SECOND,
        oldest_maximum / _PER_SECOND,
        _buckets(batches, first, now - base),
        base=base / _PER_SECOND,
        ahead=ahead,
    )


def _known(batches: Sequence[Microseconds]) -> tuple[list[Microseconds], int, int]:
    """The batches with their known timestamps, the first and the last of all; zeros if none is known."""
    found: list[Microseconds] = []
    firsts, lasts = [], []
    for batch in batches:
        if not batch.size:
            continue
        times, first = batch, int(batch.min())
        if first == NO_TIME:
            times = batch[batch != NO_TIME]
            if not times.size:
                continue
            first = int(times.min())
        last = int(times.max())
        if first < -_FARTHEST or last > _FARTHEST:
            times = np.clip(times, -_FARTHEST, _FARTHEST)
            first, last = max(first, -_FARTHEST), min(last, _FARTHEST)
        found.append(times)
        firsts.append(max(-_FARTHEST, min(first, _FARTHEST)))
        lasts.append(max(-_FARTHEST, min(last, _FARTHEST)))
    return found, min(firsts, default=0), max(lasts, default=0)


def _buckets(batches: Sequence[Microseconds], first: int, last: int) -> Buckets:
    """The buckets of how much earlier than the last one times are. `first`: none is before it."""
    zero = lowest_bucket(TRANSPORT_BITS) - 1
    width = max(zero, bucket((last - first) * 1e-6, TRANSPORT_BITS)) - zero + 1
    counts = np.zeros(width, np.int64)
    for times in batches:
        if last - first < _NEAR and width > 1 and times.size and (times[1:] >= times[:-1]).all():
            counts += _counts_of_sorted(times, last, width)
        else:
            counts += _counts(times, last, width)
    used = np.flatnonzero(counts)
    if not used.size:
        return Buckets()
    names = (used + zero).tolist()
    if names[0] == zero:
        names[0] = 0
    return tuple(zip(names, counts[used].tolist(), strict=True))


def _counts(times: Microseconds, last: int, width: int) -> Microseconds:
    """How many times each of so many buckets has; those too near to the last one are in the first.

    In chunks, so that nothing leaves the cache.
    """
    zero = lowest_bucket(TRANSPORT_BITS) - 1
    counts = np.zeros(width, np.int64)
    for start in range(0, times.size, _CHUNK):
        earlier = last - times[start : start + _CHUNK]
        if width == 1:
            counts[0] += earlier.size
            continue
        numbers = _numbers(earlier)
        np.maximum(numbers, zero, out=numbers)
        numbers -= zero
        counts += np.bincount(numbers, minlength=width)
    return counts


def _counts_of_sorted(times: Microseconds, last: int, width: int) -> Microseconds:
    """As `_counts`, of times that never fall: a search for each bucket, in place of work for each time."""
    older = times.searchsorted(last - _least_of_buckets()[: width - 1], "right")
    return -np.diff(older, prepend=times.size, append=0)


@cache
def _least_of_buckets() -> Microseconds:
    """The least microseconds of each bucket, the lowest first, up to `_NEAR`."""
    lowest = lowest_bucket(TRANSPORT_BITS)
    numbers = np.arange(lowest, bucket(_NEAR * 1e-6, TRANSPORT_BITS) + 1)
    found = np.ceil(lower_bounds(numbers, TRANSPORT_BITS) * _PER_SECOND).astype(np.int64)
    # products of floats are rounded
    found -= _numbers(found - 1) >= numbers
    found += _numbers(found) < numbers
    return found


def _numbers(microseconds: Microseconds) -> Integers:
    """The bucket numbers of ages."""
    return bucket_numbers(np.multiply(microseconds, 1e-6, dtype=np.float64), TRANSPORT_BITS)


def _total(batches: Sequence[Microseconds], first: int, last: int) -> int:
    """The sum of how much earlier than the last one times are, in microseconds. `first`: the earliest."""
    total = 0
    for times in batches:
        if last - first < (1 << 63) // times.size:
            # the sum may overflow, the result does not
            total += (times.size * last - int(times.sum())) % (1 << 64)
            continue
        for start in range(0, times.size, _CHUNK):
            earlier = last - times[start : start + _CHUNK]
            total += (int((earlier >> 32).sum()) << 32) + int((earlier & 0xFFFFFFFF).sum())
    return total


def older(sample: AgeSample, seconds: float) -> AgeSample:
    """The same records, `seconds` later."""
    return replace(
        sample,
        minimum=sample.minimum + seconds,
        maximum=sample.maximum + seconds,
        total=sample.total + seconds * sample.count,
        oldest_maximum=sample.oldest_maximum + seconds,
        base=sample.base + seconds,
    )


def merged(first: AgeSample, second: AgeSample) -> AgeSample:
    """Two samples of one place, as of one moment, as one. Its buckets are off by 0.2 % more."""
    base = min(first.minimum, second.minimum)
    buckets = Histogram(TRANSPORT_BITS)
    for one in (first, second):
        values, counts = _values(one, 0.0)
        buckets.add(np.maximum(values - base, 0.0), counts)  # from the least on, be it negative
    exactly = Ages.joined((Ages.of(first, 0.0, 0), Ages.of(second, 0.0, 0)))
    return AgeSample(second.place, *exactly, buckets.buckets(), base=base)


# ------------------------------------------------------------------------------------------------ the fold


class Ages(NamedTuple):
    """The exact figures of ages, of a sample or of several together. As in `AgeSample`, in seconds."""

    records: int
    negative: int
    minimum: float
    maximum: float
    total: float
    oldest_maximum: float

    @classmethod
    def of(cls, sample: AgeSample, shift: float, negative: int) -> Ages:
        """Those of a sample, `shift` seconds later; so many are negative then."""
        found = older(sample, shift)
        exact = found.minimum, found.maximum, found.total, found.oldest_maximum
        return cls(found.count, negative, *exact)

    @classmethod
    def joined(cls, several: Iterable[Ages]) -> Ages:
        """Those of several together."""
        counts, negatives, least, greatest, sums, oldest = zip(*several, strict=True)
        exact = min(least), max(greatest), math.fsum(sums), max(oldest)
        return cls(sum(counts), sum(negatives), *exact)


@dataclass(frozen=True, slots=True)
class AgeFigures:
    """The record ages of one operator at one place over the last minute, in seconds; the first as `Ages`."""

    count: int
    negative: int
    minimum: float
    maximum: float
    total: float
    oldest_maximum: float
    average: float
    p50: float
    p90: float
    p99: float
    p999: float


class _Series:
    """The ages of one operator at one place."""

    def __init__(self) -> None:
        self.seconds: dict[int, tuple[Histogram, Ages]] = {}
        """By second, the ages of its records."""
        self.recent = Histogram()
        """Those of all these seconds."""
        self.counts = np.zeros(len(AGE_BOUNDS_SECONDS) + 1, np.int64)
        self.sum_seconds = 0.0

    def add(self, values: Seconds, counts: Integers, exactly: Ages, second: int) -> None:
        """Add ages, each as often as `counts` says, to those of `second`."""
        ages = Histogram()
        ages.add(values, counts)
        self._join(second, ages, exactly)
        # Negative ages count as 0, as in the counts: Prometheus takes a sum that falls for a restart.
        early = np.minimum(values, 0.0)
        self.sum_seconds += max(0.0, exactly.total - float((early * counts).sum()))
        np.add.at(self.counts, np.searchsorted(AGE_BOUNDS_SECONDS, values), counts)

    def _join(self, second: int, ages: Histogram, exactly: Ages) -> None:
        known = self.seconds.get(second)
        if known is None:
            own = Histogram()
        else:
            own, before = known
            exactly = Ages.joined((before, exactly))
        own.merge(ages)
        self.recent.merge(ages)
        self.seconds[second] = own, exactly

    def forget(self, second: int, seconds: int) -> None:
        """Drop what is further than `seconds` from now.

        These are older ones, and later ones that were made before a clock was set back.
        """
        for gone in [other for other in self.seconds if abs(second - other) > seconds]:
            ages, _ = self.seconds.pop(gone)
            self.recent.subtract(ages)


def _values(sample: AgeSample, shift: float) -> tuple[Seconds, Integers]:
    """The ages of a sample's buckets, all older by `shift`, and how many records each stands for."""
    values, counts = values_of(sample.buckets, TRANSPORT_BITS)
    values += sample.base + shift
    if sample.negative:
        ahead, ahead_counts = values_of(sample.ahead, TRANSPORT_BITS)
        ahead += sample.minimum + shift
        if shift <= 0:
            np.minimum(ahead, -_LEAST_AHEAD, out=ahead)
        values, counts = np.append(ahead, values), np.append(ahead_counts, counts)
    return values, counts


class RecordAges:
    """The record ages of all operators over the last `window_seconds`, and since the start.

    One thread at a time.

    Memory: per operator and place a histogram for each second that had records. They are twice as many for a
    while after the clock was set back. Their sum is kept, so figures cost the same however many windows there
    were.
    """

    def __init__(self, window_seconds: float = 60.0) -> None:
        self._seconds = math.ceil(window_seconds)
        self._series: dict[Series, dict[str, _Series]] = {}

    def add(
        self, series: Series, sample: AgeSample, at: float, shift_seconds: float = 0.0
    ) -> tuple[Seconds, Integers]:
        """Add a window's ages; `at` is STRAM's clock. Returns them, and how many records each stands for.

        `shift_seconds`: all are older by it, exactly. Before the commit it is the offset of the host whose
        clock they were taken with (`ClockOffsets.offset`). From the commit on it is the
        time of the commit, or of the publication, by STRAM's clock less the end-window timestamp by the
        host's. That clock is in the ages too. So they become those of STRAM's clock.
        """
        if sample.count < 1:
            return np.zeros(0), np.zeros(0, np.int64)
        values, counts = _values(sample, shift_seconds)
        exactly = Ages.of(sample, shift_seconds, int(counts[values < 0].sum()))
        own = self._series.setdefault(series, {}).setdefault(sample.place, _Series())
        second = math.floor(at)
        own.add(values, counts, exactly, second)
        own.forget(second, self._seconds)
        return values, counts

    def figures(self, series: Series, place: str, now: float) -> AgeFigures | None:
        """The figures of the last minute as of `now` on STRAM's clock; None if it had no records.

        No percentile and no average is outside of minimum and maximum. Samples that are too old are
        forgotten.
        """
        own = self._series.get(series, {}).get(place)
        if own is None:
            return None
        own.forget(math.floor(now), self._seconds)
        if not own.seconds:
            return None
        found = Ages.joined(exactly for _, exactly in own.seconds.values())
        within = (
            min(max(value or 0.0, found.minimum), found.maximum)
            for value in (found.total / found.records, *own.recent.quantiles(QUANTILES))
        )
        return AgeFigures(*found, *within)

    def planned(self, present: Container[Series]) -> None:
        """Replace the plan: bound what is kept of operators that it has not."""
        for gone in surplus(self._series, present):
            del self._series[gone]

    def places(self, series: Series) -> tuple[str, ...]:
        """The places at which an operator has ever had ages, in a record's order."""
        known = self._series.get(series, {})
        return tuple(place for place in LEVELS if place in known)

    def totals(self, series: Series, place: str) -> Distribution | None:
        """All ages since the start, by `AGE_BOUNDS_SECONDS`; None if there were none.

        By the buckets of the samples, so an age within 0.2 % of a bound may be on its other side. Negative
        ages are below every bound, and count as 0 in the sum.
        """
        own = self._series.get(series, {}).get(place)
        if own is None:
            return None
        return Distribution(tuple(np.cumsum(own.counts).tolist()), own.sum_seconds)
