"""An application that runs in this process, in a thread, with its web service: for those who change it."""

import io
import threading
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console

from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.api.clock import SystemClock
from ridgeline.api.publisher import PublisherContext
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.engine.driver.run.run import ApplicationRun
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.observe.plan_topology import planned_event
from ridgeline.observe.watch import Watch
from ridgeline.plan.planner import plan_application
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from ridgeline.testing import CollectorSink
from ridgeline.testing.local_executor import LocalExecutor
from ridgeline.testing.sinks import collected
from support.waiting import PATIENCE_SECONDS


class Number(NamedTuple):
    key: int
    value: int


class Numbers(InputOperator):
    """`per_window` numbers a window, counted from 0, for as long as it runs."""

    output = OutputPort(Number)

    per_window: int = 3
    password: str = "hunter2"

    count = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.count, self.count + self.per_window):
            self.output.emit(Number(number % 7, number))
        self.count += self.per_window


class Sums(Operator):
    """The numbers of each key, and their running sums."""

    input = InputPort(Number, key="key")
    output = OutputPort(Number)
    odd = OutputPort(Number)

    factor: int = 1

    sums = KeyedState(int, key=int, default=0)

    @input.process
    def add(self, number: Number) -> None:
        self.sums[number.key] += self.factor * number.value
        self.output.emit(number)


class Words(Operator):
    """Reads and emits what none of the others does."""

    input = InputPort(str)
    output = OutputPort(str)

    @input.process
    def take(self, word: str) -> None:
        self.output.emit(word)


def numbers() -> Application:
    app = Application("numbers", window="2ms")
    source = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sums(), partitions=2)
    sink = app.add_operator("sink", CollectorSink(Number))
    app.add_stream("numbers", source.output, sums.input)
    app.add_stream("sums", sums.output, sink.input)
    return app


class Living:
    """A run and what surrounds it. `failure`: why its thread has ended, if not by `end`."""

    def __init__(self, app, storage=None, tls=None, **tokens):
        clock, storage = SystemClock(), storage or MemoryStorage()
        planner = Planner(
            lambda values, kept, edits: plan_application(app, values, {}, edits=edits, kept=kept), {}
        )
        self.planner = planner
        self.checkpoint = Checkpoint(storage, app.name)
        plan = planner.settled(self.checkpoint.last())
        self.watch = Watch(clock.wall)
        self.executor = LocalExecutor(plan, storage, clock, self.checkpoint.run_id)

        def planned(plan):
            return planned_event(plan, at=clock.wall(), application_id="numbers-1", info={"user": "ann"})

        def publisher_context(operator):
            return PublisherContext(
                application=app.name,
                operator=operator,
                run_id=self.checkpoint.run_id,
                clock=clock,
                console=Console(file=io.StringIO()),
                staging=f"{storage.uri}/staging",
                spark=lambda: None,
                epoch=self.checkpoint.epoch,
                check_owner=self.checkpoint.check_owner,
            )

        self.watch.observe(planned(plan))
        self.run = ApplicationRun(
            plan,
            self.checkpoint,
            self.executor,
            clock,
            publisher_context,
            self.watch.observe,
            planner=planner,
        )
        self.run.on_plan(planned)
        self.web = web = create_app(self.watch, plan, **tokens)
        web.state.run = self.run
        self.server = WebServer(web, tls=tls)
        self.failure = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drive, name="living", daemon=True)
        self._thread.start()

    def _drive(self):
        run = self.run
        try:
            while not self._stop.is_set() and not run.stopping:
                run.take_changes()
                if run.may_begin:
                    run.begin(run.master.next_window)
                elif not (run.master.can_begin and run.commit_held()):
                    run.turn(0.001)
                if run.paused:
                    self._stop.wait(0.005)
            run.close(orderly=True)
        except BaseException as error:  # noqa: BLE001  shown by the test
            self.failure = error
            run.close(orderly=False)

    def collected(self, operator="sink"):
        return collected(self.run.publishers, operator, None)

    def end_windows(self):
        """End the run; the service goes on, as it does for a moment."""
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)

    def close(self):
        self.end_windows()
        self.server.close()
        self.checkpoint.close()


@contextmanager
def living(app=None, storage=None, *, tls=None, **tokens):
    """`storage`: default: memory, in which recordings cannot be read."""
    found = Living(app or numbers(), storage, tls, **tokens)
    try:
        yield found
    finally:
        found.close()
    if found.failure is not None:
        raise found.failure
