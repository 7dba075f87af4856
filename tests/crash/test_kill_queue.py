"""Kill both sides of a durable queue, drivers and slots, over and over: each row arrives once, in order."""

import json
import os
import signal
import time
from collections import Counter

import pytest

from support.crash.processes import committed, options, slots_of
from support.depth import deep
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(4)
WINDOWS, A_WINDOW, KEYS = 1000, 50, 16
APPLICATION = SUPPORT / "crash" / "queued.py"


def rows_of(folder):
    return Counter(
        (row["key"], row["number"])
        for path in folder.glob("*.jsonl")
        for row in map(json.loads, path.read_text().splitlines())
    )


@pytest.mark.guide("002", "Exactly Once")
def test_both_sides_killed(start, wait_until, tmp_path, chance):
    queue, output = tmp_path / "queue", tmp_path / "output"

    def begin(role):
        folder = tmp_path / role
        more = ("-D", f"rows.windows={WINDOWS}") if role == "writer" else ("--output", output)
        return start(
            APPLICATION,
            *("--role", role, "--queue", queue, *more, "--partitions", str(chance.choice([1, 2, 3]))),
            *options(checkpoint=folder, master="local[2]", attribute="queue.recovery_attempts=100"),
            "--quiet",
            log=f"{role}.log",
        )

    running = {"writer": begin("writer")}
    wait_until(lambda: committed(tmp_path / "writer") >= 0, "the first window of the writer")
    running["reader"] = begin("reader")
    killed = Counter()
    for kill in range(KILLS):
        takes_slot = kill % 2 == 1
        role = ("writer", "reader")[kill // 2 % 2] if takes_slot else chance.choice(sorted(running))
        driver = running[role]
        if not driver.until_windows(tmp_path / role, 3):
            assert driver.exit_code == 0, driver.text
            break
        time.sleep(chance.uniform(0.0, 0.3))
        slots = slots_of(driver)
        if slots and takes_slot:
            os.kill(chance.choice(slots), signal.SIGKILL)
            killed[role, "slot"] += 1
        else:
            driver.kill()
            running[role] = begin(role)
            killed[role, "driver"] += 1
    print(f"killed: {killed}")

    for role in ("writer", "reader"):
        assert running[role].wait() == 0, running[role].text
    found = rows_of(output)
    assert len(found) == WINDOWS * A_WINDOW
    assert set(found.values()) == {1}
    assert set(found) == {(number % KEYS, number // KEYS) for number in range(WINDOWS * A_WINDOW)}
