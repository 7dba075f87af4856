"""Kill a Python worker, or an executor, in the middle of a window: the run continues, results are right."""

import os
import signal

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.processes import options, parent
from support.crash.rows import multisets
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"


@pytest.mark.guide("002", "Single Node Cluster")
@pytest.mark.guide("004", "Fault Tolerance")
@pytest.mark.parametrize(
    ("victim", "master"), [("worker", "local[2]"), ("executor", "local-cluster[2,1,1024]")]
)
def test_killed_in_mid_window(start, wait_until, tmp_path, victim, master):
    whole, output, folder = tmp_path / "whole", tmp_path / "output", tmp_path / "notes"
    folder.mkdir()
    run_local(load_application(str(APPLICATION), ["--output", str(whole)]))

    given = options(output=output, checkpoint=tmp_path / "checkpoint", folder=folder, wait_in=4)
    driver = start(APPLICATION, *given, "--master", master)
    assert driver.until(lambda: list(folder.glob("pid-*")), "the operator in window 4"), driver.text
    [note] = folder.glob("pid-*")
    worker = int(note.name.removeprefix("pid-"))
    daemon = parent(worker)
    os.kill(worker if victim == "worker" else parent(daemon), signal.SIGKILL)
    driver.until(lambda: len(list(folder.glob("pid-*"))) >= 2, "the window to be tried again, elsewhere")
    (folder / "go").touch()

    assert driver.wait() == 0, driver.text
    assert len(list(folder.glob("pid-*"))) >= 2
    assert multisets(output) == multisets(whole)
    wait_until(lambda: not driver.members(), "all processes of the run to end")
