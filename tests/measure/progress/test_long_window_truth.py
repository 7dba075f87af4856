"""Verdict and backlog of a Spark source against the truth, in short and long windows.

They come of micro-batches, heartbeats, and a source that is asked.
"""

import pytest

from ridgeline.measure.events import (
    ContainerHeartbeat,
    RunningOperator,
    SourceAsked,
    SourceProgress,
    WindowCommitted,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.measure.progress.fold import ProgressFold
from support.measure.partitioned import chain
from support.measure.reports import of_reports
from support.measure.simulated_window import operator_ended

ARRIVALS, START = 2000.0, 0.2  # records a second; seconds until a window's job works
STEP = 0.5


class Run:
    """An application whose windows are micro-batches over all that waits; asked every second."""

    def __init__(self, capacity, window, *, asks=True):
        self.fold = ProgressFold(window)
        self.fold.planned(chain("read", "slow"))
        self.capacity, self.width, self.asks = capacity, window, asks
        self.now = self.processed = self.taken = self.began = 0.0
        self.held = None
        self.window, self.next_trigger, self.before = -1, window, 0.0

    @property
    def backlog(self):
        return ARRIVALS * self.now - self.processed

    def step(self):
        self.now += STEP
        if self.held is not None:
            if self.now > self.began + START:
                self.processed = min(self.before + self.held, self.processed + STEP * self.capacity)
            if self.processed >= self.before + self.held:
                self.end()
        if self.held is None and self.now >= self.next_trigger:
            self.begin()
        if self.held is not None and self.now - self.began >= 1.0:
            self.beat()
        if self.asks and self.now % 1.0 == 0:
            held = self.held or 0.0
            waiting = ARRIVALS * self.now - self.taken
            self.fold.source_asked(
                SourceAsked(self.now, self.window if self.held else -1, 1, self.taken, held, waiting)
            )
        return self.fold.progress(self.now)

    def begin(self):
        self.window += 1
        self.before, self.held = self.processed, ARRIVALS * self.now - self.taken
        self.taken += self.held
        self.began = self.now
        self.next_trigger = (self.now // self.width + 1) * self.width
        self.fold.window_planned(WindowPlanned(self.now, self.window, 0, self.now))
        self.fold.window_started(WindowStarted(self.now, self.window, 0))

    def beat(self):
        done = self.processed - self.before
        spent = max(0.0, self.now - self.began - START)
        slow = RunningOperator(2, "running", spent, {"input": int(done)}, {"input": int(self.held - done)}, 0)
        self.fold.heartbeat(
            ContainerHeartbeat(self.now, 1, "h", 1, self.now, self.window, 0, self.began, (slow,))
        )

    def end(self):
        reports = []
        for operator, seconds, tuples_in, tuples_out in (
            (1, 0.1, 0, self.held),
            (2, self.held / self.capacity, self.held, 0),
        ):
            counts = (
                ({"input": tuples_in} if tuples_in else {}),
                ({"output": tuples_out} if tuples_out else {}),
            )
            reports.append(operator_ended(self.window, operator, seconds, *counts, at=self.now))
        self.fold.operators_ended(of_reports(*reports))
        self.fold.window_committed(WindowCommitted(self.now, self.window, 1, self.began, *[self.now] * 6))
        self.fold.source(
            SourceProgress(self.now, self.window, 1, self.taken, 0.0, whole=True)
        )  # as of the window's trigger
        self.held = None


@pytest.mark.parametrize("window", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("capacity", [2600.0, 4000.0, 40_000.0])
def test_an_application_that_is_fast_enough_keeps_up(window, capacity):
    run = Run(capacity, window)
    said = []
    while run.now < 6 * window + 20:
        found = run.step()
        said.append((run.now, found["application"]["verdict"]))
    assert {verdict for _, verdict in said} <= {"keeping up", "settling", "unknown"}
    assert {verdict for at, verdict in said if at > 3 * window + 2} == {"keeping up"}


@pytest.mark.parametrize("window", [1.0, 10.0])
def test_what_is_old_is_not_called_keeping_up_beside_windows_behind(window):
    """A source that cannot be asked: its last word is the backlog when the window before began."""
    run = Run(500.0, window, asks=False)
    late = 0.0
    while run.now < 12 * window + 60:
        found = run.step()["application"]
        late = max(late, found["windowsBehind"] or 0)
        assert not (found["verdict"] == "keeping up" and (found["windowsBehind"] or 0) > 4)
        if run.now > 10 * window + 30:
            assert found["verdict"] != "keeping up"
        if found["asOf"] is not None:
            assert found["asOf"] <= run.now
    assert late > 4


def test_a_window_that_has_just_taken_the_first_records_is_not_stuck():
    """The first window had none, and took long to start."""
    fold = ProgressFold(1.0)
    fold.planned(chain("read", "slow"))
    for window, began in ((0, 12.0), (1, 16.0)):
        fold.source_asked(SourceAsked(began - 1.0, -1, 1, 0.0, 0.0, ARRIVALS * began))
        fold.window_planned(WindowPlanned(began, window, 0, began))
        fold.window_started(WindowStarted(began, window, 0))
        if not window:
            fold.window_committed(WindowCommitted(15.0, window, 1, began, *[15.0] * 6))
    said = []
    for second in range(17, 26):
        taken = ARRIVALS * 16.0
        fold.source_asked(SourceAsked(float(second), 1, 1, taken, taken, ARRIVALS * second - taken))
        said.append(fold.progress(second + 0.1)["application"]["verdict"])
    assert "stuck" not in said[:5]
    assert said[-1] == "stuck"


def test_a_window_in_which_nothing_moves_is_stuck():
    run = Run(50.0, 1.0)
    while run.now < 10.0:
        run.step()
    run.capacity = 0.0
    while run.now < 30.0:
        found = run.step()
    assert found["application"]["verdict"] == "stuck"


def test_a_source_that_does_not_answer_is_named():
    run = Run(4000.0, 1.0)
    while run.now < 10.0:
        run.step()
    run.fold.source_asked(SourceAsked(10.5, -1, 1, problem="the broker at `localhost:9092` does not answer"))
    found = run.fold.progress(11.0)
    assert (found["application"]["verdict"], found["application"]["unreachable"]) == ("unreachable", ["read"])
    assert (found["sources"][0]["verdict"], found["sources"][0]["problem"]) == (
        "unreachable",
        "the broker at `localhost:9092` does not answer",
    )
    run.step()
    run.step()
    assert run.fold.progress(run.now)["application"]["unreachable"] == []


def test_a_restart_that_is_caught_up_knows_it_at_once():
    fold = ProgressFold(10.0)
    fold.planned(chain("read", "slow"))
    fold.source_asked(SourceAsked(0.5, -1, 1, 0.0, 0.0, 0.0))
    assert fold.progress(0.5)["application"]["verdict"] == "keeping up"


def test_what_gathers_before_the_first_window_is_not_called_keeping_up():
    """Nobody has seen yet how fast the application is."""
    fold = ProgressFold(60.0)
    fold.planned(chain("read", "slow"))
    said = []
    for second in range(40):
        fold.source_asked(SourceAsked(float(second), -1, 1, 0.0, 0.0, 200.0 * second))
        said.append(fold.progress(float(second))["application"]["verdict"])
    assert (said[0], set(said[1:])) == ("keeping up", {"unknown"})
