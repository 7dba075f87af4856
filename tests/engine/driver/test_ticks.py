"""Windows that begin with the clock while others are under way."""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

import pytest
from rich.console import Console

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint import Checkpoint
from ridgeline.engine.driver.run import ApplicationRun
from ridgeline.engine.driver.triggers import Limits, TickTrigger
from ridgeline.engine.state.storage import MemoryStorage
from ridgeline.measure.events import WindowCommitted, WindowPlanned, WindowStarted
from ridgeline.measure.measurement import Measurement
from ridgeline.plan.planner import plan_application
from ridgeline.stram.topology import planned_event
from ridgeline.testing import CollectorSink, SteppingClock
from ridgeline.testing.local_executor import LocalExecutor

WIDTH = 0.1


class Tick(NamedTuple):
    number: int


class Ticks(InputOperator):
    """Emits a tuple in each window, or in every so many."""

    out = OutputPort(Tick)
    every: int = 1
    position = State(0)

    def emit_tuples(self) -> None:
        if self.context.window_id % self.every == 0:
            self.out.emit(Tick(self.position))
            self.position += 1


class Slow(Operator):
    """Takes this long of each window, by its clock."""

    data = InputPort(Tick)
    out = OutputPort(Tick)
    seconds: float = 0.0

    @data.process
    def take(self, tick: Tick) -> None:
        self.context.clock.advance(self.seconds)
        self.out.emit(tick)


class Driven:
    """A run of slow windows on a stepping clock, with what it reports."""

    def __init__(self, seconds: float, in_flight: int = 3, every: int = 1) -> None:
        app = Application("ticks", window=WIDTH, windows_in_flight=in_flight)
        ticks = app.add_operator("ticks", Ticks(every=every))
        slow = app.add_operator("slow", Slow(seconds=seconds))
        sink = app.add_operator("sink", CollectorSink(Tick))
        app.add_stream("in", ticks.out, slow.data, locality="NODE_LOCAL")
        app.add_stream("out", slow.out, sink.input, locality="NODE_LOCAL")
        plan = plan_application(app)
        self.clock = SteppingClock()
        self.stop = threading.Event()
        self.events = []
        self.measurement = Measurement()
        self.measurement.apply(planned_event(plan, at=self.clock.wall(), application_id="run", info={}))
        self.seen: set[tuple[int, int | None, int | None]] = set()
        self.stop_at = -1
        checkpoint = self.checkpoint = Checkpoint(MemoryStorage(), "ticks")
        executor = LocalExecutor(plan, checkpoint.storage, self.clock, checkpoint.run_id, seed=1)
        self.run = ApplicationRun(plan, checkpoint, executor, self.clock, self.context, self.observe)

    def context(self, name: str) -> PublisherContext:
        return PublisherContext(
            "ticks", name, "run", self.clock, Console(), "memory:", lambda: None, 1, lambda: None
        )

    def observe(self, event) -> None:
        self.events.append(event)
        self.measurement.apply(event)
        now = self.clock.wall()
        stats = self.measurement.info(now)["stats"]
        under_way = len(self.of(WindowPlanned)) - len(self.of(WindowCommitted))
        self.seen.add((under_way, stats["currentWindowId"], self.measurement.progress(now)["windowId"]))
        if isinstance(event, WindowStarted) and event.window_id == self.stop_at:
            self.stop.set()

    def of(self, kind) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def drive(self, windows: int | None = None) -> list[int]:
        """Run to the limits; the windows that were committed."""
        limits = Limits(self.run, windows, self.stop)
        TickTrigger(self.run, self.clock, self.stop).drive(limits)
        return [event.window_id for event in self.of(WindowCommitted)]


@pytest.mark.guide("004", "Window Generator")
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3])
def test_exactly_so_many_windows_begin_and_are_committed(seconds):
    driven = Driven(seconds)
    assert driven.drive(windows=7) == list(range(7))
    assert [event.window_id for event in driven.of(WindowPlanned)] == list(range(7))
    assert driven.run.publishers["sink"].tuples(None) == [Tick(number) for number in range(7)]


def test_what_has_begun_when_the_run_is_stopped_is_committed_and_nothing_else():
    driven = Driven(seconds=0.3)
    driven.stop_at = 5
    assert driven.drive() == list(range(6))
    assert [event.window_id for event in driven.of(WindowPlanned)] == list(range(6))


@pytest.mark.guide("002", "Streaming Window")
def test_windows_are_due_by_the_clock_whatever_is_under_way():
    driven = Driven(seconds=0.25)
    driven.drive(windows=6)
    planned = driven.of(WindowPlanned)
    dues = [event.due - planned[0].due for event in planned]
    assert dues == pytest.approx([number * WIDTH for number in range(6)])
    assert all(event.at >= event.due for event in planned)


def test_the_times_of_a_window_are_in_order_though_others_are_under_way():
    driven = Driven(seconds=0.25)
    driven.drive(windows=6)
    begins = {event.window_id: event.at for event in driven.of(WindowPlanned)}
    over = 0.0
    for event in driven.of(WindowCommitted):
        times = [event.began, event.planned, event.launched, event.returned, event.staged]
        times += [event.committed, event.published]
        assert times == sorted(times)
        assert event.began == begins[event.window_id]
        assert event.committed >= over
        over = event.committed
    assert max(under_way for under_way, _, _ in driven.seen) == 3


def test_figures_speak_of_the_oldest_window_under_way():
    driven = Driven(seconds=0.25)
    driven.drive(windows=6)
    assert all(current == window for _, current, window in driven.seen if current is not None)
    assert {current for under_way, current, _ in driven.seen if under_way == 3} >= {0, 1, 2}
    rows = {row["windowId"]: row for row in driven.measurement.windows(6)}
    planned = {event.window_id: event for event in driven.of(WindowPlanned)}
    for event in driven.of(WindowCommitted):
        row = rows[event.window_id]
        assert sum(row["phases"].values()) == pytest.approx(row["latencyMs"], abs=0.01)
        late = event.began - planned[event.window_id].due
        assert row["lateMs"] == pytest.approx(1000 * late, abs=1e-3)


def test_windows_in_which_nothing_moves_cost_no_commit():
    """They are committed with the next that is not empty, after a second, and when the run is to stop."""
    driven = Driven(0.0, every=25)
    commit, records = driven.checkpoint.commit, []

    def note(manifest, changes):
        records.append((manifest.window_id, driven.clock.monotonic()))
        assert [event.window_id for event in driven.of(WindowCommitted)] == list(
            range(driven.run.next_window)
        )
        return commit(manifest, changes)

    driven.checkpoint.commit = note
    assert driven.drive(windows=53) == list(range(53))
    windows, times = zip(*records, strict=True)
    assert {0, 25, 50, 52} <= set(windows)
    assert len(windows) <= 12
    assert max(after - before for before, after in itertools.pairwise(times)) <= 1 + 2 * WIDTH
    assert driven.checkpoint.last().window_id == 52
    assert driven.run.publishers["sink"].tuples(None) == [Tick(0), Tick(1), Tick(2)]
    held = [event for event in driven.of(WindowCommitted) if event.held_seconds]
    assert len(held) > 30
    assert max(event.published - event.began for event in held) < 2 * WIDTH  # the times are without it
    assert all(event.at >= event.published + event.held_seconds - 1e-6 for event in held)


def test_one_window_at_a_time_is_committed_at_once_though_it_is_empty():
    driven = Driven(0.0, every=25)
    for window_id in range(4):
        driven.run.window(window_id)
        assert driven.run.next_window == window_id + 1
