"""Kill worker, driver and compactor with a million keys held, cut a file in two: results stay right."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from ridgeline.cli.load import load_application
from ridgeline.engine.state import state_files
from ridgeline.testing import run_local
from support.crash.processes import committed, options
from support.crash.rows import multisets
from support.manifests import last_of
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "million.py"


def runs(checkpoint):
    """The files of runs that the last manifest names."""
    return [
        checkpoint / "state" / run
        for version in last_of(checkpoint).states.values()
        for run in state_files.segments_of(tuple(version))
    ]


def kill_compactor(driver):
    """Kill it if it runs."""
    for pid in driver.members():
        with contextlib.suppress(OSError):
            if b"ridgeline.engine.driver.checkpoint.compactor" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def test_killed_with_a_million_keys(start, wait_until, tmp_path):
    whole, output, folder, checkpoint = (
        tmp_path / name for name in ("whole", "output", "notes", "checkpoint")
    )
    folder.mkdir()
    run_local(load_application(str(APPLICATION), ["--output", str(whole)]))
    given = options(folder=folder, wait_in="12,20,25,30", checkpoint=checkpoint, master="local[2]")
    command = (APPLICATION, "--output", output, *given)

    def waits(driver, window):
        """Wait until the operator waits in a window; returns its process id."""
        pattern = f"pid-{window}-*"
        assert driver.until(lambda: list(folder.glob(pattern)), f"window {window}"), driver.text
        return int(next(folder.glob(pattern)).name.rpartition("-")[2])

    def go(window):
        (folder / f"go-{window}").touch()

    driver = start(*command)
    os.kill(waits(driver, 12), signal.SIGKILL)
    go(12)
    waits(driver, 20)
    wait_until(
        lambda: len(list((checkpoint / "state").glob("*.snapshot"))) >= 2,
        "the states of both partitions to be merged",
    )
    go(20)
    waits(driver, 25)
    driver.until(lambda: committed(checkpoint) == 24, "window 24, committed")
    driver.kill()
    go(25)
    wait_until(lambda: not driver.members(), "all processes of the run to end")

    [broken, *_] = runs(checkpoint)
    with broken.open("r+b") as file:
        file.truncate(broken.stat().st_size - 100)
    survivor = start(*command, log="survivor.log")
    waits(survivor, 30)
    kill_compactor(survivor)
    go(30)
    assert survivor.wait() == 0, survivor.text
    assert f"`{broken}` is corrupt" in survivor.text
    assert "the files that it was merged from are used instead, nothing is lost" in survivor.text
    assert multisets(output) == multisets(whole)
    wait_until(lambda: not survivor.members(), "all processes of the run to end")
