"""Partitions on Spark: joins by key, and the order of a key's tuples from a Spark source on."""

from collections import Counter as Counts
from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.api.errors import OperatorError
from ridgeline.operators import SparkInput
from support.engine.applications import FailingSum, sink, sum_application
from support.engine.on_spark import run_on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK_PARTITIONS = 3


class Row(NamedTuple):
    key: int
    value: int


class Joined(NamedTuple):
    key: int
    left: int
    right: int


class Pass(Operator):
    rows = InputPort(Row, key="key")
    out = OutputPort(Row)

    @rows.process
    def one(self, row):
        self.out.emit(row)


class Join(Operator):
    """Pairs the n-th tuples of a key on both ports."""

    left = InputPort(Row, key="key")
    right = InputPort(Row, key="key")
    joined = OutputPort(Joined)

    lefts = KeyedState(tuple, default=())

    @left.process
    def note(self, row):
        self.lefts[row.key] = (*self.lefts[row.key], row.value)

    @right.process
    def join(self, row):
        first, *rest = self.lefts[row.key]
        self.lefts[row.key] = tuple(rest)
        self.joined.emit(Joined(row.key, first, row.value))


def by_spark_partition(frame):
    """The key is the number of the Spark partition: as a Kafka topic whose producer divides it by key."""
    return frame.selectExpr(f"value % {SPARK_PARTITIONS} AS key", "value")


def rows(app, *, partitions):
    options = {"rowsPerBatch": 30, "numPartitions": SPARK_PARTITIONS}
    source = SparkInput(format="rate-micro-batch", options=options, schema=Row, transform=by_spark_partition)
    return app.add_operator("rows", source, partitions=partitions).output


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


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_self_join_pairs_each_row_with_itself(spark_context, tmp_path, partitions):
    app = Application("join", window="1ms")
    join = app.add_operator("join", Join(), partitions=partitions)
    app.add_stream("in", rows(app, partitions=2), join.left, join.right)
    app.add_stream("out", join.joined, sink(app, "store", Joined))

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=2)

    assert Counts(run.collected("store")) == Counts(
        Joined(value % SPARK_PARTITIONS, value, value) for value in range(60)
    )


def test_no_recovery_attempts_is_one_attempt(spark_context, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    app = sum_application(FailingSum(bad=35, failures=1, folder=str(notes)), recovery_attempts=0)

    run, error = run_on_spark(app, spark_context, tmp_path / "checkpoint", expect=OperatorError)

    assert len(list(notes.iterdir())) == 1
    assert run.retries == []
    assert run.ids == [0, 1, 2]
    assert error.failure.operator == "total"
