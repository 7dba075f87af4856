"""A real Kafka to files: the driver is killed, the broker stopped and killed, and each message is in the files once."""

import itertools
import json
import signal
import threading
from pathlib import Path

import pytest

from crash.processes import committed
from crash.rows import visible

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = Path(__file__).with_name("ledger.py")
KEYS = 17


class Feed(threading.Thread):
    """Writes numbers to a topic, `rate` a second, until it is told to stop; what was acknowledged is in `written`."""

    def __init__(self, broker, topic, rate=1000):
        super().__init__(daemon=True)
        self.written = []
        self._producer, self._topic, self._rate = broker.producer(), topic, rate
        self._over = threading.Event()

    def run(self):
        for number in itertools.count():
            if number % (self._rate // 10) == 0 and self._over.wait(0.1):
                break
            self._producer.produce(self._topic, str(number), key=f"k{number % KEYS}", on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(120)

    def _delivered(self, error, message):
        assert error is None, error
        self.written.append((message.partition(), message.offset(), int(message.value())))

    def finish(self):
        self._over.set()
        self.join()
        return self.written


def entries(output):
    return [json.loads(line) for path in visible(output) for line in path.read_text().splitlines()]


def test_each_message_is_in_the_files_once(broker, start, wait_until, tmp_path):
    broker.create_topic("ledger")
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    properties = ("--brokers", broker.address, "--topic", "ledger", "--output", output)
    command = (APPLICATION, *properties, "--checkpoint", checkpoint, "--master", "local[2]", "--quiet")
    feed = Feed(broker, "ledger")
    feed.start()

    def more(driver, windows):
        goal = committed(checkpoint) + windows
        wait_until(lambda: committed(checkpoint) >= goal or driver.exit_code is not None, f"window {goal}", seconds=180)
        assert driver.exit_code is None, driver.text

    def kill(driver):
        driver.kill()
        wait_until(lambda: not driver.members(), "its JVM to end")

    for windows in (1, 3, 6):
        driver = start(*command)
        more(driver, windows)
        kill(driver)
    driver = start(*command)
    more(driver, 3)
    for by_force in (False, True):  # the broker goes while windows run; messages wait in the producer meanwhile
        broker.stop(kill=by_force)
        broker.start()
        more(driver, 4)
    kill(driver)
    written = feed.finish()
    assert sum(broker.ends("ledger").values()) == len(written) > 0

    last = start(*command)
    wait_until(lambda: len(entries(output)) >= len(written) or last.exit_code is not None, "all messages", seconds=180)
    last.process.send_signal(signal.SIGINT)
    assert last.wait() == 0, last.text
    found = entries(output)
    assert sorted((entry["partition"], entry["offset"], entry["value"]) for entry in found) == sorted(written)
    by_key = {}
    for entry in found:
        by_key.setdefault(entry["key"], []).append(entry["number"])
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_key.values())
