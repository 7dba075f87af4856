"""Messages into topics, and what a reader of committed records sees of them."""

import json

from confluent_kafka import Consumer, Producer, TopicPartition

SECONDS = 30


def producer(kafka, **options):
    settings = {"bootstrap.servers": kafka.direct_servers, "log_level": 0, "linger.ms": 0}
    return Producer({**settings, **{name.replace("_", "."): value for name, value in options.items()}})


def fill(kafka, topic, messages, **options):
    """Write messages: dictionaries of the arguments of `produce`; a value that is no bytes becomes JSON."""
    writer = producer(kafka, **options)
    for message in messages:
        value = message.get("value")
        plain = value is None or isinstance(value, bytes)
        whole = {**message, "value": value if plain else json.dumps(value).encode()}
        while True:
            try:
                writer.produce(topic, **whole)
            except BufferError:
                writer.poll(1)
            else:
                break
    assert writer.flush(SECONDS) == 0


def numbers(count, keys=7, first=0):
    """Messages `{"number": n}`, each with one of a few keys."""
    return [
        {"key": f"k{number % keys}", "value": {"number": number}} for number in range(first, first + count)
    ]


def ends(kafka, topic, isolation="read_committed"):
    """The offset after the last message, by partition."""
    reader = _reader(kafka, isolation)
    try:
        partitions = reader.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        return {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=SECONDS)[1]
            for number in sorted(partitions)
        }
    finally:
        reader.close()


def _reader(kafka, isolation):
    return Consumer(
        {
            "bootstrap.servers": kafka.direct_servers,
            "group.id": "tests",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )


def seen(kafka, topic, isolation="read_committed"):
    """All messages that a reader sees, by partition, in order."""
    open_ = ends(kafka, topic, isolation)
    found = {partition: [] for partition in open_}
    reader = _reader(kafka, isolation)
    try:
        reader.assign([TopicPartition(topic, partition, 0) for partition in found])
        waiting = set(found)
        while waiting:
            message = reader.poll(SECONDS)
            assert message is not None, f"nothing comes of {waiting}"
            if message.error() is None:
                found[message.partition()].append(message)
            elif message.error().code() == -191:
                waiting.discard(message.partition())
            else:
                raise AssertionError(message.error())
    finally:
        reader.close()
    return found


def values(kafka, topic, isolation="read_committed"):
    """The JSON values that a reader sees, partition after partition."""
    found = seen(kafka, topic, isolation)
    return [json.loads(message.value()) for partition in sorted(found) for message in found[partition]]
