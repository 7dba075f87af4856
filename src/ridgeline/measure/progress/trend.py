"""Whether a backlog grows or falls now, and how sure that is.

The backlog's samples are modelled as a straight line with noise: between two of them dt apart it changes by g
dt + s sqrt(dt) e. The noise s comes from the differences between neighbouring slopes, of the backlog and of
the arrivals (whose noise shows while nothing waits). It is their median, so a change of the slope does not
count as noise. Before g is estimated, the samples are cut where the slope has changed. That is where the
slopes on both sides differ by more than the noise explains (after A. Bifet, R. Gavaldà, "Learning from
Time-Changing Data with Adaptive Windowing", 2007). So without noise a change shows at the next sample, and
with noise as soon as it stands out.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

LEAST_SECONDS = 1e-6
"""Over less there is no rate."""
_CHANGED_ERRORS = 4.5
_CHANGED_SHARE = 0.01  # of the steeper slope: differences below are the arithmetic's
_NORMAL = 1.4826  # standard deviations to a median of absolute deviations
_NOISE_SAMPLES, _NOISE_LATELY = 100, 15


@dataclass(frozen=True, slots=True)
class Sample:
    """A report of a source: `consumed` and `remaining`, NaN if unknown."""

    at: float
    consumed: float
    remaining: float

    @property
    def arrived(self) -> float:
        """All that has come since the run's start."""
        return self.consumed + self.remaining


@dataclass(frozen=True, slots=True)
class Trend:
    """Growth per second since the last change, its standard error, over `steps` and `seconds`.

    `changed`: there was a change, at `since`.
    """

    rate: float
    error: float
    steps: int
    seconds: float
    changed: bool = False
    since: float = -math.inf

    def beyond(self, tolerance: float, errors: float) -> bool:
        """True if it is not 0: beyond a tolerance (per second) and `errors` standard errors."""
        return abs(self.rate) > max(tolerance, errors * self.error)


class Samples:
    """The samples of `kept_seconds`, at least `fewest`.

    Those that follow each other within `slice_seconds` are kept as one.
    """

    def __init__(self, kept_seconds: float, slice_seconds: float, fewest: int) -> None:
        self._kept = kept_seconds
        self._slice = slice_seconds
        self._fewest = fewest
        self._samples: list[Sample] = []
        self._noises: deque[tuple[float, float]] = deque(maxlen=_NOISE_SAMPLES)
        self.changed_at = -math.inf
        """The last change that was noted."""

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        return self._samples[index]

    def begins_slice(self, at: float) -> bool:
        """True if a sample of this moment will stay beside the last one; else it will take its place."""
        return len(self._samples) < 2 or at - self._samples[-2].at >= self._slice  # noqa: PLR2004  its begin

    def add(self, sample: Sample) -> None:
        """Take a sample that is not older than the last one."""
        samples = self._samples
        if not self.begins_slice(sample.at):
            samples.pop()
            self._noises.pop()
        self._noises.append(self._noise_at(sample))
        samples.append(sample)
        gone = min(self._first(sample.at - self._kept), len(samples) - self._fewest)
        if gone > 0:
            del samples[:gone]

    def since(self, at: float) -> int:
        """The number of the first kept sample from then on.

        At least `fewest` samples follow it, if there are as many.
        """
        if not self._samples:
            return 0
        begin = max(at, self._samples[-1].at - self._kept) - LEAST_SECONDS
        return max(0, min(self._first(begin), len(self._samples) - self._fewest))

    def rate(self, first: int) -> float | None:
        """Consumed per second from a sample on; None if unknown."""
        known = [(one.at, one.consumed) for one in self._samples[first:] if not math.isnan(one.consumed)]
        if not known or known[-1][0] - known[0][0] < LEAST_SECONDS:
            return None
        return max(0.0, (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0]))

    def trend(self, first: int) -> Trend | None:
        """The growth of what remains from a sample on, since it last changed; None if unknown."""
        samples, last = self._samples, len(self._samples) - 1
        first = max(first, min(last - 1, self._first(self.changed_at)))
        while first < last and math.isnan(samples[first].remaining):
            first += 1
        if last <= first or math.isnan(samples[last].remaining):
            return None
        if samples[last].at - samples[first].at < LEAST_SECONDS:
            return None
        noise = self._noise()
        change = self._change(first, last, noise)
        begin = samples[first if change is None else change]
        seconds = samples[last].at - begin.at
        return Trend(
            (samples[last].remaining - begin.remaining) / seconds,
            noise / math.sqrt(seconds),
            last - (first if change is None else change),
            seconds,
            change is not None or begin.at == self.changed_at,
            begin.at,
        )

    def growth(self, since: float) -> float | None:
        """The growth of what remains per second from then on, of the nearest line; None if unknown."""
        samples = self._samples[self._first(since - LEAST_SECONDS) :]
        known = [(one.at, one.remaining) for one in samples if not math.isnan(one.remaining)]
        if len(known) < 2 or known[-1][0] - known[0][0] < LEAST_SECONDS:  # noqa: PLR2004  a line has two points
            return None
        return statistics.linear_regression(*zip(*known, strict=True)).slope

    def _first(self, at: float) -> int:
        return bisect_left(self._samples, at, key=attrgetter("at"))

    def _change(self, first: int, last: int, noise: float) -> int | None:
        """Where the slope has most clearly changed; None if it has not.

        The part before is up to four times as long as the part after.
        """
        samples, end = self._samples, self._samples[last]
        found, clearest = None, 0.0
        for middle in _splits(first, last):
            turn, begin = samples[middle], samples[max(first, middle - max(4, 4 * (last - middle)))]
            recent, before = end.at - turn.at, turn.at - begin.at
            if min(recent, before) < LEAST_SECONDS:
                continue
            now, was = (end.remaining - turn.remaining) / recent, (turn.remaining - begin.remaining) / before
            difference, spread = abs(now - was), math.sqrt(1 / recent + 1 / before)
            least = max(_CHANGED_ERRORS * noise * spread, _CHANGED_SHARE * max(abs(now), abs(was)))
            if difference > least and difference / spread > clearest:  # not where one is unknown
                found, clearest = middle, difference / spread
        return found

    def _noise(self) -> float:
        """The noise per root of a second: the greatest of backlog's and arrivals', lately or for long."""
        every = list(self._noises)
        columns = (*zip(*every, strict=True), *zip(*every[-_NOISE_LATELY:], strict=True))
        return _NORMAL * max(map(_median, columns))

    def _noise_at(self, sample: Sample) -> tuple[float, float]:
        """The noise that a new sample shows, of the backlog and of the arrivals, per root of a second."""
        if len(self._samples) < 2:  # noqa: PLR2004  two slopes
            return math.nan, math.nan
        before, last = self._samples[-2:]
        seconds, earlier = sample.at - last.at, last.at - before.at
        if min(seconds, earlier) < LEAST_SECONDS:
            return math.nan, math.nan
        scale = math.sqrt(1 / seconds + 1 / earlier)
        left = (sample.remaining - last.remaining) / seconds - (last.remaining - before.remaining) / earlier
        came = (sample.arrived - last.arrived) / seconds - (last.arrived - before.arrived) / earlier
        return abs(left) / scale, abs(came) / scale


def _splits(first: int, last: int) -> Iterator[int]:
    """Where to look for a change, the latest first: after the last step, then further and further apart."""
    steps = 1
    while last - steps > first:
        yield last - steps
        steps += max(1, steps // 4)


def _median(noises: Iterable[float]) -> float:
    """The lower median of those that are known; 0 without any."""
    known = sorted([one for one in noises if not math.isnan(one)])
    return known[(len(known) - 1) // 2] if known else 0.0
