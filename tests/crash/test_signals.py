"""SIGTERM as service managers send it, a killed JVM: an orderly end, no traceback, no process left."""

import contextlib
import os
import re
import signal

import pytest

from support.crash.processes import options, parent
from support.crash.rows import check_published
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"


def places(folder):
    return options(output=folder / "output", checkpoint=folder / "checkpoint", master="local[2]")


@pytest.fixture
def waiting(start, tmp_path):
    """A run whose operator waits in window 4: the driver, and the process of the worker."""
    folder = tmp_path / "notes"
    folder.mkdir()
    driver = start(APPLICATION, *places(tmp_path), *options(folder=folder, wait_in=4))
    assert driver.until(lambda: list(folder.glob("pid-*")), "the operator in window 4"), driver.text
    [note] = folder.glob("pid-*")
    return driver, int(note.name.removeprefix("pid-"))


def go(tmp_path):
    (tmp_path / "notes" / "go").touch()


def test_sigterm_to_all_processes_ends_the_run_after_its_window(waiting, start, tmp_path, wait_until):
    driver, worker = waiting
    for pid in driver.members():
        with contextlib.suppress(ProcessLookupError):  # one that has just ended
            os.kill(pid, signal.SIGTERM)
    wait_until(lambda: "stopping after windows under way" in driver.text, "the run to say so")
    go(tmp_path)

    assert driver.wait() == 0, driver.text
    windows = re.search(r"stopped by SIGTERM after (\d+) windows", driver.text)
    assert windows is not None, driver.text
    assert 5 <= int(windows.group(1)) <= 10  # in slots, with those that were under way
    assert [path.name for path in (tmp_path / "notes").glob("pid-*")] == [
        f"pid-{worker}"
    ]  # nothing was run twice
    assert "Traceback" not in driver.text
    wait_until(lambda: not driver.members(), "all processes of the run to end")

    again = start(APPLICATION, *places(tmp_path))
    assert again.wait() == 0, again.text
    check_published(tmp_path / "output", 10, APPLICATION, tmp_path)


def test_a_second_sigterm_ends_the_run_at_once(waiting, wait_until):
    driver, _ = waiting
    driver.process.terminate()
    wait_until(lambda: "stopping after windows under way" in driver.text, "the run to say so")
    driver.process.terminate()

    assert driver.wait() == 143, driver.text
    assert "killed; the windows under way are not committed and will be replayed" in driver.text
    assert "Traceback" not in driver.text
    wait_until(lambda: not driver.members(), "all processes of the run to end")


def test_a_killed_java_process_is_reported_in_one_line(waiting, wait_until):
    driver, worker = waiting
    os.kill(parent(parent(worker)), signal.SIGKILL)

    assert driver.wait() == 3, driver.text
    [line] = [line for line in driver.text.splitlines() if line.startswith("error: ")]
    assert line.startswith(
        "error: Spark's Java process has ended by signal 9; "
        "what is committed is kept, run again with the same `--checkpoint`"
    )
    for word in ("Traceback", "py4j", "fault of Ridgeline", "Exception"):
        assert word not in driver.text
    assert "go on with:" in driver.text
    wait_until(lambda: not driver.members(), "all processes of the run to end")
