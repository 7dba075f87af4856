"""Micro-batches without Spark: threads, or processes, stand in for the tasks that hand rows to slots."""

import itertools
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from ridgeline import Application
from ridgeline.api.clock import SystemClock
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import SparkSource
from ridgeline.engine.slot.feed_task import FeedTask, feed
from ridgeline.operators import SparkInput
from support.engine.applications import Number, Sum, sink
from support.engine.forked_slots import PROCESSES

_TRIES = 4
"""As Spark tries a task."""
_runs = itertools.count()


def of_numbers(*values):
    """A record batch of `Number`."""
    return pa.record_batch([pa.array(values, pa.int64())], schema=Schema(Number).arrow)


def fed_application(partitions=2, *, summing=None, **attributes):
    """Numbers of a Spark source, their running sum, a sink for each of the two."""
    app = Application("fed", window="1ms", window_work="1h")
    numbers = app.add_operator(
        "numbers", SparkInput(format="rate", schema=Number), partitions=partitions, **attributes
    )
    total = app.add_operator("total", summing or Sum())
    app.add_stream("numbers", numbers.output, total.numbers, sink(app, "seen", Number))
    app.add_stream("sums", total.sums, sink(app, "store", Number))
    return app


@dataclass
class Batch:
    """A micro-batch: the record batches of each task. `fails`: so many attempts fail.

    `act(feed, task, attempt)` may do something to the process of a task. `twice`: each is run twice at once.
    """

    tasks: list
    act: object = None
    fails: int = 0
    twice: bool = False
    attempts: list = field(default_factory=list)


@dataclass(frozen=True)
class UntilNext:
    """Among a task's record batches: wait until there is one more file in the folder, or `most`."""

    folder: Path
    most: int

    def wait(self):
        before = len(list(self.folder.iterdir()))
        while (count := len(list(self.folder.iterdir()))) == before and count < self.most:
            SystemClock().wait(0.01)


def _feed(text, index, messages, run, attempt, results=None):
    """One run of a task: a number among the messages is a pause."""
    clock = SystemClock()

    def read():
        for message in messages:
            if isinstance(message, float):
                clock.wait(message)
            elif isinstance(message, UntilNext):
                message.wait()
            else:
                yield message

    lost = feed(FeedTask.decode(text), index, read(), run, attempt, clock.monotonic())
    if results is not None:
        results.send(lost)
    return lost


class ProcessFeed:
    """Runs tasks, again if their processes die, as Spark does; as `SparkFeed`."""

    def __init__(self, batch, plan):
        self.tasks = len(batch.tasks)
        home = {
            operator: container.id
            for container in plan.execution.containers
            for operator in container.operators
        }
        by_name = {}
        for one in plan.physical.operators:
            if isinstance(one.operator, SparkSource):
                by_name.setdefault(one.name, []).append(home[one.id])
        self.sources = tuple(tuple(found) for found in by_name.values())
        first = next(
            (one for task in batch.tasks for one in task if not isinstance(one, float | UntilNext)), None
        )
        self.schema = b"" if first is None else first.schema.serialize().to_pybytes()
        self.processes = {}
        self._batch = batch
        self._results = deque()
        self._threads = []
        self._cancelled = False

    def start(self, task):
        self._batch.attempts.append(self)
        if self._batch.fails:
            self._batch.fails -= 1
            self._results.append(RuntimeError("the broker is away"))
            self.tasks = 1
            return
        times = 2 if self._batch.twice else 1
        self._threads = [
            threading.Thread(target=self._run, args=(task.encode(), index), daemon=True)
            for index in range(self.tasks)
            for _ in range(times)
        ]
        self.tasks = len(self._threads)
        for thread in self._threads:
            thread.start()

    def _run(self, text, index):
        messages = [
            one if isinstance(one, float | UntilNext) else one.serialize().to_pybytes()
            for one in self._batch.tasks[index]
        ]
        if self._batch.act is None:
            self._results.append(_feed(text, index, messages, next(_runs), 0))
            return
        for attempt in range(_TRIES):
            ours, theirs = PROCESSES.Pipe(duplex=False)
            arguments = (text, index, messages, next(_runs), attempt, theirs)
            process = PROCESSES.Process(target=_feed, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.processes[index, attempt] = process
            self._batch.act(self, index, attempt)
            try:
                self._results.append(ours.recv())
                break
            except EOFError:
                if self._cancelled:
                    break
        else:
            self._results.append(RuntimeError("Python worker exited unexpectedly"))

    def lost(self):
        if len(self._results) < self.tasks:
            return None
        for found in self._results:
            if isinstance(found, Exception):
                raise found
        return next((found for found in self._results if found), "")

    def cancel(self):
        self._cancelled = True
        for process in list(self.processes.values()):
            process.kill()


class MicroBatches:
    """A trigger that has micro-batches, one window after the other."""

    def __init__(self, run, batches):
        self._run = run
        self._batches = batches

    def drive(self):
        self._run.executor.open()
        for window_id, batch in enumerate(self._batches, self._run.next_window):
            self._run.window(window_id, batch)
