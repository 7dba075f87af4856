"""An archive of files, then a topic, on Spark: drivers are killed on both sides of the seam."""

import json
import os
import random
import signal
from datetime import UTC, datetime, timedelta

import pytest

from support.crash.processes import Driver, committed
from support.depth import deep
from support.operators.kafka_topics import fill, seen
from support.paths import SUPPORT
from support.waiting import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(3)
APPLICATION = SUPPORT / "crash" / "kafka_history.py"
KEYS, IN_FILES, BEGIN, FIRST, MORE = 16, 2_000, 1_500, 2_500, 200
"""A key has numbers up to 2,000 in files; the topic begins with 1,500."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(key, number):
    return {"number": number, "at": (START + timedelta(seconds=number)).isoformat()} | (
        {} if key is None else {"key": f"k{key}"}
    )


def messages(first, end):
    return [
        {"key": f"k{key}", "value": row(None, number)} for number in range(first, end) for key in range(KEYS)
    ]


def test_each_record_is_there_once_in_order(kafka, tmp_path):
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    archive, checkpoint = tmp_path / "archive", tmp_path / "checkpoint"
    archive.mkdir()
    for first in range(0, IN_FILES, 100):
        rows = [row(key, number) for number in range(first, first + 100) for key in range(KEYS)]
        (archive / f"{first:05}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    source, target = kafka.topic(partitions=3), kafka.topic(partitions=2)
    fill(kafka, source, messages(BEGIN, FIRST))
    given = {"servers": kafka.servers, "source": source, "target": target, "archive": archive}
    words = [word for key, value in given.items() for word in (f"--{key}", value)]
    words += ["--name", f"history-{os.getpid()}-{seed}"]
    words += ["--checkpoint", checkpoint, "--master", "local[2]", "--quiet"]
    drivers = []

    def begin():
        drivers.append(Driver([APPLICATION, *words], tmp_path / "run.log"))
        return drivers[-1]

    def more_windows(driver, count):
        goal = committed(checkpoint) + count
        wait_until(lambda: committed(checkpoint) >= goal or driver.exit_code is not None, f"window {goal}")

    def numbers():
        found = {}
        for part in seen(kafka, target).values():
            for message in part:
                found.setdefault(message.key().decode(), []).append(json.loads(message.value())["number"])
        return found

    try:
        driver, end = begin(), FIRST
        for _ in range(KILLS):
            more_windows(driver, chance.choice([1, 3, 10, 40]))
            assert driver.exit_code is None, driver.text
            fill(kafka, source, messages(end, end + MORE))
            end += MORE
            driver.kill()
            driver = begin()
        wait_until(
            lambda: sum(map(len, numbers().values())) >= KEYS * end or driver.exit_code is not None,
            "all messages",
            every=0.5,
        )
        more_windows(driver, 1)  # the driver before may have written all, and this one may just begin
        driver.process.send_signal(signal.SIGINT)
        assert driver.wait() == 0, driver.text
        assert numbers() == {f"k{key}": list(range(end)) for key in range(KEYS)}
    finally:
        for one in drivers:
            one.clean()
