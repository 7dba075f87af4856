"""A step of the history: the windows of a second, of ten, or of a minute, added up."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, MutableSequence, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ridgeline.measure.latency.fold import KeptWindow
from ridgeline.measure.latency.operator_latency import SHOWN
from ridgeline.measure.latency.window import Count
from ridgeline.measure.topology import Topology

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.floating[Any]]

_MOST_SAMPLES = 64
"""Of so many windows of a step the latencies are kept one by one, for medians."""
_MOST_WHOLE = 1024
"""The same of the application's windows, for percentiles."""
_TIMES = len(SHOWN)
Value = TypeVar("Value")


class Sum:
    """The rows of sums over windows, by physical or by logical operator: those of `Count`, then figures."""

    TUPLES_IN, TUPLES_OUT, QUEUE, ERRORS, LATE, STATE, WINDOWS, COMPUTE, WAIT, TRANSFER, TURN, CPU = range(12)
    ON_PATH, COUNT = 12, 13


class Kept:
    """The rows of what a step keeps of each logical operator. Durations in seconds, rates a second."""

    MEDIAN, GREATEST, COMPUTE, WAIT, TRANSFER, TUPLES_IN, TUPLES_OUT, QUEUE, MOST_QUEUED = range(9)
    ERRORS, LATE, STATE, ON_PATH, AGE, GREATEST_AGE = range(9, 15)
    COUNT = 15


@dataclass(slots=True)
class Ages:
    """The ages of an operator's records in a step, in seconds. `place`: where, in a record's order."""

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
    values: MutableSequence[Value] = field(default_factory=list)
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

    def copied(self) -> Sampled[Value]:
        """The same, which goes on by itself."""
        return replace(self, values=self.values[:])


@dataclass(frozen=True, slots=True)
class Step:
    """A step that is over. `kept`: `Kept` by logical operator; `index`: which column each name has.

    NaN is what is not known.

    `at`: when the last of its windows was committed. `seconds`: the time that they are over. `median` to
    `late`: of the windows, in seconds; tuples a second. `outputs`: the names of operators at which tuples
    leave the application.
    """

    at: float
    seconds: float
    windows: int
    median: float
    p99: float
    greatest: float
    late: float
    tuples_in: float
    tuples_out: float
    index: Mapping[str, int]
    outputs: Sequence[str]
    kept: npt.NDArray[np.float32]


class OpenStep:
    """Windows added up by logical operator, in the plan's order. `begin`, `end`: by STRAM's clock."""

    def __init__(self, begin: float, end: float, operators: int) -> None:
        self.begin, self.end = begin, end
        self.at = 0.0
        self.seconds = 0.0
        self.windows = 0
        self.sums = np.zeros((Sum.COUNT, operators))
        self.greatest = np.full((_TIMES, operators), np.nan)
        """Of latency, compute, wait, transfer and cpu."""
        self.queued = np.zeros(operators)
        self.latencies = Sampled[Times](_MOST_SAMPLES)
        """The same times of windows, one by one."""
        self.whole = Sampled[float](_MOST_WHOLE, array("d"))
        """Latencies of windows."""
        self.longest = 0.0
        self.late = self.last_late = 0.0
        """How late windows began, in sum, and the last of them."""
        self.entered = 0.0
        self.left = 0.0
        self.ages: dict[int, Ages] = {}

    def add(self, latencies: Floats, counts: Floats, whole: Sequence[tuple[float, float]]) -> None:
        """Add windows. `latencies`: windows by times by operators, NaN: it did not report.

        `counts`: windows by rows as of `counts_of`, up to the state, by operators.
        """
        self.windows += len(whole)
        self.sums[: Sum.WINDOWS] += counts.sum(axis=0)
        self.sums[Sum.COMPUTE : Sum.TRANSFER + 1] += np.nansum(latencies[:, 1:4], axis=0)
        self.sums[Sum.WINDOWS] += np.count_nonzero(~np.isnan(latencies[:, 0]), axis=0)
        self.greatest = np.fmax(self.greatest, np.fmax.reduce(latencies, axis=0))
        self.queued = np.maximum(self.queued, counts[:, Count.QUEUE].max(axis=0))
        for row, (latency, late) in zip(latencies, whole, strict=True):
            self.latencies.add(row.copy())
            self.whole.add(latency)
            self.longest = max(self.longest, latency)
            self.late += late
        self.last_late = whole[-1][1]

    def merge(self, other: OpenStep) -> None:
        """Add those of a shorter step; of their times the latencies."""
        self.at = max(self.at, other.at)
        self.seconds += other.seconds
        self.windows += other.windows
        self.sums += other.sums
        self.greatest = np.fmax(self.greatest, other.greatest)
        self.queued = np.maximum(self.queued, other.queued)
        for row in other.latencies.values:
            self.latencies.add(row[:1].astype(np.float32))
        for one in other.whole.values:
            self.whole.add(one)
        self.longest = max(self.longest, other.longest)
        self.late += other.late
        self.entered += other.entered
        self.left += other.left
        for number, ages in other.ages.items():
            self.age(number, ages)

    def forget_sums(self) -> None:
        """Its sums are in longer steps: of a second that is kept only single windows are asked for."""
        self.sums, self.queued = np.zeros((Sum.COUNT, 0)), np.zeros(0)

    def copied(self) -> OpenStep:
        """The same, which later windows do not change."""
        found = copy(self)
        found.sums, found.ages = self.sums.copy(), {number: copy(ages) for number, ages in self.ages.items()}
        found.latencies, found.whole = self.latencies.copied(), self.whole.copied()
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
        kept[Kept.MEDIAN] = _median([row[0] for row in self.latencies.values], len(reported))
        kept[Kept.GREATEST] = self.greatest[0]
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
        ordered = sorted(self.whole.values)
        return Step(
            self.at,
            seconds,
            self.windows,
            _quantile(ordered, 0.5),
            _quantile(ordered, 0.99),
            self.longest,
            self.late / max(1, self.windows),
            self.entered / seconds,
            self.left / seconds,
            index,
            outputs,
            kept.astype(np.float32),
        )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of numbers in order, between two of them as numpy has it."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _median(rows: Sequence[Times], operators: int) -> Floats:
    """The median of each operator over windows; NaN where it reported in none."""
    if len(rows) == 1:
        return rows[0].astype(np.float64)
    found = np.sort(np.array(rows), axis=0)  # NaN is last
    known = np.count_nonzero(~np.isnan(found), axis=0)
    last = np.maximum(known - 1, 0)
    columns = np.arange(operators)
    low, high = found[last // 2, columns], found[(last + 1) // 2, columns]
    return ((low + high) / 2).astype(np.float64)


@dataclass(slots=True)
class Slice:
    """The windows of one plan that were committed in a second, from `begin` to `end` (STRAM's wall clock).

    `sums`: `Sum` by physical operators. `state_bytes`: the bytes that each one's last window changed.
    `blame`: seconds in sum. `held`: seconds in sum for which results of an output waited for an operator, by
    both names. `step`: the same windows by logical operator.
    """

    topology: Topology
    begin: float
    end: float
    sums: Floats
    state_bytes: Floats
    step: OpenStep
    blame: dict[str, float] = field(default_factory=dict)
    held: dict[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def begun(cls, topology: Topology, begin: float, now: float) -> Slice:
        """An empty one for windows that are committed from now on. `begin`: since when their time counts."""
        size, second = len(topology.operators), math.floor(now)
        step = OpenStep(second, second + 1, len(topology.logical.names))
        return cls(topology, begin, now, np.zeros((Sum.COUNT, size)), np.zeros(size), step)

    def add(self, windows: Sequence[tuple[KeptWindow, Floats]]) -> None:
        """Add windows up, each with its counts, as `counts_of`."""
        topology, step = self.topology, self.step
        figures = np.array([window.figures for window, _ in windows])  # windows, rows, operators
        counts = np.array([own for _, own in windows])
        self.sums[: Sum.COMPUTE] += counts.sum(axis=0)
        self.sums[Sum.COMPUTE : Sum.ON_PATH] += np.nansum(figures[:, 1:], axis=0)
        step.add(
            topology.logical.latencies(figures[:, SHOWN]),
            topology.logical.sums(counts[:, : Count.REPORTED]),
            [(window.times.latency_seconds, window.times.late_seconds) for window, _ in windows],
        )
        step.entered += sum(window.tuples[0] for window, _ in windows)
        step.left += sum(window.tuples[1] for window, _ in windows)
        places, index = topology.places, topology.logical.index
        for window, _ in windows:
            for operator in window.path:
                self.sums[Sum.ON_PATH, places[operator]] += 1
            for number in {index[topology.by_id[one].name] for one in window.path}:
                step.sums[Sum.ON_PATH, number] += 1
            for phase, seconds in window.phases:
                self.blame[phase] = self.blame.get(phase, 0.0) + seconds
            for output, by, seconds in window.held:
                self.held[output, by] = self.held.get((output, by), 0.0) + seconds

    def copied(self) -> Slice:
        """The same, which later windows do not change."""
        step, blame, held = self.step.copied(), dict(self.blame), dict(self.held)
        return replace(self, sums=self.sums.copy(), step=step, blame=blame, held=held)
