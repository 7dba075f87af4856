"""Files of an HDFS, read and written: driver, slots and name node are killed, each row is there once."""

import json
import os
import signal
import threading
import time
from collections import Counter
from http import HTTPStatus
from urllib.error import HTTPError

import pytest

from ridgeline.cli.remote.client import Client
from ridgeline.engine.driver.checkpoint.upkeep.contents import describe, runs_of
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

    def __init__(self, start, wait_until, cluster, folder, place):
        """`place`: a folder of the cluster, for what it reads and writes."""
        self.cluster, self.checkpoint, self.put = cluster, folder / "checkpoint", 0
        self._place = place
        self._start, self._wait_until = start, wait_until
        port = free_port()
        self.client = Client(f"http://127.0.0.1:{port}", TOKEN)
        places = ("--read", f"{cluster.uri}{place}/in", "--write", f"{cluster.uri}{place}/out")
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
            self.cluster.put(f"{self._place}/in/{self.put:05}.jsonl", data)
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
            for name in self.cluster.files(f"{self._place}/out")
            for line in self.cluster.read(f"{self._place}/out/{name}").splitlines()
        ]
        return Counter((row["key"], row["number"]) for row in map(json.loads, lines))

    def has_all(self):
        try:
            return self.rows().total() >= self.put * A_FILE
        except HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return False  # a rewind took a file back between its listing and its reading

    def all_there(self):
        self.wait(self.has_all, "all rows", every=0.3)
        assert self.rows() == Counter((n % KEYS, n // KEYS) for n in range(self.put * A_FILE))

    def stop(self):
        self.driver.process.send_signal(signal.SIGTERM)
        assert self.driver.wait() == 0, self.driver.text[-6000:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Hdfs(tmp_path_factory.mktemp("hdfs") / "cluster") as made:
        yield made


def test_driver_slots_and_name_node_killed(start, wait_until, cluster, tmp_path, chance):
    run = Run(start, wait_until, cluster, tmp_path, "/killed")
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
    run.stop()
    assert run.rows().total() == run.put * A_FILE


def test_a_run_is_rewound_and_its_plan_is_changed(start, wait_until, cluster, tmp_path):
    """What is published on HDFS is taken back, and each row is there once in the end."""
    run = Run(start, wait_until, cluster, tmp_path, "/rewound")
    run.more_files(10)
    run.begin()
    run.all_there()
    run.stop()
    last = committed(run.checkpoint)
    run.begin("--from-window", kept(run.checkpoint)[-1])
    run.wait(lambda: committed(run.checkpoint) > last, "the record of the rewind")
    run.driver.kill()
    run.begin()
    run.more_files(2)
    run.all_there()
    edits = [
        {"do": "repartition", "operator": "rows", "partitions": 3},
        {"do": "repartition", "operator": "out", "partitions": 1},
    ]
    changed = run.client.post("/changes", edits=edits, wait=30, patience=60)
    assert changed["state"] == "APPLIED", changed
    run.more_files(5)
    run.all_there()
    run.driver.kill()
    run.begin()
    run.more_files(5)
    run.all_there()
    run.stop()
    [oldest] = kept(run.checkpoint)[-1:]
    run.begin("--from-window", oldest)
    run.more_files(2)
    run.all_there()
    run.stop()
    assert run.rows().total() == run.put * A_FILE


def kept(checkpoint):
    """The windows that a run can go back to, newest first, but for the last one."""
    [run] = runs_of(str(checkpoint))
    return [one.window_id for one in describe(run).windows][1:]
