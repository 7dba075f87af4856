"""A real Kafka broker that is killed, stopped, paused and cut off."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support import services
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.crash


def _producer(servers, **settings):
    return Producer({"bootstrap.servers": servers, "log_level": 0, **settings})


def _write(kafka, topic, values):
    reports = []
    producer = _producer(kafka.servers)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: reports.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert reports == [None] * len(values)


def _read(kafka, topic, count):
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": "readers", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while len(found) < count:
            found += [message.value() for message in consumer.consume(count, 1) if message.error() is None]
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_was_acknowledged_is_there_after_the_broker_has_ended(kafka, end):
    topic = kafka.topic()
    _write(kafka, topic, [b"a", b"b"])
    getattr(kafka, end)()
    assert not kafka.running
    kafka.start()
    assert kafka.running
    _write(kafka, topic, [b"c"])
    assert _read(kafka, topic, 3) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("hang", [False, True])
def test_a_producer_waits_until_the_network_is_mended(kafka, hang):
    topic = kafka.topic()
    producer, reports = _producer(kafka.servers), []
    producer.produce(topic, b"early", on_delivery=lambda error, _message: reports.append(error))
    producer.flush(PATIENCE_SECONDS)
    kafka.cut(hang=hang)
    producer.produce(topic, b"late", on_delivery=lambda error, _message: reports.append(error))
    producer.flush(1)
    assert reports == [None]
    kafka.mend()
    producer.flush(PATIENCE_SECONDS)
    assert reports == [None, None]
    assert _read(kafka, topic, 2) == [b"early", b"late"]


def test_topics_have_names_settings_and_partitions_of_their_own(kafka):
    first, second = kafka.topic(), kafka.topic("given", partitions=3, config={"cleanup.policy": "compact"})
    assert first != second == "given"
    topics = _producer(kafka.direct_servers).list_topics(timeout=PATIENCE_SECONDS).topics
    assert len(topics["given"].partitions) == 3
    assert len(topics[first].partitions) == 1


def test_a_wrong_setting_is_said_with_what_the_broker_printed():
    with pytest.raises(services.ServiceError, match=r"(?s)kafka: .*num\.network\.threads"):
        services.kafka(settings={"num.network.threads": "many"}).start()
