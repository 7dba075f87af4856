"""Runs with Spark's Kafka source."""

from support.crash.processes import Driver
from support.jars import jars


def kafka_driver(arguments, log):
    """Begin `ridgeline run ...` with Spark's Kafka source, a Driver."""
    packages = ",".join(map(str, jars("spark-kafka")))
    return Driver((*arguments, "--conf", f"spark.jars={packages}"), log)
