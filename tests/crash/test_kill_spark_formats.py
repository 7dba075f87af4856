"""Drivers die at each point of Spark's write, and slots: each row that Spark reads is written once."""

import json
import os
import random
import re
import shutil
import signal
from collections import Counter

import polars as pl
import pytest

from ridgeline.cli.remote.client import Client
from support.crash.processes import committed, slots_of
from support.crash.rows import multisets
from support.depth import DEPTH, deep
from support.paths import SUPPORT
from support.ports import free_port

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "from_spark.py"
POINTS = ("before", "in", "after")
ROUNDS = deep(1)
KEYS, A_FILE, TOKEN = 8, 20, "secret-of-the-test"


class Run:
    """One driver after the other on a folder of files that grows."""

    def __init__(self, start, wait_until, folder, chance):
        self.read, self.write = folder / "in", folder / "out"
        self.checkpoint, self.strikes, self.put = folder / "checkpoint", folder / "strikes", 0
        self._start, self._wait_until, self._chance = start, wait_until, chance
        self.read.mkdir()
        self.strikes.mkdir()
        port = free_port()
        self.client = Client(f"http://127.0.0.1:{port}", TOKEN)
        places = ("--read", self.read, "--write", self.write, "--folder", self.strikes)
        own = ("--master", "local[2]", "--port", str(port), "--token", TOKEN, "--quiet")
        self._words = (*places, *own)

    def begin(self, *more, checkpoint=None):
        where = ("--checkpoint", checkpoint or self.checkpoint)
        seconds = str(self._chance.uniform(0.0, 0.4))
        self.driver = self._start(APPLICATION, *self._words, *where, *more, STRIKE_SECONDS=seconds)

    def more_files(self, count):
        for _ in range(count):
            rows = [{"key": n % KEYS, "number": n // KEYS} for n in self._numbers(self.put)]
            path = self.read / f".{self.put:05}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            path.rename(self.read / f"{self.put:05}.json")
            self.put += 1

    @staticmethod
    def _numbers(file):
        return range(file * A_FILE, (file + 1) * A_FILE)

    @property
    def expected(self):
        return Counter((n % KEYS, n // KEYS) for n in range(self.put * A_FILE))

    def by_spark(self):
        """What a reader of Spark's folders sees."""
        files = [
            path
            for path in (self.write / "spark").glob("window=*/*.parquet")
            if (path.parent / "_SUCCESS").exists()
        ]
        frames = [pl.read_parquet(path, hive_partitioning=False) for path in files]
        return Counter(row for frame in frames for row in frame.select("key", "number").rows())

    def by_us(self):
        [rows] = multisets(self.write / "files").values()
        return Counter((row["key"], row["number"]) for row in map(json.loads, rows.elements()))

    def wait(self, condition, what):
        self._wait_until(lambda: condition() or self.driver.exit_code is not None, what, every=0.05)
        assert self.driver.exit_code is None, self.driver.text[-6000:]

    def more_windows(self, count):
        before = committed(self.checkpoint)
        self.more_files(count)
        self.wait(lambda: committed(self.checkpoint) >= before + count, f"{count} windows more")

    def dies(self, point):
        """Let the driver die at a point of Spark's write, and begin the next one."""
        (self.strikes / f"strike-{point}").touch()
        self.more_files(1)
        self._wait_until(lambda: self.driver.exit_code is not None, "its end")
        assert self.driver.exit_code == -signal.SIGKILL, self.driver.text[-6000:]

    def stop(self):
        self.driver.process.send_signal(signal.SIGTERM)
        assert self.driver.wait() == 0, self.driver.text[-6000:]


def test_each_row_is_there_once_whoever_dies(start, wait_until, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    run = Run(start, wait_until, tmp_path, chance)
    run.more_files(3)
    run.begin()
    run.more_windows(2)
    for _ in range(ROUNDS):
        for point in POINTS:
            run.dies(point)
            run.begin()
            run.more_windows(1)
        partitions = chance.choice([1, 3])
        edits = [{"do": "repartition", "operator": "pass_on", "partitions": partitions}]
        changed = run.client.post("/changes", edits=edits, wait=30, patience=60)
        assert changed["state"] == "APPLIED", changed
        run.more_files(4)
        os.kill(chance.choice(slots_of(run.driver)), signal.SIGKILL)
        run.more_windows(2)
    if DEPTH > 1:
        run.stop()
        shutil.copytree(run.checkpoint, tmp_path / "older")
        run.begin()
        run.more_windows(3)
    run.wait(lambda: run.by_spark() == run.expected, "what Spark writes")
    run.stop()
    assert run.by_spark() == run.expected
    assert run.by_us() == run.expected

    if DEPTH > 1:
        looks_back(run, tmp_path / "older")


def looks_back(run, older):
    """An older copy of the checkpoint and a rewind are refused: Spark has written later windows."""
    run.begin(checkpoint=older)
    assert run.driver.wait() == 1, run.driver.text[-6000:]
    assert "is newer than the checkpoint" in run.driver.text
    run.begin("--from-window", committed(run.checkpoint) - 1)
    assert run.driver.wait() == 1, run.driver.text[-6000:]
    assert re.search("cannot take back what Spark wrote as `parquet` after window", run.driver.text)
    assert run.by_spark() == run.expected
