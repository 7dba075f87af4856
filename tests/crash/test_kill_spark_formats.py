"""Kill the driver and slots at random: each row that Spark reads is once in what Spark writes."""

import json
import random
import signal
from collections import Counter

import polars as pl
import pytest

from ridgeline.cli.remote.client import Client
from support.crash.killing import kill_in_turn
from support.crash.rows import multisets
from support.depth import deep
from support.paths import SUPPORT
from support.ports import free_port

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(4)
KEYS, A_FILE, TOKEN = 8, 20, "secret-of-the-test"
FILES = 40 + 20 * KILLS


def test_driver_and_slots_killed(start, wait_until, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    read, write, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    read.mkdir()
    for file in range(FILES):
        rows = [{"key": n % KEYS, "number": n // KEYS} for n in range(file * A_FILE, (file + 1) * A_FILE)]
        (read / f"{file:05}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    port = free_port()
    client = Client(f"http://127.0.0.1:{port}", TOKEN)

    def begin():
        return start(
            SUPPORT / "crash" / "from_spark.py",
            *("--read", read, "--write", write, "--checkpoint", checkpoint, "--master", "local[2]"),
            *("--port", str(port), "--token", TOKEN, "--quiet"),
        )

    def written():
        files = [path for path in (write / "spark").glob("window=*/*.parquet") if path.stat().st_size]
        frames = [pl.read_parquet(path, hive_partitioning=False) for path in files]
        return Counter(row for frame in frames for row in frame.select("key", "number").rows())

    def repartition():
        edits = [{"do": "repartition", "operator": "pass_on", "partitions": chance.choice([1, 3])}]
        assert client.post("/changes", edits=edits, wait=30)["state"] == "APPLIED"

    ways = {"driver": None, "slot": None, "repartition": repartition}
    driver, _ = kill_in_turn(begin, checkpoint, chance, KILLS, ways)
    wait_until(lambda: total(write) >= FILES * A_FILE or driver.exit_code is not None, "all rows", every=0.3)
    assert driver.exit_code is None, driver.text
    driver.process.send_signal(signal.SIGTERM)
    assert driver.wait() == 0, driver.text
    expected = Counter((n % KEYS, n // KEYS) for n in range(FILES * A_FILE))
    assert written() == expected
    [ours] = multisets(write / "files").values()
    assert Counter((row["key"], row["number"]) for row in map(json.loads, ours.elements())) == expected


def total(write):
    """How many rows we have written."""
    return sum(path.read_bytes().count(b"\n") for path in (write / "files").glob("*.jsonl"))
