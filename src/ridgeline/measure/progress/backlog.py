"""The backlog of a source: its size, whether the application keeps up, and when it will have caught up.

A source is watched through samples (at, consumed, remaining), `consumed` cumulative. Over the last
`interval_seconds`, or since the growth has last changed, if that is less:

- drain rate = increase of consumed / time;
- arrival rate = increase of (consumed + remaining) / time; growth = arrival - drain = increase of remaining /
  time;
- backlog seconds = remaining / drain rate;
- caught up at = time of the last sample + remaining / -growth, while it catches up. It is said once
  the growth is known to 15 %: by its standard error, the rates, and its later half, since runs
  warm up. It was then seen for three seconds, eight windows, and a sixth of what is foretold.

A change of the growth shows as soon as it stands out of the noise, without noise at the next sample: see
`ridgeline.measure.progress.trend`. The words are in `ridgeline.measure.progress.verdict`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from ridgeline.measure.progress.estimate import NOTHING, UNKNOWN, Basis, Estimate, weakest
from ridgeline.measure.progress.trend import LEAST_SECONDS, Sample, Samples, Trend
from ridgeline.measure.progress.verdict import LEAVES_WINDOWS, SAMPLES, Evidence, Verdict, by_rules

_FALLS = 0.05  # of the drain rate: a backlog that falls by less has no end
_SURE, _SURE_SECONDS, _SURE_WINDOWS, _SURE_TIMES, _SURE_ERRORS = 0.15, 3.0, 8.0, 6.0, 1.5
_STUCK_WINDOWS, _STUCK_SECONDS = 3.0, 5.0
_LEAST_PART = 4  # of an interval: no rate is taken over less
_LONG_INTERVALS = 3.0
_FEWEST = 4  # samples that are kept however old they are
_MOST = 1e18  # amounts above are read as this: their squares do not overflow
_ROUNDING = 1e-9  # of what was consumed
_KEPT_ARRIVALS = 600  # moments
_SLICES = 100  # samples of an interval are merged to about this number


@dataclass(frozen=True, slots=True)
class BacklogState:
    """A source's backlog in its unit and in seconds; rates per second and in that unit, None if unknown.

    `caught_up_at` is STRAM's wall clock, None unless the verdict is `catching up`. `oldest`: the age of the
    oldest record that waits, seconds.
    """

    backlog: Estimate
    seconds: Estimate
    drain_per_second: float | None
    arrival_per_second: float | None
    caught_up_at: float | None
    verdict: Verdict
    oldest: Estimate = UNKNOWN


class Arrivals:
    """When how much had arrived: since when the oldest record waits, if they are processed in order.

    `kept_seconds`: moments are kept at least so long, for the rate.
    """

    def __init__(self, kept_seconds: float) -> None:
        self._kept = kept_seconds
        self._times: list[float] = []
        self._amounts: list[float] = []

    def add(self, at: float, consumed: float, arrived: float) -> None:
        """By then so much had arrived, and so much of it was consumed."""
        times, amounts = self._times, self._amounts
        while amounts and amounts[-1] > arrived:  # it has restarted, or that was an estimate
            times.pop()
            amounts.pop()
        if times and at <= times[-1]:
            return
        times.append(at)
        amounts.append(arrived)
        gone = min(bisect_right(amounts, consumed), bisect_right(times, at - self._kept)) - 1
        if gone > 0:
            del times[:gone], amounts[:gone]
        if len(times) > _KEPT_ARRIVALS:  # of what came long ago fewer moments are told apart
            half = len(times) // 2
            times[:half], amounts[:half] = times[:half:2], amounts[:half:2]

    @property
    def amount(self) -> float | None:
        """All that has arrived; None if unknown."""
        return self._amounts[-1] if self._amounts else None

    def rate(self, since: float, least: float = LEAST_SECONDS) -> float | None:
        """Arrivals per second from then on; None if unknown, and of no more seconds than `least`."""
        first = max(0, bisect_right(self._times, since + LEAST_SECONDS) - 1)
        seconds = self._times[-1] - self._times[first] if self._times else 0.0
        return (self._amounts[-1] - self._amounts[first]) / seconds if seconds > least else None

    def oldest(self, now: float, consumed: float) -> Estimate:
        """The age of the oldest record that is not consumed; a lower bound if it came earlier than any."""
        times, amounts = self._times, self._amounts
        place = bisect_right(amounts, consumed)
        if place == len(amounts):
            return NOTHING if amounts else UNKNOWN
        if not place:
            return Estimate(max(0.0, now - times[0]), Basis.LOWER_BOUND)
        share = (consumed - amounts[place - 1]) / (amounts[place] - amounts[place - 1])
        came = times[place - 1] + share * (times[place] - times[place - 1])
        return Estimate(max(0.0, now - came), Basis.ESTIMATED)


class SourceBacklog:
    """Follows one source. Holds the samples of three intervals, some hundred at most.

    Args:
        window_seconds: The application's window width.
        interval_seconds: Over how long rates are taken; longer windows take at least three.
    """

    def __init__(self, *, window_seconds: float, interval_seconds: float = 10.0) -> None:
        self._window = window_seconds
        self._interval = interval_seconds
        self._begin()
        self._backlog = UNKNOWN
        self._as_of = -math.inf
        self._moved_at = -math.inf
        self._began_at = -math.inf
        self.late = False
        """A window was late or would be as of the last sample."""
        self.fewest = 0.0
        """The most that a source which keeps up may have left, however little it drains in a window."""

    def _begin(self) -> None:
        """The source begins."""
        interval = self._interval
        self._samples = Samples(_LONG_INTERVALS * interval, interval / _SLICES, _FEWEST)
        self._arrivals = Arrivals(interval)
        self._consumed: float | None = None
        self._trend: Trend | None = None
        self._verdict = Verdict.UNKNOWN
        self._unjudged = False
        """The last sample counts, and is not judged yet."""

    def add(
        self,
        at: float,
        consumed: float | None,
        remaining: Estimate,
        *,
        counts: bool = True,
        late: bool = False,
        restarted: bool = False,
    ) -> None:
        """Take a sample.

        Args:
            at: STRAM's wall clock; samples that are older than the last one are ignored.
            consumed: Since the run's start; None if unknown.
            remaining: Infinite if there is no end, a lower bound if only a part of the source has reported.
            counts: False for a sample that has no meaning for the trend: what arrives until the next window
                is due waits in any application.
            late: True while a window runs that is late or will be. Then the trend is another one than before,
                and less may be left if the application is to keep up.
            restarted: The source has, so it is judged from its beginning.
        """
        consumed = None if consumed is None or not math.isfinite(consumed) else min(_MOST, max(0.0, consumed))
        if not math.isfinite(at) or at < self._as_of:
            return
        if late and not self.late:
            self.restart(at)
        if not counts or self._samples.begins_slice(at):
            self._judge_last()
        self.late = late
        if restarted:
            self._begin()
        last = self._consumed
        if last is None or (consumed is not None and consumed > last * (1 + _ROUNDING)):
            self._moved_at = max(self._moved_at, at)
        self._as_of = at
        self._consumed = consumed if consumed is not None else last
        self._backlog = remaining
        if counts:
            left = math.nan if remaining.value is None or remaining.infinite else min(_MOST, remaining.value)
            self._samples.add(Sample(at, math.nan if consumed is None else consumed, left))
            self._unjudged = True
        elif remaining == NOTHING:
            self._verdict = Verdict.KEEPING_UP
        elif self._verdict is Verdict.KEEPING_UP and (remaining.value or 0.0) > max(
            self.fewest, LEAVES_WINDOWS * self._window * (self._drain(self._trend) or 0.0)
        ):
            self._verdict = Verdict.UNKNOWN  # more waits than it was ever seen to work off in that time

    def arrived(self, at: float, amount: float | None) -> None:
        """Take what the source says had arrived by then since the run's start, beside the samples."""
        if amount is not None and math.isfinite(amount) and math.isfinite(at):
            self._arrivals.add(at, self._consumed or 0.0, amount)

    def ended(self, at: float) -> None:
        """The source has given everything, and all of it is consumed."""
        self.add(at, self._arrivals.amount, NOTHING, counts=False)

    def _judge_last(self) -> None:
        """Note the verdict on the last sample that counts: once for all samples of a slice."""
        if self._unjudged:
            self._trend, self._verdict = self._judged()
            if self._trend is not None and self._trend.changed:
                self._samples.changed_at = self._trend.since
            self._unjudged = False

    def _judged(self) -> tuple[Trend | None, Verdict]:
        """The trend, and the verdict on the last sample. Changes nothing."""
        if not self._unjudged:
            return self._trend, self._verdict
        trend = self._samples.trend(self._samples.since(self._began_at))
        drain, left = self._drain(trend), self._backlog
        evidence = Evidence(
            before=self._verdict,
            waits=None if left.infinite else left.value,
            at_least=left.basis is Basis.LOWER_BOUND,
            a_window=self._window * (drain or 0.0),
            fewest=self.fewest,
            late=self.late,
            still=self._stuck(self._as_of),
            trend=trend,
            drain=drain,
            arrival=self._arrivals.rate(self._since(trend)),
        )
        return trend, by_rules(SAMPLES, evidence)

    @property
    def drain_per_second(self) -> float | None:
        """Consumed per second over the last interval, or since the growth has changed; None if unknown."""
        return self._drain(self._judged()[0])

    def restart(self, at: float) -> None:
        """From now on the backlog's trend is another one: earlier samples do not count for it."""
        self._judge_last()
        self._began_at = max(self._began_at, at)

    def moved(self, at: float) -> None:
        """Note that the application works on what it has taken, without a new sample."""
        self._judge_last()
        self._moved_at = max(self._moved_at, at)

    @property
    def as_of(self) -> float | None:
        """When the last sample was; None before the first."""
        return self._as_of if math.isfinite(self._as_of) else None

    def state(self, now: float) -> BacklogState:
        """The backlog as of the last sample, judged at `now`. Changes nothing."""
        growth, verdict = self._judged()
        drain, arrival = self._drain(growth), self._arrivals.rate(self._since(growth))
        if arrival is None and drain is not None and growth is not None:
            arrival = max(0.0, drain + growth.rate)
        verdict = Verdict.STUCK if self._stuck(now) else verdict
        caught_up_at = (
            self._caught_up_at(now, drain, arrival, growth) if verdict is Verdict.CATCHING_UP else None
        )
        seconds = seconds_of(self._backlog, drain)
        oldest = UNKNOWN if self._consumed is None else self._arrivals.oldest(now, self._consumed)
        return BacklogState(self._backlog, seconds, drain, arrival, caught_up_at, verdict, oldest)

    def _drain(self, trend: Trend | None) -> float | None:
        """Consumed per second over the last interval, or since the growth has changed; None if unknown."""
        return self._samples.rate(self._samples.since(self._since(trend)))

    def _since(self, trend: Trend | None) -> float:
        """When the present rates began, as far as they are looked at."""
        end = self._samples[-1].at if len(self._samples) else self._as_of
        changed = trend.since if trend is not None and trend.changed else -math.inf
        return min(max(end - self._interval, changed), end - self._interval / _LEAST_PART)

    def _caught_up_at(
        self, now: float, drain: float | None, arrival: float | None, growth: Trend | None
    ) -> float | None:
        """When the backlog ends if it goes on falling as it has; None until that is known to 15 %.

        The trend's own error, the two rates and what it was lately have to agree on how fast it falls.
        """
        if drain is None or arrival is None or growth is None or self._backlog.value is None:
            return None
        lately = self._samples.growth(self._as_of - growth.seconds / 2)
        lately = growth.rate if lately is None else lately
        falls = -(growth.rate if abs(lately - growth.rate) <= growth.error else lately)
        if falls < _FALLS * drain:
            return None
        left = self._backlog.value / falls
        seconds = min(max(_SURE_WINDOWS * self._window, left / _SURE_TIMES), self._interval)
        apart = max(growth.error, abs(drain - arrival + growth.rate))
        changes = abs(lately - growth.rate) > max(_SURE * falls, _SURE_ERRORS * growth.error)
        if changes or apart > _SURE * falls or growth.seconds < max(_SURE_SECONDS, seconds):
            return None
        end = self._as_of + left
        return max(now, end) if math.isfinite(end) else None

    def _stuck(self, now: float) -> bool:
        """True if there is a backlog and nothing has been consumed for too long."""
        if not self._backlog.value or self._backlog.infinite or self._consumed is None:
            return False
        if self._backlog.value < self.fewest:  # a part of a tuple: what may have come by now
            return False
        if now - self._moved_at <= _STUCK_SECONDS:
            return False
        samples, first = self._samples, self._samples.since(self._as_of - self._interval)
        distance = (
            (samples[-1].at - samples[first].at) / max(1, len(samples) - first - 1) if len(samples) else 0.0
        )
        return now - self._moved_at > max(_STUCK_WINDOWS * max(self._window, distance), _STUCK_SECONDS)


def seconds_of(backlog: Estimate, drain: float | None) -> Estimate:
    """The time to work a backlog off at so much per second, None if that is unknown."""
    if backlog == NOTHING:
        return NOTHING
    if backlog.value is None or drain is None:
        return UNKNOWN
    value = backlog.value / drain if drain > 0 else math.inf if backlog.value else 0.0
    return Estimate(value, weakest((backlog.basis, Basis.ESTIMATED)))
