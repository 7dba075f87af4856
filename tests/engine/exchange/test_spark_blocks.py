"""Blocks by reference on Spark: no files are left; a lost block makes a window run again."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort, State
from ridgeline.operators import SparkInput
from support.engine.applications import Number, sink
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark

COUNT = 20_000
WINDOWS = 3


class Numbers(InputOperator):
    """20,000 numbers a window: enough for blocks by reference."""

    numbers = OutputPort(Number)

    def emit_tuples(self):
        self.numbers.emit_batch(pa.record_batch([pa.array(np.arange(COUNT))], names=["value"]))
        if self.context.window_id == WINDOWS - 1:
            self.finish()


class Total(Operator):
    """Emits the sum of its numbers so far, and how many files of blocks its process has mapped."""

    numbers = InputPort(Number, key="value")
    out = OutputPort(Number)
    mapped = OutputPort(Number)

    total = State(0)
    thief: bool = False

    @numbers.process_batch
    def add(self, batch):
        self.total += int(batch.column(0).to_numpy().sum())
        paths = {
            line.split(None, 5)[5].strip()
            for line in Path("/proc/self/maps").read_text().splitlines()
            if "ridgeline-blocks-" in line
        }
        self.mapped.emit(Number(len(paths)))
        if self.thief and self.context.window_id == 1:
            for path in paths:
                Path(path).unlink(missing_ok=True)

    def end_window(self):
        self.out.emit(Number(self.total))


class Last(Operator):
    """Takes the numbers past the stage of `total`, so after it."""

    numbers = InputPort(Number)
    totals = InputPort(Number)
    out = OutputPort(Number)

    count = State(0)

    @totals.process
    def ignore(self, number):
        pass

    @numbers.process_batch
    def add(self, batch):
        self.count += len(batch)

    def end_window(self):
        self.out.emit(Number(self.count))


def application(*, thief):
    app = Application("blocks", window="1ms")
    source = app.add_operator("numbers", Numbers(), partitions=2)
    total = app.add_operator("total", Total(thief=thief), partitions=2)
    last = app.add_operator("last", Last())
    app.add_stream("numbers", source.numbers, total.numbers, last.numbers)
    app.add_stream("totals", total.out, last.totals, sink(app, "totals", Number), locality="NODE_LOCAL")
    app.add_stream("mapped", total.mapped, sink(app, "mapped", Number))
    app.add_stream("counts", last.out, sink(app, "counts", Number))
    return app


def values(run, operator):
    return [number.value for number in run.collected(operator)]


def check(run):
    sums = values(run, "totals")
    assert [sum(sums[i : i + 2]) for i in range(0, 2 * WINDOWS, 2)] == [
        2 * sum(range(COUNT)) * (w + 1) for w in range(WINDOWS)
    ]
    assert values(run, "counts") == [2 * COUNT * (w + 1) for w in range(WINDOWS)]
    assert not list(Path("/dev/shm").glob(f"ridgeline-blocks-{os.getpid()}-*"))


def test_a_lost_block_is_a_window_that_is_run_again_once(spark_context, tmp_path):
    run = run_on_spark(application(thief=True), spark_context, tmp_path)
    check(run)
    retried, *others = run.retries
    assert all(retry.window_id > 1 for retry in others)  # those in flight behind it, in slots
    assert (retried.window_id, retried.attempt) == (1, 1)
    assert re.search(r"a block of container [01] for port `\w+` \(stream `numbers`\) is lost", retried.reason)
    assert "ridgeline-blocks-" in retried.reason


SPARK_PARTITIONS = 3


class Row(NamedTuple):
    key: int
    value: int


class Pass(Operator):
    rows = InputPort(Row, key="key")
    out = OutputPort(Row)

    @rows.process
    def one(self, row):
        self.out.emit(row)


def by_spark_partition(frame):
    """The key is the number of the Spark partition: as a Kafka topic whose producer divides it by key."""
    return frame.selectExpr(f"value % {SPARK_PARTITIONS} AS key", "value")


def rows(app, *, partitions):
    options = {"rowsPerBatch": 30, "numPartitions": SPARK_PARTITIONS}
    source = SparkInput(format="rate-micro-batch", options=options, schema=Row, transform=by_spark_partition)
    return app.add_operator("rows", source, partitions=partitions).output


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_order_per_key_from_spark_to_the_sink(spark_context, tmp_path, partitions):
    app = Application("order", window="1ms")
    step = app.add_operator("step", Pass(), partitions=3)
    app.add_stream("in", rows(app, partitions=partitions), step.rows)
    app.add_stream("out", step.out, sink(app, "store", Row))

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=3)

    found = run.collected("store")
    for key in range(SPARK_PARTITIONS):
        assert [row.value for row in found if row.key == key] == list(range(key, 90, SPARK_PARTITIONS))
