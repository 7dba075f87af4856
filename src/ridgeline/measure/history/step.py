"""A step of the history: the windows of a second, of ten, or of a minute, added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.age.record_age import Ages
from ridgeline.measure.answers.history import ApplicationStepAnswer
from ridgeline.measure.latency.folded import FoldedWindows, KeptWindow, blame_of
from ridgeline.measure.latency.operator_latency import SHOWN
from ridgeline.measure.latency.window import Count
from ridgeline.measure.topology import Topology

Floats = npt.NDArray[np.float64]

_TIMES = len(SHOWN)
Value = TypeVar("Value")


class Sum:
    """The rows of sums over windows, by physical or by logical operator: those of `Count`, then figures."""

    TUPLES_IN, TUPLES_OUT, ERRORS, LATE, STATE, WINDOWS, COMPUTE, _, TRANSFER, TURN, CPU = range(11)
    ON_PATH, COUNT = 11, 12


class Kept:
    """The rows of what a step keeps of each logical operator. Durations in seconds, rates a second."""

    MEDIAN, GREATEST, COMPUTE, _, TRANSFER, TUPLES_IN, TUPLES_OUT, QUEUE, MOST_QUEUED = range(9)
    ERRORS, LATE, STATE, ON_PATH, AGE, GREATEST_AGE = range(9, 15)
    COUNT = 15


@dataclass(frozen=True, slots=True)
class Sampled(Generic[Value]):
    """Values of windows that are evenly apart: every so many, and not more than `most`."""

    most: int
    values: Sequence[Value] = ()
    every: int = 1
    seen: int = 0

    def with_more(self, values: Iterable[Value]) -> Sampled[Value]:
        """The same with the values of more windows."""
        found, every, seen = list(self.values), self.every, self.seen
        for value in values:
            if seen % every == 0 and len(found) == self.most:
                found, every = found[::2], 2 * every
            if seen % every == 0:
                found.append(value)
            seen += 1
        return Sampled(self.most, found, every, seen)


_NO_SAMPLES: Sampled[Floats] = Sampled(64)
"""Of so many windows of a step the latencies are kept one by one, for medians."""
_NO_WHOLE: Sampled[float] = Sampled(1024)
"""The same of the application's windows, for percentiles."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that is over. `kept`: `Kept` by logical operator; `index`: which column each name has.

    NaN is what is not known. `whole`: of all windows, as it is answered.
    """

    whole: ApplicationStepAnswer
    index: Mapping[str, int]
    kept: npt.NDArray[np.float32]


@dataclass(slots=True)
class OpenStep:
    """Windows added up by logical operator, in the plan's order. `begin`, `end`: by STRAM's clock.

    `sums`: rows of `Sum`. `greatest`: of latency, compute, wait, transfer and cpu, and the most tuples that
    waited. `latencies`: the same times of windows, one by one; `whole`: latencies of windows. `late`: how
    late windows began, in sum, and `last_late` the last of them. `ages`: by operator, and at which place.

    No value is changed in place, so a shallow copy stays as it is.
    """

    begin: float
    end: float
    sums: Floats
    greatest: Floats
    at: float = 0.0
    seconds: float = 0.0
    windows: int = 0
    latencies: Sampled[Floats] = _NO_SAMPLES
    whole: Sampled[float] = _NO_WHOLE
    longest: float = 0.0
    late: float = 0.0
    last_late: float = 0.0
    ages: Mapping[int, tuple[int, Ages]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Sequence[OpenStep]) -> OpenStep:
        """Shorter steps added up; of their times the latencies."""
        found = cls(
            parts[0].begin,
            parts[-1].end,
            np.sum([one.sums for one in parts], axis=0),
            np.fmax.reduce([one.greatest for one in parts]),
            max(one.at for one in parts),
            math.fsum(one.seconds for one in parts),
            sum(one.windows for one in parts),
            _NO_SAMPLES.with_more(row[:1] for one in parts for row in one.latencies.values),
            _NO_WHOLE.with_more(value for one in parts for value in one.whole.values),
            max(one.longest for one in parts),
            math.fsum(one.late for one in parts),
            parts[-1].last_late,
        )
        for one in parts:
            for number, ages in one.ages.items():
                found.age(number, *ages)
        return found

    def age(self, number: int, place: int, ages: Ages) -> None:
        """Add ages of an operator at a place, by its order. Those of an earlier place count no more."""
        known = self.ages.get(number)
        if known is not None and known[0] == place:
            ages = Ages.joined((known[1], ages))
        if known is None or known[0] <= place:
            self.ages = {**self.ages, number: (place, ages)}

    def closed(self, topology: Topology) -> Step:
        """The step as it is kept. `topology`: of its windows."""
        seconds, logical = max(self.seconds, 1e-3), topology.logical
        reported = self.sums[Sum.WINDOWS]
        kept = np.full((Kept.COUNT, len(reported)), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = self.sums / reported
        kept[Kept.MEDIAN] = _median([row[0] for row in self.latencies.values], len(reported))
        kept[Kept.GREATEST] = self.greatest[0]
        kept[Kept.COMPUTE : Kept.TRANSFER + 1] = means[Sum.COMPUTE : Sum.TRANSFER + 1]
        kept[Kept.TUPLES_IN : Kept.TUPLES_OUT + 1] = self.sums[: Sum.TUPLES_OUT + 1] / seconds
        kept[Kept.QUEUE] = means[Sum.TUPLES_IN]
        kept[Kept.MOST_QUEUED] = self.greatest[_TIMES]
        kept[Kept.ERRORS : Kept.LATE + 1] = self.sums[Sum.ERRORS : Sum.LATE + 1]
        kept[Kept.STATE] = means[Sum.STATE]
        kept[Kept.ON_PATH] = self.sums[Sum.ON_PATH] / max(1, self.windows)
        kept[:, reported == 0] = np.nan
        for number, (_, ages) in self.ages.items():
            kept[Kept.AGE, number] = ages.total / ages.records
            kept[Kept.GREATEST_AGE, number] = ages.maximum
        median, p99 = np.quantile(self.whole.values, (0.5, 0.99)).tolist()
        mean, oldest = kept[Kept.AGE : Kept.COUNT]
        whole: ApplicationStepAnswer = {
            "at": self.at,
            "seconds": seconds,
            "windows": self.windows,
            "latencyMs": as_ms(median),
            "p99Ms": as_ms(p99),
            "greatestMs": as_ms(self.longest),
            "lateMs": as_ms(self.late / max(1, self.windows)),
            "tuplesIn": float(self.sums[Sum.TUPLES_OUT, logical.inputs].sum()) / seconds,
            "tuplesOut": float(self.sums[Sum.TUPLES_IN, logical.outputs].sum()) / seconds,
            "ages": [
                {
                    "operator": logical.names[number],
                    "ageMs": as_ms(float(mean[number])),
                    "greatestAgeMs": as_ms(float(oldest[number])),
                }
                for number in logical.outputs
                if not math.isnan(mean[number])
            ],
        }
        return Step(whole, logical.index, kept.astype(np.float32))


def _median(rows: Sequence[Floats], operators: int) -> Floats:
    """The median of each operator over windows; NaN where it reported in none."""
    found = np.sort(np.array(rows), axis=0)  # NaN is last
    known = np.count_nonzero(~np.isnan(found), axis=0)
    last = np.maximum(known - 1, 0)
    columns = np.arange(operators)
    low, high = found[last // 2, columns], found[(last + 1) // 2, columns]
    return (low + high) / 2


@dataclass(slots=True)
class Slice:
    """The windows of one plan that were committed in a second, from `begin` to `end` (STRAM's wall clock).

    `sums`: `Sum` by physical operators. `blame`: seconds in sum. `step`: the same windows, by logical ones.
    As in a step no value is changed in place.
    """

    topology: Topology
    begin: float
    end: float
    sums: Floats
    step: OpenStep
    blame: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def begun(cls, topology: Topology, begin: float, now: float) -> Slice:
        """An empty one for windows that are committed from now on. `begin`: since when their time counts."""
        size, logical, second = len(topology.operators), len(topology.logical.names), math.floor(now)
        greatest = np.full((_TIMES + 1, logical), np.nan)
        step = OpenStep(second, second + 1, np.zeros((Sum.COUNT, logical)), greatest)
        return cls(topology, begin, now, np.zeros((Sum.COUNT, size)), step)

    def add(self, folded: FoldedWindows, windows: Sequence[KeptWindow]) -> None:
        """Add some of the windows up that are folded."""
        topology, step, logical = self.topology, self.step, self.topology.logical
        rows = [window.row for window in windows]
        figures, latencies, counts = folded.figures[rows], folded.logical[rows], folded.counts[rows]
        paths = folded.paths[rows]
        blame = dict(self.blame)
        for (what, _), seconds in blame_of(windows).items():
            blame[what] = blame.get(what, 0.0) + seconds
        self.blame = blame
        row, _ = np.nonzero(paths >= 0)
        on_path = paths[paths >= 0]
        more = np.zeros_like(self.sums)
        more[: Sum.COMPUTE] = counts.sum(axis=0)
        more[Sum.COMPUTE : Sum.ON_PATH] = np.nansum(figures[:, 1:], axis=0)
        more[Sum.ON_PATH] = np.bincount(on_path, minlength=len(topology.operators))
        self.sums = self.sums + more

        more = np.zeros_like(step.sums)
        logical_counts = logical.sums(counts)
        more[: Sum.WINDOWS] = logical_counts[:, : Count.REPORTED].sum(axis=0)
        more[Sum.WINDOWS] = np.count_nonzero(~np.isnan(latencies[:, 0]), axis=0)
        more[Sum.COMPUTE : Sum.TRANSFER + 1] = np.nansum(latencies[:, 1:4], axis=0)
        is_on_path = np.zeros((len(windows), len(logical.names)), bool)
        is_on_path[row, logical.numbers[on_path]] = True  # several partitions of an operator count once
        more[Sum.ON_PATH] = is_on_path.sum(axis=0)
        step.sums = step.sums + more
        step.windows += len(windows)
        all_of_them = np.concatenate([latencies, logical_counts[:, :1]], axis=1)
        step.greatest = np.fmax(step.greatest, np.fmax.reduce(all_of_them, axis=0))
        step.latencies = step.latencies.with_more(latencies)
        whole = [window.times.latency_seconds for window in windows]
        step.whole, step.longest = step.whole.with_more(whole), max(step.longest, *whole)
        late = [window.times.late_seconds for window in windows]
        step.late, step.last_late = step.late + math.fsum(late), late[-1]
