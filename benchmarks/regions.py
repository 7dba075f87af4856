"""Branches that do not wait for each other: a fast one beside a slow one; and what a durable queue costs.

`regions`: each record is stamped when it is made, and its age taken when the fast branch's results are
published. The sibling sleeps for a second in each of its windows.

`queue-hop`: the rows of `hop`, of which every other column is random, in windows of 8 MB. The disk's own
speed is measured beside it, since each window is synced.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import spark
from benchmarks.data import ROW, rows
from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.api.context import OperatorContext
from ridgeline.api.publisher import Publisher

P50, P99 = "p50 age seconds", "p99 age seconds"
ALONE, COUPLED, DECOUPLED = "alone", "one region", "decoupled"
_RATE = 1_000
_WARM_SECONDS = 3.0
RATE = "tuples/s"
BATCH_ROWS = 65_536
BATCHES = 2
"""Of a window of `queue-hop`: 8 MB."""


class Stamped(NamedTuple):
    number: int
    created: float


class Ticks(InputOperator):
    """A thousand records a second, each with the time at which it was due."""

    output = OutputPort(Stamped)
    begun = State(0.0)
    emitted = State(0)

    def emit_tuples(self) -> None:
        """Those that are due."""
        now = time.time()
        begun = self.begun or now
        if not self.begun:
            self.begun = now
        due = int((now - begun) * _RATE)
        for number in range(self.emitted, due):
            self.output.emit(Stamped(number, begun + number / _RATE))
        self.emitted = due


class Ages(Publisher):
    """Takes the ages of records when a window's results are published. One process runs one application."""

    found = array("d")
    enough = threading.Event()
    seconds = 20.0
    first = 0.0

    def __init__(self) -> None:
        self._staged: Sequence[list[float]] = ()

    def stage(self, window_id: int, values: Sequence[list[float]]) -> None:
        """Keep them until the commit."""
        self._staged = values

    def publish(self, window_id: int) -> None:
        """Look at the clock."""
        now = time.time()
        Ages.first = Ages.first or now
        if now - Ages.first > _WARM_SECONDS:
            Ages.found.extend(now - created for part in self._staged for created in part)
        self._staged = ()
        if now - Ages.first > _WARM_SECONDS + Ages.seconds:
            Ages.enough.set()


class Fast(Operator):
    """Hands over when its records were made."""

    records = InputPort(Stamped)

    def begin_window(self, window_id: int) -> None:
        """Nothing yet."""
        self.created: list[float] = []

    @records.process
    def take(self, record: Stamped) -> None:
        """Note a record."""
        self.created.append(record.created)

    def end_window(self) -> None:
        """Hand over what there was."""
        if self.created:
            self.context.hand_over(self.created)

    def publisher(self) -> Ages:
        """The driver's half."""
        return Ages()


class Slow(Operator):
    """Needs a second for each window."""

    records = InputPort(Stamped)

    @records.process
    def take(self, record: Stamped) -> None:
        """Nothing."""

    def end_window(self) -> None:
        """Sleep."""
        time.sleep(1.0)


def age(of_round: Round, *, sibling: bool, decoupled: bool) -> Figures:
    """The ages at the fast branch."""
    app = Application("regions", window="20ms")
    ticks = app.add_operator("ticks", Ticks())
    fast = app.add_operator("fast", Fast())
    sinks = [fast.records]
    if sibling:
        slow = app.add_operator("slow", Slow())
        sinks.append(slow.records)
    app.add_stream("records", ticks.output, *sinks, decoupled=set(sinks[1:]) if decoupled else False)
    Ages.seconds = 3.0 if of_round.quick else 20.0
    with app.start(
        spark.MASTER, port=None, quiet=True, checkpoint=str(of_round.folder / "checkpoint")
    ) as handle:
        while not Ages.enough.wait(0.2) and handle.is_running:
            pass
    p50, p99 = np.percentile(Ages.found, [50, 99])
    of_round.note(f"{len(Ages.found)} records")
    return {P50: [float(p50)], P99: [float(p99)]}


class Generate(InputOperator):
    """The same batches again and again."""

    output = OutputPort(ROW)
    windows: int = 100
    done = State(0)

    def setup(self, context: OperatorContext) -> None:
        """Make the batch."""
        self.batch = rows(BATCH_ROWS, context.partition)

    def emit_tuples(self) -> None:
        """A window's batches."""
        for _ in range(BATCHES):
            self.output.emit_batch(self.batch)
        self.done += 1
        if self.done >= self.windows:
            self.finish()


class Arrived(Publisher):
    """How many rows have arrived, and when: of committed windows. One process runs one application."""

    moments = array("d")
    counts = array("q")

    def __init__(self) -> None:
        self._staged = 0

    def stage(self, window_id: int, values: Sequence[int]) -> None:
        """Keep the number until the commit."""
        self._staged = sum(values)

    def publish(self, window_id: int) -> None:
        """Add it."""
        before = Arrived.counts[-1] if Arrived.counts else 0
        if self._staged:
            Arrived.moments.append(time.monotonic())
            Arrived.counts.append(before + self._staged)
        self._staged = 0


class Count(Operator):
    """Count rows by key."""

    data = InputPort(ROW, key="key")

    def begin_window(self, window_id: int) -> None:
        """Nothing yet."""
        self.counted = 0

    @data.process_batch
    def count(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.counted += batch.num_rows

    def end_window(self) -> None:
        """Hand over what there was."""
        self.context.hand_over(self.counted)

    def publisher(self) -> Arrived:
        """The driver's half."""
        return Arrived()


def hop(of_round: Round, *, decoupled: bool, folder: str = "") -> Figures:
    """Rows a second from the first quarter to the end. `folder`: of the checkpoint, and so of the queue."""
    windows = 20 if of_round.quick else 200
    app = Application("queue-hop", window=0)
    source = app.add_operator("source", Generate(windows=windows))
    count = app.add_operator("count", Count())
    app.add_stream(
        "rows", source.output, count.data, decoupled=decoupled, locality=None if decoupled else "NODE_LOCAL"
    )
    place = Path(folder or of_round.folder) / f"checkpoint-{os.getpid()}"
    conf = {"spark.ridgeline.blocks.byReference": "false"}
    try:
        with app.start(spark.MASTER, port=None, quiet=True, checkpoint=str(place), conf=conf) as handle:
            handle.wait()
    finally:
        if folder:
            shutil.rmtree(place, ignore_errors=True)
    total = Arrived.counts[-1]
    if total != windows * BATCHES * BATCH_ROWS:
        raise ValueError(f"{windows * BATCHES * BATCH_ROWS} rows were sent; got {total}")
    first = next(place for place, count in enumerate(Arrived.counts) if count >= total // 4)
    seconds = Arrived.moments[-1] - Arrived.moments[first]
    return {RATE: [(total - Arrived.counts[first]) / seconds]}


def disk(of_round: Round) -> Figures:
    """Rows a second that the disk takes as plain bytes, synced after each window's worth."""
    data = np.random.default_rng(1).bytes(BATCHES * BATCH_ROWS * 64)
    windows = 10 if of_round.quick else 100
    began = time.monotonic()
    with (of_round.folder / "plain").open("wb", buffering=0) as file:
        for _ in range(windows):
            file.write(data)
            os.fdatasync(file.fileno())
    return {RATE: [windows * BATCHES * BATCH_ROWS / (time.monotonic() - began)]}


_HOPS: Mapping[str, Any] = {
    "by value": partial(hop, decoupled=False),
    "decoupled": partial(hop, decoupled=True),
    "decoupled, in memory": partial(hop, decoupled=True, folder="/dev/shm"),
    "the disk": disk,
}

BENCHMARKS = (
    Benchmark(
        name="regions",
        title="regions: age at a fast branch beside one that needs a second a window",
        contestants={
            ALONE: partial(age, sibling=False, decoupled=False),
            DECOUPLED: partial(age, sibling=True, decoupled=True),
            COUPLED: partial(age, sibling=True, decoupled=False),
        },
        goals=[Goal(figure=P99, of=DECOUPLED, against=ALONE, at_most=1.2)],
        rounds=2,
        budget_seconds=300,
        part_of_all=False,
    ),
    Benchmark(
        name="queue-hop",
        title="queue-hop: 64-byte tuples to another container, plainly and through a durable queue",
        contestants=_HOPS,
        goals=[
            Goal(figure=RATE, of="decoupled", against="by value", at_least=0.6),
            Goal(figure=RATE, of="decoupled, in memory", against="by value", at_least=0.6),
        ],
        rounds=2,
        budget_seconds=300,
        part_of_all=False,
    ),
)
