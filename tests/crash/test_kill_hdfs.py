"""Files of an HDFS, read and written: driver, slots and name node are killed, each row is there once."""

import json
import os
import random
import signal
import threading
import time
from collections import Counter

import pytest

from ridgeline.cli.remote.client import Client
from support.crash.processes import committed, slots_of
from support.depth import deep
from support.operators.hdfs import Hdfs
from support.paths import SUPPORT
from support.ports import free_port

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "on_hdfs.py"
KILLS = deep(3)
AWAY_SECONDS = 20.0
A_FILE, KEYS, TOKEN = 100, 8, "secret-of-the-test"


class Run:
    """One driver after the other on files of a cluster."""

    def __init__(self, start, wait_until, cluster, folder):
        self.cluster, self.checkpoint, self.put = cluster, folder / "checkpoint", 0
        self._start, self._wait_until = start, wait_until
        port = free_port()
        self.client = Client(f"http://127.0.0.1:{port}", TOKEN)
        places = ("--read", f"{cluster.uri}/in", "--write", f"{cluster.uri}/out")
        own = ("--master", "local[2]", "--port", str(port), "--token", TOKEN, "--log-level", "INFO")
        self._words = (APPLICATION, *places, "--checkpoint", self.checkpoint, *own)

    def begin(self, *more):
        self.driver = self._start(*self._words, *more, **self.cluster.environment)

    def more_files(self, count):
        """Put files, whose rows are those that follow."""
        for _ in range(count):
            first = self.put * A_FILE
            rows = [{"key": n % KEYS, "number": n // KEYS} for n in range(first, first + A_FILE)]
            data = "".join(json.dumps(row) + "\n" for row in rows).encode()
            self.cluster.put(f"/in/{self.put:05}.jsonl", data)
            self.put += 1

    def wait(self, condition, what, **named):
        self._wait_until(lambda: condition() or self.driver.exit_code is not None, what, **named)
        assert self.driver.exit_code is None, self.driver.text[-6000:]

    def more_windows(self, count):
        before = committed(self.checkpoint)
        self.wait(lambda: committed(self.checkpoint) >= before + count, f"{count} windows more")

    def rows(self):
        """What a reader sees by HTTP."""
        lines = [
            line
            for name in self.cluster.files("/out")
            for line in self.cluster.read(f"/out/{name}").splitlines()
        ]
        return Counter((row["key"], row["number"]) for row in map(json.loads, lines))

    def all_there(self):
        self.wait(lambda: self.rows().total() >= self.put * A_FILE, "all rows", every=0.3)
        assert self.rows() == Counter((n % KEYS, n // KEYS) for n in range(self.put * A_FILE))


@pytest.fixture
def cluster(tmp_path):
    with Hdfs(tmp_path / "hdfs") as made:
        yield made


def test_driver_slots_and_name_node_killed(start, wait_until, cluster, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    run = Run(start, wait_until, cluster, tmp_path)
    run.more_files(10)
    run.begin()
    run.more_windows(2)
    for kill in range(KILLS):
        run.more_files(10)
        time.sleep(chance.uniform(0.0, 0.5))
        if kill % 3 == 0:
            cluster.kill_names()
            run.wait(lambda: "has waited for" in run.driver.text, "that it says that it waits")
            time.sleep(AWAY_SECONDS)
            cluster.start_names()
            cluster.wait()
        elif kill % 3 == 1:
            edits = [
                {"do": "repartition", "operator": name, "partitions": chance.choice([1, 3])}
                for name in ("rows", "out")
            ]
            asking = threading.Thread(target=run.client.post, args=("/changes",), kwargs={"edits": edits})
            asking.start()
            os.kill(chance.choice(slots_of(run.driver)), signal.SIGKILL)
            asking.join()
        else:
            run.driver.kill()
            run.begin()
        run.more_windows(2)
    run.all_there()
    run.driver.process.send_signal(signal.SIGTERM)
    assert run.driver.wait() == 0, run.driver.text[-6000:]
    assert run.rows().total() == run.put * A_FILE
