"""However a run in slots ends, its slots end with it, and their operators are torn down."""

import signal

import pytest

from support.crash.processes import options
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "noted.py"


@pytest.fixture
def going(start, tmp_path):
    """A run in slots that has committed ten windows: the driver, and the folder of its operators' notes."""
    folder, checkpoint = tmp_path / "notes", tmp_path / "checkpoint"
    folder.mkdir()
    driver = start(APPLICATION, *options(folder=folder, checkpoint=checkpoint, master="local[2]"))
    assert driver.until_windows(checkpoint, 11), driver.text
    return driver, folder


def processes(folder, what):
    return sorted(path.name.rpartition("-")[2] for path in folder.glob(f"{what}-*"))


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")], ids=["ctrl-c", "sigterm"]
)
def test_an_orderly_end_tears_all_operators_down(going, wait_until, number, name):
    driver, folder = going
    driver.process.send_signal(number)
    assert driver.wait() == 0, driver.text
    assert f"stopped by {name}" in driver.text
    assert "Traceback" not in driver.text
    assert len(processes(folder, "setup")) == 2
    assert processes(folder, "teardown") == processes(folder, "setup")
    wait_until(lambda: not driver.members(), "all processes of the run to end")


def test_a_driver_that_is_killed_takes_its_slots_with_it(going, wait_until):
    driver, folder = going
    driver.kill()
    wait_until(lambda: not driver.members(), "all processes of the run to end")
    assert processes(folder, "teardown") == processes(folder, "setup")
