"""What Ridgeline has Spark do: RDDs of bytes, certificates, workers with a search path of their own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from pyspark import SparkContext

from ridgeline.engine.driver.slots.spark_slots import make_certificate
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.spark.java_object import ByteRdds
from support.engine.wire import TLS, Wire

pytestmark = pytest.mark.spark


def test_a_task_that_prefers_hosts_runs_once_and_spark_knows_of_them(spark_context: SparkContext) -> None:
    def named(
        index: int, _records: Iterable[object]
    ) -> Iterator[bytes]:  # a worker does not import this file
        yield b"%d" % index

    rdds = ByteRdds(spark_context)
    rdd = rdds.preferring(["alpha", "beta"], named)
    assert list(rdd.toJavaRDD().collectAsync().get()) == [b"0"]
    assert list(rdds.preferring([], named).toJavaRDD().collectAsync().get()) == [b"0"]
    found = spark_context._jsc.sc().getPreferredLocs(rdd, 0)  # as Spark's scheduler asks
    assert {str(found.apply(index)) for index in range(found.size())} == {"alpha", "beta"}


def test_each_certificate_is_a_new_one_that_others_can_read(spark_context):
    one, other = (make_certificate(spark_context._jvm) for _ in range(2))
    read = x509.load_pem_x509_certificate(one.chain.encode())
    read.verify_directly_issued_by(read)

    assert one.chain != other.chain
    assert one.key != other.key
    assert read.subject.rfc4514_string() == "CN=ridgeline"
    assert read.signature_hash_algorithm.name == "sha256"
    wire = Wire()
    master, slot = (wire.make(Peer(number), replace(TLS, certificate=one)) for number in range(2))
    slot.connect(master.me, master.address)
    wire.until(lambda: wire.opened(master) and wire.opened(slot), "the connection")
    wire.close()


def test_workers_do_not_search_where_the_command_runs(spark_context):
    def look(_index, _records):
        import sys

        yield sys.path, str(Path.cwd()), os.environ["PYTHONPATH"], os.environ.get("PYTHONSAFEPATH")

    found = spark_context.parallelize(range(1), 1).mapPartitionsWithIndex(look).collect()
    [(path, folder, told, setting)] = found
    assert folder == str(Path.cwd())
    assert "" not in path
    assert path.count(folder) == told.split(os.pathsep).count(folder)  # tests name it themselves
    assert setting is None
