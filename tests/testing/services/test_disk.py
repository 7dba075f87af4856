"""Servers whose disk is full."""

import pytest
from confluent_kafka import Producer

from ridgeline.testing import services
from ridgeline.testing.services import ServiceError
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.crash
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _has_disks():
    if reason := services.Service.why_no_disk():
        pytest.skip(reason)


def test_postgres_refuses_rows_on_a_full_disk_and_takes_them_again():
    with services.postgres(disk_bytes=256 * MIB) as postgres:
        postgres.execute("create table t (a text)")
        postgres.fill_disk()
        fill = "insert into t select repeat('x', 7000) from generate_series(1, 100)"
        with pytest.raises(ServiceError, match="No space left on device"):
            postgres.execute(fill)
        postgres.free_disk()
        postgres.recover()
        postgres.execute(fill)
        assert postgres.execute("select count(*) from t") == "100"


def test_data_on_a_small_disk_survive_a_kill():
    with services.postgres(disk_bytes=256 * MIB) as postgres:
        postgres.execute("create table t (a int); insert into t values (7)")
        postgres.kill()
        assert postgres.restart().execute("select a from t") == "7"


def test_a_full_disk_ends_kafka_and_its_messages_are_there_again():
    with services.kafka(disk_bytes=256 * MIB) as kafka:
        topic = kafka.topic()
        assert _send(kafka, topic, 3) == [True] * 3
        kafka.fill_disk()

        def has_ended():  # by a write that fails: messages that timed out before they were sent are none
            assert not any(_send(kafka, topic, 30, **{"message.timeout.ms": 5000}))
            return not kafka.running

        wait_until(has_ended, "the end of the broker")
        kafka.recover()
        assert _send(kafka, topic, 3) == [True] * 3


def _send(kafka, topic, count, **settings):
    """Write messages; whether each was acknowledged.

    `error == None`, as `None in errors` asks it, leaves an exception of the client to the next call.
    """
    reports = []
    producer = Producer({"bootstrap.servers": kafka.servers, "log_level": 0, **settings})
    for _ in range(count):
        producer.produce(topic, b"x" * 100_000, on_delivery=lambda error, _: reports.append(error is None))
    producer.flush(PATIENCE_SECONDS)
    return reports


def test_without_a_size_the_disk_cannot_be_filled():
    with services.postgres() as postgres, pytest.raises(ServiceError, match="disk_bytes"):
        postgres.fill_disk()
