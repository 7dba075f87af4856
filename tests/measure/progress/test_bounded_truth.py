"""Verdict, rates, oldest age and end of an overload, if windows are bounded by work, against a loop."""

import random

import pytest

from ridgeline.measure.events import (
    ContainerHeartbeat,
    SourceProgress,
    SourceTaken,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.progress.fold import ProgressFold
from support.measure.partitioned import chain

STEP, WORK, IN_FLIGHT = 0.05, 0.5, 2


class Loop:
    """An input takes what fits into a window; one operator works them off, none in just the time planned."""

    def __init__(self, capacity, width, seed):
        self.fold = ProgressFold(width)
        self.fold.planned(chain("read", "slow"))
        self.capacity, self.width, self.random = capacity, width, random.Random(seed)
        self.steps = self.windows = 0
        self.arrived = self.taken = self.processed = self.committed = 0.0
        self.flights, self.due = [], width
        self.came = [(0.0, 0.0)]

    @property
    def now(self):
        return self.steps * STEP

    @property
    def left(self):
        """The records that wait, or are in windows under way."""
        return self.arrived - self.processed

    @property
    def oldest(self):
        """The age of the oldest record that waits."""
        while len(self.came) > 1 and self.came[0][1] <= self.processed:
            self.came.pop(0)
        return self.now - self.came[0][0] if self.arrived > self.processed else 0.0

    def taken_event(self, at, window, asked):
        left = self.arrived - self.taken
        return SourceTaken(at, window, 0, 1, self.taken, left, "records", asked, before=0.0)

    def step(self, rate):
        self.steps += 1
        self.arrived += rate * STEP
        self.came.append((self.now, self.arrived))
        if self.now >= self.due - 1e-9 and len(self.flights) < IN_FLIGHT:
            self.begin()
        left = STEP
        while self.flights and left > 0:
            first = self.flights[0]
            used = min(left, first[2])
            self.processed += first[3] * (used / first[2])
            first[3] -= first[3] * (used / first[2])
            left, first[2] = left - used, first[2] - used
            if first[2] > 1e-9:
                break
            self.commit(self.flights.pop(0))
        if self.steps % 20 == 0:
            said = self.taken_event(0.0, self.windows - 1, 0.0)
            self.fold.heartbeat(ContainerHeartbeat(self.now, -1, "h", 1, self.now, taken=(said,)))

    def begin(self):
        window, now = self.windows, self.now
        self.windows += 1
        self.fold.window_planned(WindowPlanned(now, window, 0, self.due))
        self.fold.window_started(WindowStarted(now, window, 0))
        took = float(int(min(self.arrived - self.taken, self.capacity * max(WORK, self.width))))
        self.taken += took
        seconds = took / self.capacity * self.random.uniform(0.8, 1.2) + 0.01
        self.flights.append([window, took, seconds, took, now, self.arrived - self.taken])
        self.due = max(self.due, now) + self.width
        self.fold.source_taken(self.taken_event(now, window, now))

    def commit(self, flight):
        window, took, _, _, began, left = flight
        now = self.now
        self.committed += took
        self.fold.source(SourceProgress(now, window, 1, self.committed, left, "records", asked=began))
        self.fold.window_committed(WindowCommitted(now, window, 1, began, *[now] * 6))

    def until(self, end, rate):
        """Twice a second what is said of the application and of its source."""
        while self.now < end - 1e-9:
            self.step(rate)
            if self.steps % 10 == 0:
                found = self.fold.progress(self.now)
                yield self.now, found["application"]["verdict"], found["sources"][0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("width", "soon"), [(0.2, 5.0), (1.0, 10.0)])
def test_an_overload_and_its_end_are_said_soon(width, soon, seed):
    loop = Loop(500.0, width, seed)
    light = [verdict for at, verdict, _ in loop.until(10.0, 200.0) if at > 4]
    assert set(light) == {"keeping up"}
    for at, verdict, source in loop.until(30.0, 750.0):
        if at > 10.0 + soon:
            assert verdict == "falling behind", at
            close = 0.15 if at > 20.0 else 0.3
            assert source["arrivalPerSecond"] == pytest.approx(750, rel=close), at
            assert source["drainPerSecond"] == pytest.approx(500, rel=close), at
            assert source["backlog"]["value"] == pytest.approx(loop.left, abs=750 * width + 200), at
            assert source["oldest"]["value"] == pytest.approx(loop.oldest, abs=width + 0.4), at
    told = [(at, verdict, source["caughtUpAt"], loop.left) for at, verdict, source in loop.until(60.0, 200.0)]
    end = next(at + left / (500 - 200) for at, _, _, left in told if left < 2 * width * 200)
    assert {verdict for at, verdict, *_ in told if 30.0 + soon < at < end - 2 * soon / 5 - 1} == {
        "catching up"
    }
    assert {verdict for at, verdict, *_ in told if at > end + 2} == {"keeping up"}
    known = [(at, said) for at, _, said, _ in told if 30.0 < at < end - 2 * soon / 5 - 1 and said is not None]
    assert len(known) > (end - 30.0 - soon) / 2
    for at, said in known:
        assert said - at == pytest.approx(end - at, rel=0.15, abs=0.5 + 2 * width), at
