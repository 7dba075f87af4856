"""Topics that change: partitions and topics that come, and messages that are compacted away."""

import json
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from ridgeline import Application
from ridgeline.operators.kafka import KafkaInput
from ridgeline.testing import CollectorSink, run_local
from support.operators.kafka_topics import SECONDS, fill, numbers, seen
from support.waiting import wait_until

pytestmark = pytest.mark.slow


def test_partitions_and_topics_that_come_while_it_runs(kafka, reading):
    topic = kafka.topic(partitions=1)
    fill(kafka, topic, numbers(5))
    one = reading(kafka, f"^{topic}")
    one.until(lambda at: at == {f"{topic}-0": 5}, "all messages")
    admin = AdminClient({"bootstrap.servers": kafka.direct_servers, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    more = kafka.topic(f"{topic}-more")
    fill(kafka, more, numbers(4))
    fill(kafka, topic, [{"partition": 2, "value": {"number": number}} for number in range(7)])
    expected = {f"{topic}-0": 5, f"{topic}-1": 0, f"{topic}-2": 7, f"{more}-0": 4}
    one.until(lambda at: at == expected, "the new ones")
    assert one.offset["records"] == 16
    one.until(lambda _: one.says("reads new source partitions"), "what is said of them")


class Item(NamedTuple):
    key: str
    number: int
    gone: bool


@pytest.mark.parametrize("limit", [3, 1_000_000])
def test_a_topic_that_was_compacted(kafka, limit):
    """Offsets are missing then, also the last one of a window."""
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "200",
        "delete.retention.ms": "0",
        "max.compaction.lag.ms": "200",
    }
    topic = kafka.topic(partitions=2, config=config)
    written = [0]

    def is_compacted():
        """Messages of a few keys, a tombstone now and then, until most are compacted away."""
        first = written[0]
        messages = [
            {"key": f"k{n % 9}", "value": None if n % 31 == 0 else {"number": n}}
            for n in range(first, first + 40)
        ]
        fill(kafka, topic, messages)
        written[0] += 40
        return sum(map(len, seen(kafka, topic).values())) < written[0] // 2

    wait_until(is_compacted, "the topic to be compacted", every=0.5)
    plain = {
        message.key().decode(): message.value() for own in seen(kafka, topic).values() for message in own
    }
    app = Application("items", window="20ms")
    properties = {"until": "end", "key": "key", "deleted": "gone", "window_records": limit}
    source = KafkaInput(topic, servers=kafka.servers, schema=Item, **properties)
    app.read("items", source).write("sink", CollectorSink(Item))
    found = {row.key: None if row.gone else row.number for row in run_local(app).collected("sink")}
    assert {key: number for key, number in found.items() if number is not None} == {
        key: json.loads(value)["number"] for key, value in plain.items() if value is not None
    }
