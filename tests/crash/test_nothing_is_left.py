"""Whichever process dies by SIGKILL: the driver is told, and nothing of it is left."""

import os
import signal
from pathlib import Path

import pytest

from support.crash.processes import committed, parent
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
SECONDS = 180
"""So long a test waits for each thing."""


@pytest.fixture
def running(start, tmp_path):
    """An application in slots that has committed some windows."""
    checkpoint = tmp_path / "checkpoint"
    places = ("--output", tmp_path / "output", "--checkpoint", checkpoint)
    driver = start(APPLICATION, "--master", "local[2]", "-D", "numbers.windows=1000000", *map(str, places))
    driver.committed = lambda: committed(checkpoint)
    driver.until(lambda: driver.committed() >= 5, "five windows")
    return driver


def _java(driver):
    """Spark's Java process."""
    return next(pid for pid in driver.members() if b"java" in _command(pid).split(b"\0")[0])


def _command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("kill", [pytest.param(0, marks=deeper), 1, pytest.param(2, marks=deeper)])
def test_nothing_outlives_a_driver_that_is_killed(running, wait_until, kill):
    """Also where Java would be stopping Spark, or writing its archive of classes."""
    assert len(running.members()) > 3
    if kill == 1:  # a worker that no connection tells anything
        workers = [pid for pid in running.members() if b"daemon" in _command(pid)]
        os.kill(workers[-1], signal.SIGSTOP)
    running.kill()
    wait_until(lambda: not running.members(), "all its processes to end", seconds=SECONDS)


def test_a_driver_without_spark_is_told(running):
    os.kill(_java(running), signal.SIGKILL)
    assert running.process.wait(SECONDS) == 3
    assert "error: Spark's Java process has ended by signal 9" in running.text
    assert not running.members()


def test_a_daemon_that_is_killed_takes_its_workers_with_it_and_windows_go_on(running, wait_until):
    java = _java(running)
    daemon = next(
        pid
        for pid in running.members()
        if b"ridgeline.engine.spark.daemon" in _command(pid) and parent(pid) == java
    )
    workers = [pid for pid in running.members() if parent(pid) == daemon]
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not set(workers) & set(running.members()), "the workers to end", seconds=SECONDS)
    before = running.committed()
    assert running.until(lambda: running.committed() >= before + 5, "five windows more"), running.text
    os.kill(_java(running), signal.SIGKILL)
    assert running.process.wait(SECONDS) == 3
    assert "Spark's Java process has ended by signal 9" in running.text
