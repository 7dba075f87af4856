"""RDDs of bytes: what a job brings, few and small or many and large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from pyspark import SparkContext

from ridgeline.engine.spark.byte_rdds import ByteRdds

pytestmark = pytest.mark.spark
LARGE = 10_000


def small(index: int, _numbers: Iterable[int]) -> Iterator[bytes]:
    yield b"%d" % index


def large(index: int, _numbers: Iterable[int]) -> Iterator[bytes]:
    yield b"%d" % index * LARGE


@pytest.mark.parametrize("partitions", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_all_records_come_in_the_order_of_partitions_whatever_came_before(
    spark_context: SparkContext, partitions: int
) -> None:
    rdds = ByteRdds(spark_context)
    few, much = (rdds.numbers(range(partitions), partitions, function) for function in (small, large))
    names = [b"%d" % index for index in range(partitions)]
    for _ in range(2):
        assert rdds.collect(few) == names
        assert rdds.collect(much) == [name * LARGE for name in names]


def test_a_task_that_prefers_hosts_runs_once_and_spark_knows_of_them(spark_context: SparkContext) -> None:
    rdds = ByteRdds(spark_context)
    rdd = rdds.preferring(["alpha", "beta"], small)
    assert rdds.collect(rdd) == [b"0"]
    assert rdds.collect(rdds.preferring([], small)) == [b"0"]
    found = spark_context._jsc.sc().getPreferredLocs(rdd, 0)  # as Spark's scheduler asks
    assert {str(found.apply(index)) for index in range(found.size())} == {"alpha", "beta"}
