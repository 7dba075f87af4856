"""A topic that is deleted and made again while it is read, and a transaction that stays open."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ridgeline import RidgelineError
from support.operators.kafka_topics import SECONDS, fill, numbers, producer
from support.waiting import wait_until

pytestmark = pytest.mark.slow


def make_again(kafka, topic, count):
    """Delete a topic, and make it again with so many messages."""
    admin = AdminClient({"bootstrap.servers": kafka.direct_servers, "log_level": 0})
    admin.delete_topics([topic], operation_timeout=SECONDS)[topic].result(SECONDS)

    def is_made():
        try:
            return kafka.topic(topic)
        except KafkaException:  # it is there yet
            return None

    wait_until(is_made, "the topic to be deleted")
    fill(kafka, topic, numbers(count))


@pytest.mark.parametrize("count", [3, 500])
def test_a_topic_that_is_made_again_is_noticed(kafka, reading, count):
    topic = kafka.topic()
    fill(kafka, topic, numbers(10))
    fails, skips = reading(kafka, topic), reading(kafka, topic, when_lost="skip")
    for one in (fails, skips):
        one.until(lambda at: at == {f"{topic}-0": 10}, "all messages")
        wait_until(lambda one=one: one.enumerator._watching.source._ids.known, "its id")
    make_again(kafka, topic, count)
    with pytest.raises(RidgelineError, match=f"`numbers`: topic `{topic}` was deleted and made again while"):
        fails.until(lambda _: False, "the error")
    skips.until(lambda at: skips.says("made again") and at == {f"{topic}-0": count}, "all of the new one")
    assert skips.says(f"partition {topic}-0 is of a topic that was made again")
    assert skips.says("it continues with record 0")
    assert skips.offset["records"] == 10 + count


def test_a_transaction_that_stays_open_is_said(kafka, reading):
    topic = kafka.topic()
    fill(kafka, topic, numbers(4))
    one = reading(kafka, topic)
    one.until(lambda at: at == {f"{topic}-0": 4}, "all messages")
    dead = producer(kafka, transactional_id=topic, transaction_timeout_ms=600_000)
    dead.init_transactions(SECONDS)
    dead.begin_transaction()
    dead.produce(topic, b'{"number": 4}')
    assert dead.flush(SECONDS) == 0
    fill(kafka, topic, numbers(3, first=5))
    one.until(lambda _: one.says("stuck") and one.enumerator.problem, "what it waits for")
    assert one.says(f"a transaction in topic `{topic}`, partition 0, is open since")
    assert one.says("4 records from offset 4 on wait for its end")
    assert f"partition {topic}-0 from offset 4 on wait" in one.enumerator.problem
    assert one.step() == {f"{topic}-0": 4}
    dead.abort_transaction(SECONDS)
    one.until(lambda at: at == {f"{topic}-0": 9}, "the records behind it")
    one.until(lambda _: one.says("has ended") and not one.enumerator.problem, "that it has ended")
