"""The least that Python needs for `kafka-age`: a loop over confluent-kafka, exactly once, counts in memory.

`python -m benchmarks.kafka_bare SERVERS SOURCE TARGET` runs until it is ended. It keeps no state that a crash
would leave, so it does less than it must: its age is a bound for a program in Python beside this broker.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from uuid import uuid4

_AT_ONCE = 10_000
_SECONDS = 30.0


def count(servers: str, source: str, target: str) -> None:
    """Read what is there, count it by key, and write the counts and the offsets in one transaction."""
    from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

    connection = {"bootstrap.servers": servers}
    reading = {"group.id": "bare", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({**connection, **reading})
    partitions = consumer.list_topics(source).topics[source].partitions
    consumer.assign([TopicPartition(source, number, OFFSET_END) for number in partitions])
    writing = {"transactional.id": uuid4().hex, "linger.ms": 0, "retry.backoff.ms": 1}
    producer = Producer({**connection, **writing})
    producer.init_transactions(_SECONDS)
    group = consumer.consumer_group_metadata()
    seen: Counter[str] = Counter()
    while True:
        first = consumer.poll(_SECONDS)
        if first is None:
            continue
        messages = [first, *consumer.consume(_AT_ONCE, 0)]
        producer.begin_transaction()
        reached: dict[int, int] = {}
        for message in messages:
            if message.error() is not None:
                continue
            event = json.loads(message.value())
            reached[message.partition()] = message.offset() + 1
            if event["number"] < 0:
                continue
            key = event["key"]
            seen[key] += 1
            value = b'{"key":"%s","count":%d,"created":%r}' % (key.encode(), seen[key], event["created"])
            producer.produce(target, value, key.encode())
        places = [TopicPartition(source, number, offset) for number, offset in reached.items()]
        producer.send_offsets_to_transaction(places, group, _SECONDS)
        producer.commit_transaction(_SECONDS)


if __name__ == "__main__":
    count(*sys.argv[1:])
