"""Kill an application of three regions, drivers and slots, while both sides of its queue change.

Each row arrives once, in order by key, in the sink of each region.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support.crash.processes import slots_of
from support.crash.regional_rows import all_go_on, check_rows, progress, rows_of
from support.depth import deep
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(3)
APPLICATION = SUPPORT / "crash" / "regional.py"
CHANGED = "pass_on", "fast", "slow", "passed_to_fast", "passed_to_slow"
"""What may be repartitioned: the operators on both sides of the queue, and its readers."""


def ridgeline(*words):
    """Begin a command."""
    return subprocess.Popen(
        [sys.executable, "-m", "ridgeline.cli.main", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def said(command):
    """The exit code of a command, and its text."""
    text = command.communicate(timeout=PATIENCE_SECONDS)[0]
    return command.returncode, text


def state_of(regional, region):
    """As `ridgeline regions` has it."""
    code, text = said(ridgeline("regions", regional.name, "--json"))
    assert code == 0, text
    return next(one["state"] for one in json.loads(text)["regions"] if one["name"] == region)


class Regional:
    """Runs of the application, one after the other, on one checkpoint."""

    def __init__(self, start, folder, **options):
        self.checkpoint, self.output = folder / "checkpoint", folder / "output"
        self.output.mkdir()
        self.name = f"regional-{os.getpid()}-{random.randrange(10**6)}"
        self._start, self._options = start, options

    def begin(self, partitions=2, log="run.log", **more):
        given = {"output": self.output, "name": self.name, "partitions": partitions, **self._options, **more}
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
        return self._start(
            APPLICATION, *words, "--checkpoint", self.checkpoint, "--master", "local[4]", "--quiet", log=log
        )

    def finish(self, driver):
        """Let it end: all sinks have all rows, each once. How many those are."""
        (self.output / "enough").touch()
        assert driver.wait() == 0, driver.text
        return check_rows(self.output)


@pytest.fixture
def regional(start, tmp_path):
    return Regional(start, tmp_path)


@pytest.mark.guide("002", "Exactly Once")
def test_regions_killed_while_both_sides_of_a_queue_change(regional, wait_until, chance):
    driver = regional.begin(chance.choice([1, 2, 3]))
    killed, changes = Counter(), []
    for kill in range(KILLS):
        before = progress(regional.checkpoint)

        def went_on(before=before, driver=driver):
            now = progress(regional.checkpoint)
            assert driver.exit_code is None, driver.text
            return len(now) == 3 and all(a > b for a, b in zip(now, before or [-1] * 3, strict=False))

        wait_until(went_on, "windows of all regions")
        if chance.random() < 0.5:
            words = "repartition", regional.name, chance.choice(CHANGED), chance.choice([1, 2, 3])
            changes.append(ridgeline(*words))
            if chance.random() < 0.5:
                changes[-1].wait(PATIENCE_SECONDS)
        time.sleep(chance.uniform(0.0, 1.5))
        slots = slots_of(driver)
        if slots and kill % 3 == 2:
            os.kill(chance.choice(slots), signal.SIGKILL)
            killed["slot"] += 1
        else:
            driver.kill()
            driver = regional.begin(chance.choice([1, 2, 3]))
            killed["driver"] += 1
    last = max(progress(regional.checkpoint), default=0)
    wait_until(lambda: all_go_on(regional.checkpoint, last + 2), "windows of all regions once more")
    for operator in ("pass_on", "passed_to_slow"):  # nothing is killed now, so both sides do change
        last_changes = [said(ridgeline("repartition", regional.name, operator, count)) for count in (2, 3)]
        assert 0 in [code for code, _ in last_changes], last_changes  # one of them is not what it has
    rows = regional.finish(driver)
    made = Counter(said(change)[0] for change in changes)
    print(f"killed: {killed}; changes by their exit code: {made}; {rows} rows")
    assert sum(killed.values()) == KILLS


def test_a_region_that_fails_is_started_again_and_catches_up(regional, wait_until):
    driver = regional.begin()
    wait_until(lambda: all_go_on(regional.checkpoint, 2), "windows")
    (regional.output / "broken").touch()
    wait_until(lambda: state_of(regional, "slow") == "FAILED", "the failure", every=0.5)
    before = rows_of(regional.output / "fast").total()
    wait_until(lambda: rows_of(regional.output / "fast").total() > before, "rows at the fast sink")
    assert rows_of(regional.output / "slow").total() < before
    (regional.output / "broken").unlink()
    assert said(ridgeline("regions", regional.name, "--start", "slow"))[0] == 0
    assert regional.finish(driver) > before


def test_a_stopped_region_holds_its_writer_back_once_the_queue_is_full(regional, wait_until):
    driver = regional.begin(keep="2s")
    wait_until(lambda: all_go_on(regional.checkpoint, 2), "windows")
    assert said(ridgeline("regions", regional.name, "--stop", "slow"))[0] == 0
    wait_until(lambda: "is full: reader" in driver.text, "the full queue")
    held = [-1]

    def stands_still():
        held.append(progress(regional.checkpoint)[0])
        return held[-1] == held[-2]

    wait_until(stands_still, "no more windows of the writer", every=1.0)
    assert driver.exit_code is None, driver.text
    assert said(ridgeline("regions", regional.name, "--start", "slow"))[0] == 0
    wait_until(lambda: progress(regional.checkpoint)[0] > held[-1] + 5, "windows of the writer")
    regional.finish(driver)


def test_drivers_killed_while_their_regions_start(regional, wait_until):
    chance = random.Random(1)
    for kill in range(deep(2)):
        known = set(Path(regional.checkpoint).glob("regions/*/epochs/*"))
        driver = regional.begin(1 + kill % 3)
        some = 1 + kill % 3  # so many regions have begun when it dies
        wait_until(
            lambda known=known, some=some: (
                len(set(Path(regional.checkpoint).glob("regions/*/epochs/*")) - known) >= some
            ),
            "a region that begins",
            every=0.001,
        )
        time.sleep(chance.uniform(0.0, 0.05))
        driver.kill()
    driver = regional.begin(2)
    wait_until(lambda: all_go_on(regional.checkpoint, 5), "windows")
    regional.finish(driver)


def test_a_second_driver_is_refused_and_harms_no_region(regional, wait_until):
    first = regional.begin()
    wait_until(lambda: all_go_on(regional.checkpoint, 3), "windows")
    first.process.send_signal(signal.SIGSTOP)  # it holds the folders though it does nothing
    second = regional.begin(3, log="second.log")
    assert second.wait() == 3
    assert f"is in use by process {first.pid} on " in second.text
    first.process.send_signal(signal.SIGCONT)
    windows = progress(regional.checkpoint)
    wait_until(lambda: all_go_on(regional.checkpoint, max(windows) + 1), "more windows")
    regional.finish(first)
