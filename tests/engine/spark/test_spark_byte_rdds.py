"""RDDs of bytes: what a job brings, and where its task would run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from pyspark import SparkContext

from ridgeline.engine.spark.byte_rdds import ByteRdds

pytestmark = pytest.mark.spark


def named(index: int, _records: Iterable[object]) -> Iterator[bytes]:
    yield b"%d" % index


def test_a_task_that_prefers_hosts_runs_once_and_spark_knows_of_them(spark_context: SparkContext) -> None:
    rdds = ByteRdds(spark_context)
    rdd = rdds.preferring(["alpha", "beta"], named)
    assert list(rdd.toJavaRDD().collectAsync().get()) == [b"0"]
    assert list(rdds.preferring([], named).toJavaRDD().collectAsync().get()) == [b"0"]
    found = spark_context._jsc.sc().getPreferredLocs(rdd, 0)  # as Spark's scheduler asks
    assert {str(found.apply(index)) for index in range(found.size())} == {"alpha", "beta"}
