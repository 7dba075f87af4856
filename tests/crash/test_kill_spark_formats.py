"""Drivers die at each point of Spark's write, and slots: each row that Spark reads is written once."""

import json
import os
import random
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from ridgeline.cli.remote.client import Client
from support import services
from support.crash.on_store import s3_settings
from support.crash.processes import committed, slots_of
from support.crash.rows import multisets
from support.depth import DEPTH, deep
from support.paths import SUPPORT
from support.ports import free_port
from support.services.fixtures import ready

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "from_spark.py"
POINTS = ("before", "in", "after")
ROUNDS = deep(1)
KEYS, A_FILE, TOKEN = 8, 2_500, "secret-of-the-test"
# A file is more than the first windows of a run may have: its micro-batch is cut into several.


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

    def begin(self, *more, checkpoint=None, **named):
        where = ("--checkpoint", checkpoint or self.checkpoint)
        named = {"STRIKE_SECONDS": str(self._chance.uniform(0.0, 0.4)), **named}
        self.driver = self._start(APPLICATION, *self._words, *where, *more, **named)
        return self.driver

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


def test_each_row_is_there_once_whoever_dies(start, wait_until, tmp_path, chance):
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


@pytest.mark.skipif(DEPTH < 2, reason="steps: operators/test_spark_output.py")
@pytest.mark.parametrize("seconds", ["0.0", "0.1", "0.3"])
def test_a_driver_that_stands_still_and_is_taken_over(start, wait_until, tmp_path, seconds):
    """Its checkpoint is on S3 (SeaweedFS), which has no locks: the next driver fences it off."""
    store = ready(services.seaweedfs)
    settings = [word for name, value in s3_settings(store).items() for word in ("--conf", f"{name}={value}")]
    run = Run(start, wait_until, tmp_path, random.Random(seconds))
    place = {"checkpoint": f"s3a://{store.bucket()}/checkpoint", "STRIKE_SECONDS": seconds}
    run.more_files(6)
    first = run.begin(*settings, "--port", "0", **place, log="first.log")
    run.wait(lambda: run.by_spark().total() >= 3 * A_FILE, "rows")
    (run.strikes / "strike-still").touch()
    run.wait(lambda: state(first.pid) == "T", "it to stand still")
    run.more_files(3)
    run.begin(*settings, "--port", "0", **place, log="second.log")
    run.wait(lambda: run.by_spark() == run.expected, "all rows")
    os.killpg(first.pid, signal.SIGCONT)
    wait_until(lambda: first.exit_code is not None and not first.members(), "its end")
    run.more_files(2)
    run.wait(lambda: run.by_spark() == run.expected, "all rows")
    run.stop()
    assert run.by_spark() == run.expected


def state(pid):
    """As /proc has it: "T" if it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
