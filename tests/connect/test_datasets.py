"""The names of datasets that connectors say."""

from typing import NamedTuple

import pytest

from ridgeline import InputPort, Operator
from ridgeline.connect.datasets import datasets_of, file_datasets
from ridgeline.connectors.kafka import KafkaInput, KafkaOutput
from ridgeline.connectors.postgres import PostgresOutput
from ridgeline.connectors.sql import MariaDbOutput, SqliteOutput
from ridgeline.operators import FileOutput, SparkInput


class Order(NamedTuple):
    id: int
    cents: int


@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("/data/orders.csv", ("file", "/data/orders.csv")),
        ("/data/*/orders.csv", ("file", "/data")),
        ("s3a://sales/orders/day=1", ("s3://sales", "orders/day=1")),
        ("gs://sales/orders", ("gs://sales", "orders")),
        ("hdfs://names:8020/orders", ("hdfs://names:8020", "/orders")),
        ("hdfs://ann:hunter2@host/orders", ("hdfs://host", "/orders")),
    ],
)
def test_files(path, dataset):
    assert file_datasets(path) == [dataset]


def test_connectors_say_servers_and_names_without_secrets():
    spark = SparkInput("kafka", {"kafka.bootstrap.servers": "broker", "subscribe": "a, b"}, schema=Order)
    for operator, expected in (
        (KafkaInput("orders", servers="broker:9093,b", schema=Order), ("kafka://broker:9093", "orders")),
        (KafkaOutput("out", servers="broker"), ("kafka://broker:9092", "out")),
        (
            PostgresOutput("orders", dsn="postgresql://ann:hunter2@db:5433/sales"),
            ("postgres://db:5433", "sales.public.orders"),
        ),
        (MariaDbOutput("orders", url="mysql://ann:hunter2@db:3307/a"), ("mysql://db:3307", "a.orders")),
        (SqliteOutput(path="/data/a.db", table="orders"), ("file", "/data/a.db/orders")),
        (FileOutput("/data/out"), ("file", "/data/out")),
    ):
        assert datasets_of(operator) == [expected]
    assert datasets_of(spark) == [("kafka://broker:9092", "a"), ("kafka://broker:9092", "b")]
    assert datasets_of(PostgresOutput("orders", dsn="env:NOT_THERE")) == []


def test_an_author_says_own_ones_and_a_fault_there_leaves_them_out():
    class Own(Operator):
        data = InputPort(Order)

        def datasets(self):
            return [("https://ann:hunter2@host/x", "t")]

        @data.process
        def take(self, order):
            pass

    class Broken(Own):
        def datasets(self):
            raise ValueError(self)

    ((place, name),) = datasets_of(Own())
    assert ("hunter2" in place, name) == (False, "t")
    assert datasets_of(Broken()) == []
