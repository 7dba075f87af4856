"""Backlog, verdict and catch-up of a Python input that takes all that is due, against the truth of a loop.

Several windows are in flight, and one operator processes them one after the other. What it hears is what
slots send: what the input has taken, and heartbeats once a second.
"""

import itertools
from dataclasses import replace

import pytest

from ridgeline.measure.events import (
    ContainerHeartbeat,
    RunningOperator,
    SourceProgress,
    SourceTaken,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.progress.backlog import SourceBacklog
from ridgeline.measure.progress.fold import ProgressFold
from ridgeline.measure.progress.sources import SourceLevel
from support.depth import deeper
from support.measure.partitioned import chain
from support.measure.reports import of_reports
from support.measure.simulated_window import operator_ended

STEP, STEPS_A_LOOK, IN_FLIGHT, ARRIVALS = 0.05, 4, 4, 1000.0

# In one process, an input that does not look between its windows says nothing at all in a long one.
MODES = [(True, True), (True, False), (False, False)]
SLOW, WIDTHS, FAST = [100.0, 330.0, 700.0], [0.5, 1.0, 2.0], [1500.0, 3000.0]


def overloads():
    """All combinations. Nine have each pair of values, so these always run."""
    for i, j, k, m in itertools.product(range(3), range(3), range(3), range(2)):
        always = k == (i + j) % 3 and m == (i == j)
        yield pytest.param(SLOW[i], FAST[m], WIDTHS[j], *MODES[k], marks=() if always else deeper)


class Run:
    """`looks`: the input knows what has arrived between its windows.

    `together`: it shares its process with the operator, so that its reports wait for those, and it takes only
    between two windows of these. `waiting`: of a run that is restarted, what waits at its begin.
    """

    def __init__(self, capacity, *, width=1.0, looks=True, together=False, waiting=None):
        self.fold = ProgressFold(width)
        self.fold.planned(chain("read", "slow"))
        self.capacity, self.width, self.looks = capacity, width, looks
        self.step_number = 0
        self.together = together
        self.restarted = waiting is not None
        self.processed = self.taken = self.committed = 50_000.0 if self.restarted else 0.0
        self.earlier = self.taken + (waiting or 0.0)
        self.due = width
        self.next_window = 0
        self.flights = []
        self.began = 0.0
        self.since_turn = 0.0

    @property
    def now(self):
        return self.step_number * STEP

    @property
    def arrived(self):
        return self.earlier + ARRIVALS * self.now

    @property
    def backlog(self):
        return self.arrived - self.processed

    def step(self):
        self.step_number += 1
        now = self.now
        if now >= self.due - 1e-9 and len(self.flights) < IN_FLIGHT:
            window = self.next_window
            self.next_window = window + 1
            self.flights.append([window, None, None, now, False])
            self.fold.window_planned(WindowPlanned(now, window, 0, self.due))
            self.fold.window_started(WindowStarted(now, window, 0))
            self.due += self.width
        self.take()
        budget = STEP * self.capacity
        while self.flights and budget > 0:
            first = self.flights[0]
            done = min(budget, first[2])
            budget, first[2], self.processed = budget - done, first[2] - done, self.processed + done
            if first[2] > 1e-9:
                break
            self.end(first)
            self.take()
        for flight in self.flights:
            if not self.together and not flight[4] and now - flight[3] >= 0.2:
                flight[4] = True
                taken = self.committed + sum(one[1] for one in self.flights if one[0] <= flight[0])
                self.fold.source_taken(SourceTaken(now, flight[0], 0, 1, taken, 0.0, "records", flight[3]))
        if self.step_number % round(1 / STEP) == 0:
            self.beat()

    def take(self):
        """The input takes for all windows in flight, or, in the process of the operator, for the next."""
        for flight in self.flights[:1] if self.together else self.flights:
            if flight[1] is None:
                flight[1] = flight[2] = self.arrived - self.taken
                self.taken = self.arrived

    def beat(self):
        now = self.now
        took = [flight[0] for flight in self.flights if flight[1] is not None]
        last = took[-1] if took else self.next_window - 1
        waits = self.arrived - self.taken if self.looks else 0.0
        before = 50_000.0 if self.restarted and last == 0 else None
        said = SourceTaken(0.0, last, 0, 1, self.taken, waits, "records", 0.0, before=before)
        taken = (said,) if last >= 0 else ()
        idle = ContainerHeartbeat(now, -1, "h", 1, now, taken=taken)
        if not self.together or not took:
            self.fold.heartbeat(idle)
        if not took:
            return
        window, held, left, began, _ = self.flights[0]
        turn = max(self.since_turn, began)
        if now - turn >= 1.0:
            counts = {"input": int(held - left)}, {"input": int(left)}
            slow = RunningOperator(2, "running", now - turn, *counts)
            beat = ContainerHeartbeat(now, 1, "h", 2, now, window, 0, turn, (slow,))
            self.fold.heartbeat(replace(beat, taken=taken) if self.together else beat)
        elif self.together:
            self.fold.heartbeat(idle)

    def end(self, flight):
        window, held, _, began, _ = flight
        self.flights.remove(flight)
        self.committed += held
        self.since_turn = self.now
        self.fold.source(SourceProgress(self.now, window, 1, self.committed, 0.0, "records", asked=began))
        self.fold.operators_ended(
            of_reports(
                operator_ended(window, 1, 0.01, {}, {"output": held}, at=self.now),
                operator_ended(window, 2, held / self.capacity, {"input": held}, {}, at=self.now),
            )
        )
        self.fold.window_committed(WindowCommitted(self.now, window, 1, began, *[self.now] * 6))

    def until(self, end, capacity):
        self.capacity = capacity
        while self.now < end:
            for _ in range(STEPS_A_LOOK):
                self.step()
            found = self.fold.progress(self.now)
            yield self.now, found["application"]["verdict"], found["sources"][0], self.backlog


@pytest.mark.parametrize(("slow", "fast", "width", "looks", "together"), list(overloads()))
def test_overload_and_recovery(slow, fast, width, looks, together):
    run = Run(3000.0, width=width, looks=looks, together=together)
    for _ in run.until(10.0, 3000.0):
        pass
    assert {verdict for _, verdict, *_ in run.until(20.0, 3000.0)} == {"keeping up"}
    for at, verdict, source, true in run.until(50.0, slow):
        told = source["backlog"]["value"]
        assert told == pytest.approx(true, rel=0.05, abs=3 * ARRIVALS), at
        if true > 4 * width * ARRIVALS and at > 20.0 + 4 * width + 2.0:
            assert verdict == "falling behind", at
    recovery = list(run.until(50.0 + 40.0 * (1000 - slow) / (fast - 1000) + 10, fast))
    caught_up = next(at for at, _, _, true in recovery if true < 2 * fast * width)
    turned = 50.0 + max(3.0, 2 * width, 6.0 * (slow < fast / 10))
    ends, said = [], []
    for at, verdict, source, true in recovery:
        if at < 50.0 + 3.5:  # heartbeats come once a second, and a container sends none in its first
            continue
        assert source["backlog"]["value"] == pytest.approx(true, rel=0.05, abs=3 * ARRIVALS), at
        if turned < at < caught_up - 3.0:
            said.append(verdict)
        if turned + 4.0 < at < caught_up - 5.0 and source["caughtUpAt"] is not None:
            ends.append((source["caughtUpAt"] - at, true / (fast - 1000)))
    assert said.count("catching up") >= 0.95 * len(said)
    right = [told == pytest.approx(true, rel=0.1, abs=3.0) for told, true in ends]
    share = 0.8 if looks else 0.75  # what arrives is known once a window only
    assert not ends or sum(right) >= share * len(right)
    assert recovery[-1][1] == "keeping up"


@pytest.mark.parametrize(("looks", "together"), MODES)
@pytest.mark.parametrize("waiting", [6_000.0, 24_000.0])
def test_a_restart_with_work_waiting(waiting, looks, together):
    """All that waits is in the first window. Nothing says that it keeps up or falls behind until it does."""
    run = Run(3000.0, looks=looks, together=together, waiting=waiting)
    for at, verdict, source, true in run.until(waiting / 2000.0 + 8.0, 3000.0):
        if true > 6000:
            assert verdict in {"settling", "unknown", "catching up"}, at
        if at < 3.5:  # the first heartbeat of a container comes a second after it has begun
            continue
        assert source["backlog"]["value"] == pytest.approx(true, rel=0.05, abs=3 * ARRIVALS), at
        if at > 8.0 and true > 6000:  # it settles for 5 s
            assert verdict == "catching up", at
        assert verdict in {"settling", "catching up", "keeping up", "unknown"}, at
    assert verdict == "keeping up"


def test_windows_in_flight_as_many_as_usual_are_no_backlog_that_holds():
    """Windows take 2.5 times their width, for several operators work on them one after the other."""
    fold = ProgressFold(1.0)
    fold.planned(chain("read", "slow"))
    said = set()
    for step in range(600):
        now = step * 0.1
        if step % 10 == 0:
            window = step // 10
            fold.window_planned(WindowPlanned(now, window, 0, now))
            fold.window_started(WindowStarted(now, window, 0))
        if step % 10 == 2:
            taken = 1000.0 * (step // 10 + 1)
            fold.source_taken(SourceTaken(now, step // 10, 0, 1, taken, 0.0, "records", now - 0.2))
        if step % 10 == 5 and step >= 25:
            ended = step // 10 - 2
            report = SourceProgress(now, ended, 1, 1000.0 * (ended + 1), 0.0, "records", asked=ended * 1.0)
            fold.source(report)
            fold.window_committed(WindowCommitted(now, ended, 1, ended * 1.0, *[now] * 6))
        if now > 15:
            said.add(fold.progress(now)["application"]["verdict"])
    assert said == {"keeping up"}


def test_a_slot_that_is_lost_takes_back_what_was_taken():
    """The attempts begin again: what windows in flight had taken is not theirs any more."""
    run = Run(3000.0)
    for _ in run.until(10.0, 3000.0):
        pass
    for _ in run.until(16.0, 100.0):
        pass
    oldest = run.flights[0][0]
    run.fold.window_started(WindowStarted(run.now, oldest, 1))
    assert run.fold._sources["read"].taken_ahead == 0


def test_an_answer_that_comes_late_makes_no_rate():
    """A process starts: what it said 5 s ago is read now, and 0.3 s later what it says now."""
    source = SourceLevel(SourceBacklog(window_seconds=1.0), (1,))
    source.report(1, 100.0, (0.0, 25_000.0), None, None)
    source.report(1, 100.3, (30_300.0, 0.0), None, None)
    assert source._arrived(106.0).value == 30_300
    source.report(1, 103.3, (33_300.0, 0.0), None, None)
    source.report(1, 106.3, (36_300.0, 0.0), None, None)
    assert 36_300 < source._arrived(107.3).value < 39_000
