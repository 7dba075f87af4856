"""A real Kafka to files: kill the driver, stop and kill the broker; each message is in the files once."""

import json
import signal

import pytest
from confluent_kafka import Consumer, TopicPartition

from support.crash.processes import committed
from support.crash.rows import visible
from support.kafka.feed import Feed
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "kafka" / "ledger.py"


def entries(output):
    return [json.loads(line) for path in visible(output) for line in path.read_text().splitlines()]


def messages_in(broker, topic):
    """How many messages a topic has had."""
    consumer = Consumer({"bootstrap.servers": broker.direct_servers, "group.id": "tests", "log_level": 0})
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=PATIENCE_SECONDS)[1]
            for number in partitions
        ]
        return sum(ends)
    finally:
        consumer.close()


def test_each_message_is_in_the_files_once(broker, start, wait_until, tmp_path):
    broker.topic("ledger", partitions=2)
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    properties = ("--brokers", broker.direct_servers, "--topic", "ledger", "--output", output)
    command = (APPLICATION, *properties, "--checkpoint", checkpoint, "--master", "local[2]", "--quiet")
    feed = Feed(broker, "ledger", rate=300)
    feed.start()

    def more(driver, windows):
        goal = committed(checkpoint) + windows
        wait_until(lambda: committed(checkpoint) >= goal or driver.exit_code is not None, f"window {goal}")
        assert driver.exit_code is None, driver.text

    def kill(driver):
        driver.kill()
        wait_until(lambda: not driver.members(), "its JVM to end")

    for windows in (1, 4):
        driver = start(*command)
        more(driver, windows)
        kill(driver)
    driver = start(*command)
    more(driver, 3)
    # The broker goes while windows run; messages wait in the producer meanwhile.
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
        more(driver, 4)
    kill(driver)
    written = feed.finish()
    assert messages_in(broker, "ledger") == len(written) > 0

    last = start(*command)
    wait_until(lambda: len(entries(output)) >= len(written) or last.exit_code is not None, "all messages")
    last.process.send_signal(signal.SIGINT)
    assert last.wait() == 0, last.text
    found = entries(output)
    expected = sorted((partition, offset, int(value)) for partition, offset, value in written)
    assert sorted((entry["partition"], entry["offset"], entry["value"]) for entry in found) == expected
    by_key = {}
    for entry in found:
        by_key.setdefault(entry["key"], []).append(entry["number"])
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_key.values())
