"""Ages from topic to topic, by a consumer's clock: a process of its own, so no contestant shares its lock.

`python -m benchmarks.kafka_clock SERVERS SOURCE TARGET RATE WARM SECONDS` prints the ages, in seconds, as
JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time

_CREATED = b'"created":'
_STEADY_AGE = 1.0
_PATIENCE_SECONDS = 120.0


def feed(servers: str, topic: str, rate: int, stop: threading.Event) -> None:
    """So many messages a second, each with the moment at which it was due.

    Those of a millisecond travel together. One request for each takes half a core of the machine, which
    contestants need.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 1})
    begun, sent = time.time(), 0
    while not stop.is_set():
        for number in range(sent, int((time.time() - begun) * rate)):
            value = b'{"number":%d,"key":"k%d","created":%r}' % (number, number % 100, begun + number / rate)
            producer.produce(topic, value, b"k%d" % (number % 100))
            sent = number + 1
        producer.poll(0)
        time.sleep(0.001)
    producer.flush(10)


def ages(servers: str, source: str, target: str, rate: int, warm: float, seconds: float) -> list[float]:
    """The ages of messages as a reader of committed records gets them.

    From `warm` seconds after the first one that is younger than a second.
    """
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "clock",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    partitions = consumer.list_topics(target).topics[target].partitions
    consumer.assign([TopicPartition(target, number, OFFSET_END) for number in partitions])
    consumer.poll(1.0)
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(servers, source, rate, stop))
    feeder.start()
    found: list[float] = []
    steady: float | None = None
    deadline = time.time() + _PATIENCE_SECONDS
    while (now := time.time()) < (deadline if steady is None else steady + warm + seconds):
        message = consumer.poll(0.5)
        if message is None or message.error() is not None:
            continue
        now, value = time.time(), message.value()
        created = value[value.rindex(_CREATED) + len(_CREATED) :]
        age = now - float(created.strip().rstrip(b"}"))
        if steady is None and age < _STEADY_AGE:  # what came while it started is behind it
            steady = now
        elif steady is not None and now > steady + warm:
            found.append(age)
    stop.set()
    feeder.join()
    return found


if __name__ == "__main__":
    servers, source, target, rate, warm, seconds = sys.argv[1:]
    print(json.dumps(ages(servers, source, target, int(rate), float(warm), float(seconds))))
