"""However a run ends, by signals or by the death of a process: it says so, and nothing of it is left."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest

from support.crash.processes import committed, options, parent
from support.crash.rows import check_published
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"


def places(folder):
    return options(output=folder / "output", checkpoint=folder / "checkpoint", master="local[2]")


def all_end(driver, wait_until):
    """Nothing of it is left, and it has shown no traceback."""
    wait_until(lambda: not driver.members(), "all processes of the run to end")
    assert "Traceback" not in driver.text


@pytest.fixture
def waiting(start, tmp_path):
    """A run whose operator waits in window 4: the driver, and the process of the worker."""
    folder = tmp_path / "notes"
    folder.mkdir()
    driver = start(APPLICATION, *places(tmp_path), *options(folder=folder, wait_in=4))
    assert driver.until(lambda: list(folder.glob("pid-*")), "the operator in window 4"), driver.text
    [note] = folder.glob("pid-*")
    return driver, int(note.name.removeprefix("pid-"))


def test_sigterm_to_all_processes_ends_the_run_after_its_window(waiting, start, tmp_path, wait_until):
    driver, worker = waiting
    for pid in driver.members():
        with contextlib.suppress(ProcessLookupError):  # one that has just ended
            os.kill(pid, signal.SIGTERM)
    wait_until(lambda: "stopping after windows under way" in driver.text, "the run to say so")
    (tmp_path / "notes" / "go").touch()

    assert driver.wait() == 0, driver.text
    windows = re.search(r"stopped by SIGTERM after (\d+) windows", driver.text)
    assert windows is not None, driver.text
    assert 5 <= int(windows.group(1)) <= 10  # in slots, with those that were under way
    notes = [path.name for path in (tmp_path / "notes").glob("pid-*")]
    assert notes == [f"pid-{worker}"]  # nothing was run twice
    all_end(driver, wait_until)

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
    all_end(driver, wait_until)


def test_a_killed_java_process_is_reported_in_one_line(waiting, wait_until):
    driver, worker = waiting
    os.kill(parent(parent(worker)), signal.SIGKILL)

    assert driver.wait() == 3, driver.text
    [line] = [line for line in driver.text.splitlines() if line.startswith("error: ")]
    assert "Spark's Java process has ended by signal 9; what is committed is kept" in line
    for word in ("py4j", "fault of Ridgeline", "Exception"):
        assert word not in driver.text
    assert "go on with:" in driver.text
    all_end(driver, wait_until)


@pytest.fixture
def going(start, tmp_path):
    """A run in slots that has committed ten windows: the driver, and the folder of its operators' notes."""
    folder = tmp_path / "notes"
    folder.mkdir()
    given = options(folder=folder, checkpoint=tmp_path / "checkpoint", master="local[2]")
    driver = start(SUPPORT / "crash" / "noted.py", *given)
    assert driver.until_windows(tmp_path / "checkpoint", 11), driver.text
    return driver, folder


def noted(folder, what):
    return sorted(path.name.rpartition("-")[2] for path in folder.glob(f"{what}-*"))


def test_ctrl_c_tears_all_operators_down(going, wait_until):
    driver, folder = going
    driver.process.send_signal(signal.SIGINT)
    assert driver.wait() == 0, driver.text
    assert "stopped by Ctrl-C" in driver.text
    assert len(noted(folder, "setup")) == 2
    assert noted(folder, "teardown") == noted(folder, "setup")
    all_end(driver, wait_until)


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("kill", [0, 1, pytest.param(2, marks=deeper)])
def test_a_driver_that_is_killed_takes_its_slots_with_it(going, wait_until, kill):
    """Also where Java would be stopping Spark, or writing its archive of classes."""
    driver, folder = going
    assert len(driver.members()) > 3
    if kill == 1:  # a worker that no connection tells anything
        os.kill([pid for pid in driver.members() if b"daemon" in command(pid)][-1], signal.SIGSTOP)
    driver.kill()
    wait_until(lambda: not driver.members(), "all processes of the run to end")
    if kill != 1:
        assert noted(folder, "teardown") == noted(folder, "setup")


def test_a_daemon_that_is_killed_takes_its_workers_with_it_and_windows_go_on(start, wait_until, tmp_path):
    driver = start(APPLICATION, *places(tmp_path), "-D", "numbers.windows=1000000")
    assert driver.until_windows(tmp_path / "checkpoint", 6), driver.text
    java = next(pid for pid in driver.members() if b"java" in command(pid).split(b"\0")[0])
    daemon = next(
        pid
        for pid in driver.members()
        if b"ridgeline.engine.spark.daemon" in command(pid) and parent(pid) == java
    )
    workers = [pid for pid in driver.members() if parent(pid) == daemon]
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not set(workers) & set(driver.members()), "the workers to end")
    before = committed(tmp_path / "checkpoint")
    assert driver.until(lambda: committed(tmp_path / "checkpoint") >= before + 5, "windows"), driver.text
