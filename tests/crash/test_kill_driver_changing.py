"""Kill the driver at random moments while its application changes: each change is there, or it is not."""

import json
import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from support.accounts.reports import Command
from support.crash.changing import CHANGES, WINDOWS, changes
from support.crash.processes import committed
from support.crash.rows import visible, window_range
from support.depth import deep
from support.paths import SUPPORT
from support.testing.edited import MARK, by_hand
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(3)


def read(path):
    rows = map(json.loads, path.read_text().splitlines())
    return Counter((row["key"], row["value"]) for row in rows)


def marks_by_window(output):
    """The mark of each window: one file may have several windows, whose marks only grow."""
    found = {}
    for path in visible(output / "c_numbers"):
        first, last = window_range(path)
        marks = sorted(value for key, value in read(path).elements() if key == MARK)
        windows = list(range(first, last + 1))
        found |= dict(zip(windows, [0] * (len(windows) - len(marks)) + marks, strict=True))
    return found


@pytest.mark.guide("002", "Exactly Once")
def test_drivers_killed_while_they_change_the_application(tmp_path, wait_until, chance):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    seed = chance.randrange(2**32)
    words = [sys.executable, "-m", "support.crash.changing", output, checkpoint, seed]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT.parent)}
    for kill in range(KILLS + 1):
        log = tmp_path / f"driver-{kill}.log"
        with log.open("wb") as out:
            driver = Command(words, log=log, stdout=out, stderr=subprocess.STDOUT, env=environment)
        try:
            if kill == KILLS:
                assert driver.wait(PATIENCE_SECONDS) == 0, log.read_text()[-3000:]
                continue
            before = committed(checkpoint)
            wait_until(
                lambda before=before, driver=driver: (
                    committed(checkpoint) > before + 2 or driver.poll() is not None
                ),
                "windows",
            )
            time.sleep(chance.uniform(0.0, 1.0))
            assert driver.poll() is None, log.read_text()[-3000:]
            driver.kill()
            driver.wait()
        finally:
            driver.clean()

    made, last = {}, 0
    all_changes = changes(seed, str(output))
    marks = marks_by_window(output)
    assert sorted(marks) == list(range(WINDOWS))
    for window in range(WINDOWS):
        for number in range(last, marks[window]):
            made.setdefault(window, []).append(all_changes[number])
        last = marks[window]
    print(f"{KILLS} kills, {last} of {CHANGES} changes")
    assert last > KILLS
    for name, by_window in by_hand(WINDOWS, made).expected.items():
        left = {window for window, rows in by_window.items() if rows}
        for path in visible(output / name):
            first, end = window_range(path)
            wanted = sum((by_window.get(window, Counter()) for window in range(first, end + 1)), Counter())
            assert read(path) == wanted, path.name
            left -= set(range(first, end + 1))
        assert not left, f"{name} has nothing of {sorted(left)}"
