"""Kafka to Kafka on Spark: drivers, slots and the broker are killed; a reader sees each message once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import pytest

from support.crash.processes import Driver, committed, slots_of
from support.depth import deep
from support.kafka.feed import Feed
from support.operators.kafka_topics import ends, seen
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(3)
RATE = int(os.environ.get("RATE", "300"))
APPLICATION = SUPPORT / "crash" / "kafka_orders.py"
CHANGED = "read", "pass_on", "check", "write"


@pytest.fixture
def start(tmp_path):
    drivers = []

    def begin(*arguments):
        drivers.append(Driver(arguments, tmp_path / "run.log"))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.clean()


def numbers_by_key(kafka, topic):
    """The numbers of each key as a reader of committed records sees them."""
    found = {}
    for messages in seen(kafka, topic).values():
        for message in messages:
            found.setdefault(message.key().decode(), []).append(json.loads(message.value())["number"])
    return found


@pytest.mark.parametrize(("sources", "targets"), [(3, 2)])
def test_each_message_is_there_once_in_order(kafka, start, tmp_path, sources, targets):
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    source, target = kafka.topic(partitions=sources), kafka.topic(partitions=targets)
    name, checkpoint = f"orders-{os.getpid()}-{seed}", tmp_path / "checkpoint"

    def begin():
        counts = {one: chance.choice([1, 2, 3]) for one in ("inputs", "checks", "outputs")}
        given = {"servers": kafka.servers, "source": source, "target": target, "name": name, **counts}
        words = [word for key, value in given.items() for word in (f"--{key}", value)]
        return start(APPLICATION, *words, "--checkpoint", checkpoint, "--master", "local[4]", "--quiet")

    def more_windows(driver, count):
        goal = committed(checkpoint) + count
        wait_until(lambda: committed(checkpoint) >= goal or driver.exit_code is not None, f"window {goal}")
        assert driver.exit_code is None, driver.text

    feed = Feed(kafka, source, RATE, lambda number: (b'{"number": %d}' % (number // 16), str(number % 16)))
    feed.start()
    driver = begin()
    killed, changes = Counter(), []
    ways = chance.sample(["driver", "slot", "broker"], 3)  # few kills: each way in turn
    for kill in range(KILLS):
        more_windows(driver, chance.choice([1, 5, 20]))
        if chance.random() < 0.5 or not changes:
            words = "repartition", name, chance.choice(CHANGED), str(chance.choice([1, 2, 3, 5]))
            command = [sys.executable, "-m", "ridgeline.cli.main", *words]
            changes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            if chance.random() < 0.5:
                with suppress(subprocess.TimeoutExpired):
                    changes[-1].wait(PATIENCE_SECONDS)
        time.sleep(chance.uniform(0.0, 1.0))
        what = ways[kill % 3]
        killed[what] += 1
        if what == "broker":
            kafka.kill()
            time.sleep(chance.uniform(0.0, 1.0))
            kafka.restart()
        elif what == "slot" and (slots := slots_of(driver)):
            os.kill(chance.choice(slots), signal.SIGKILL)
        else:
            driver.kill()
            driver = begin()
    more_windows(driver, 3)
    written = len(feed.finish())
    expected = {str(key): list(range(len(range(key, written, 16)))) for key in range(16)}

    def all_there():
        """Messages and marks of transactions have offsets: so many are there at least, and then it counts."""
        if sum(ends(kafka, target).values()) < written:
            return False
        return sum(map(len, numbers_by_key(kafka, target).values())) >= written

    wait_until(lambda: driver.exit_code is not None or all_there(), "all messages", every=2)
    driver.process.send_signal(signal.SIGINT)
    assert driver.wait() == 0, driver.text
    assert numbers_by_key(kafka, target) == expected
    codes = Counter(change.wait(PATIENCE_SECONDS) for change in changes)
    print(f"killed: {killed}; changes by their exit code: {codes}; {written} messages")
