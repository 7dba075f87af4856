"""Partitions on Spark: joins by key, and the order of a key's tuples from a Spark source on."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.operators import SparkInput
from support.engine.applications import sink
from support.engine.on_spark import run_on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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
