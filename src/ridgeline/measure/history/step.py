"""A step of the history: the windows of a second, of ten, or of a minute, added up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint16]

_UNKNOWN, _NOTHING, _FIRST, _LAST = 0, 1, 2, 65_535
_PER_OCTAVE = 1024  # so a figure is off by 0.034 % at most
_LEAST_OCTAVE = -20  # the least figure is a microsecond, the greatest some 10 ** 13


def encode(figures: Floats) -> Codes:
    """The codes of figures that are not negative; NaN: not known.

    Figures below a microsecond (or a millionth) become 0, as negative ones do. Those that are too large
    become the greatest.

    >>> decode(encode(np.array([0.0, 1.0, 250.0, np.nan]))).round(1).tolist()
    [0.0, 1.0, 250.0, nan]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.round((np.log2(figures) - _LEAST_OCTAVE) * _PER_OCTAVE) + _FIRST
    small = np.isnan(numbers) | (numbers < _FIRST)
    codes = np.where(small, _NOTHING, np.minimum(np.where(small, _FIRST, numbers), _LAST))
    return np.where(np.isnan(figures), _UNKNOWN, codes).astype(np.uint16)


def decode(codes: Codes) -> Floats:
    """The figures of codes; NaN: not known."""
    figures = np.exp2((codes.astype(np.float64) - _FIRST) / _PER_OCTAVE + _LEAST_OCTAVE)
    return np.where(codes == _UNKNOWN, math.nan, np.where(codes == _NOTHING, 0.0, figures))


_MOST_SAMPLES = 64
"""Of so many windows of a step the latencies are kept one by one, for medians."""
_MOST_WHOLE = 1024
"""The same of the application's windows, for percentiles."""
PLACES = ("source", "state", "emit", "commit", "publish")
"""Where ages are taken, in a record's order."""


Value = TypeVar("Value")


class Sum:
    """The rows of the sums of a step over its windows, by logical operator."""

    COMPUTE, WAIT, TRANSFER, TUPLES_IN, TUPLES_OUT, QUEUE, ERRORS, LATE, STATE, ON_PATH, WINDOWS = range(11)
    COUNT = 11


class Kept:
    """The rows of what a step keeps of each logical operator. Durations in seconds, rates a second."""

    MEDIAN, GREATEST, COMPUTE, WAIT, TRANSFER, TUPLES_IN, TUPLES_OUT, QUEUE, MOST_QUEUED = range(9)
    ERRORS, LATE, STATE, ON_PATH, AGE, GREATEST_AGE = range(9, 15)
    COUNT = 15


@dataclass(slots=True)
class Ages:
    """The ages of an operator's records in a step, in seconds. `place`: a number in `PLACES`."""

    place: int
    count: int = 0
    total: float = 0.0
    greatest: float = -math.inf

    def add(self, count: int, total: float, greatest: float) -> None:
        """Add records."""
        self.count += count
        self.total += total
        self.greatest = max(self.greatest, greatest)


@dataclass(slots=True)
class Sampled(Generic[Value]):
    """Values of windows that are evenly apart: every so many, and not more than `most`."""

    most: int
    values: list[Value] = field(default_factory=list)
    every: int = 1
    seen: int = 0

    def add(self, values: Value) -> None:
        """Take the values of a window in."""
        if self.seen % self.every == 0:
            if len(self.values) == self.most:
                self.values = self.values[::2]
                self.every *= 2
            if self.seen % self.every == 0:
                self.values.append(values)
        self.seen += 1


@dataclass(frozen=True, slots=True)
class Whole:
    """The application in a step. Durations in seconds, tuples a second; None: not known."""

    median: float
    p99: float
    greatest: float
    late: float
    tuples_in: float
    tuples_out: float


@dataclass(frozen=True, slots=True)
class Step:
    """A step that is over. `codes`: `Kept` by logical operator; `index`: which column each name has.

    `at`: when the last of its windows was committed. `seconds`: the time that they are over. `outputs`: the
    names of operators at which tuples leave the application.
    """

    at: float
    seconds: float
    windows: int
    whole: Whole
    index: Mapping[str, int]
    outputs: Sequence[str]
    codes: Codes


class OpenStep:
    """A step that windows are added to. `begin`, `end`: its time on STRAM's clock; `names`: its operators."""

    def __init__(self, begin: float, end: float, operators: int) -> None:
        self.begin, self.end = begin, end
        self.at = 0.0
        self.seconds = 0.0
        self.windows = 0
        self.sums = np.zeros((Sum.COUNT, operators))
        self.greatest = np.full(operators, np.nan)
        self.queued = np.zeros(operators)
        self.latencies = Sampled[npt.NDArray[np.float32]](_MOST_SAMPLES)
        self.whole = Sampled[float](_MOST_WHOLE)
        self.longest = 0.0
        self.late = 0.0
        self.entered = 0.0
        self.left = 0.0
        self.ages: dict[int, Ages] = {}

    def merge(self, other: OpenStep) -> None:
        """Add the sums of a shorter step; the samples have been taken from its windows."""
        self.at = other.at
        self.seconds += other.seconds
        self.windows += other.windows
        self.sums += other.sums
        self.greatest = np.fmax(self.greatest, other.greatest)
        self.queued = np.maximum(self.queued, other.queued)
        self.longest = max(self.longest, other.longest)
        self.late += other.late
        self.entered += other.entered
        self.left += other.left
        for number, ages in other.ages.items():
            self.age(number, ages)

    def with_windows_of(self, other: OpenStep) -> OpenStep:
        """A copy that has the sums of a shorter step as well."""
        found = copy(self)
        found.sums, found.ages = self.sums.copy(), {number: copy(ages) for number, ages in self.ages.items()}
        found.merge(other)
        return found

    def age(self, number: int, ages: Ages) -> None:
        """Add ages of an operator. Of two places the later one of a record counts alone."""
        known = self.ages.get(number)
        if known is None or known.place < ages.place:
            known = self.ages[number] = Ages(ages.place)
        if known.place == ages.place:
            known.add(ages.count, ages.total, ages.greatest)

    def closed(self, index: Mapping[str, int], outputs: Sequence[str]) -> Step:
        """The step as it is kept."""
        seconds = max(self.seconds, 1e-3)
        reported = self.sums[Sum.WINDOWS]
        kept = np.full((Kept.COUNT, len(reported)), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = self.sums / reported
        kept[Kept.MEDIAN] = _median(self.latencies.values, len(reported))
        kept[Kept.GREATEST] = self.greatest
        kept[Kept.COMPUTE : Kept.TRANSFER + 1] = means[Sum.COMPUTE : Sum.TRANSFER + 1]
        kept[Kept.TUPLES_IN : Kept.TUPLES_OUT + 1] = self.sums[Sum.TUPLES_IN : Sum.TUPLES_OUT + 1] / seconds
        kept[Kept.QUEUE] = means[Sum.QUEUE]
        kept[Kept.MOST_QUEUED] = self.queued
        kept[Kept.ERRORS : Kept.LATE + 1] = self.sums[Sum.ERRORS : Sum.LATE + 1]
        kept[Kept.STATE] = means[Sum.STATE]
        kept[Kept.ON_PATH] = self.sums[Sum.ON_PATH] / max(1, self.windows)
        kept[:, reported == 0] = np.nan
        for number, ages in self.ages.items():
            kept[Kept.AGE, number] = ages.total / max(1, ages.count)
            kept[Kept.GREATEST_AGE, number] = ages.greatest
        return Step(self.at, seconds, self.windows, self._whole(seconds), index, outputs, encode(kept))

    def _whole(self, seconds: float) -> Whole:
        ordered = sorted(self.whole.values)
        return Whole(
            _quantile(ordered, 0.5),
            _quantile(ordered, 0.99),
            self.longest,
            self.late / max(1, self.windows),
            self.entered / seconds,
            self.left / seconds,
        )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of numbers in order, between two of them as numpy has it."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _median(rows: Sequence[npt.NDArray[np.float32]], operators: int) -> Floats:
    """The median of each operator over windows; NaN where it reported in none."""
    if len(rows) == 1:
        return rows[0].astype(np.float64)
    found = np.sort(np.array(rows), axis=0)  # NaN is last
    known = np.count_nonzero(~np.isnan(found), axis=0)
    last = np.maximum(known - 1, 0)
    columns = np.arange(operators)
    low, high = found[last // 2, columns], found[(last + 1) // 2, columns]
    return ((low + high) / 2).astype(np.float64)
