"""Runs of slow windows by a stepping clock."""

from __future__ import annotations

import threading
from typing import NamedTuple

from rich.console import Console

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.api.clock import Clock
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.driver.run.triggers import Limits, TickTrigger
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.measure.events import WindowCommitted, WindowPlanned, WindowStarted
from ridgeline.measure.measurement import Measurement
from ridgeline.observe.plan_topology import planned_event
from ridgeline.plan.planner import plan_application
from ridgeline.testing import CollectorSink, SteppingClock
from ridgeline.testing.local_executor import LocalExecutor

WIDTH = 0.1


def publisher_context(name: str, clock: Clock) -> PublisherContext:
    """The surroundings of a publisher that needs none of them."""
    return PublisherContext("ticks", name, "run", clock, Console(), "memory:", lambda: None, 1, lambda: None)


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
        return publisher_context(name, self.clock)

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
