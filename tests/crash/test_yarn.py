"""A real YARN: executors of one core that come one after the other, executors that are killed."""

import os
import re
import signal
from functools import partial

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.processes import committed, parent
from support.crash.rows import Reader, multisets
from support.crash.yarn import Yarn
from support.depth import deeper
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = ("numbers.windows=1000000", "sums.pause_seconds=0.05", "store.roll_seconds=0.3")
OPTIONS = [
    *(part for value in PROPERTIES for part in ("-D", value)),
    *(
        part
        for name in ("numbers", "sums", "store")
        for part in ("--attribute", f"{name}.recovery_attempts=0")
    ),
    *("--log-level", "INFO"),
]
FIXED = {"spark.executor.instances": "3"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "4",
}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    with Yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("settings", "slots"),
    [pytest.param(FIXED, 2, id="fixed", marks=deeper), pytest.param(DYNAMIC, 3, id="dynamic")],
)
def test_executors_that_are_killed_are_replaced(yarn, start, wait_until, tmp_path, settings, slots):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    places = ("--output", output, "--checkpoint", checkpoint)
    reader = Reader(output, checkpoint)
    reader.start()
    driver = start(APPLICATION, *places, *yarn.settings, *OPTIONS, *conf, **yarn.environment)

    def wait(condition, what):
        wait_until(lambda: condition() or driver.exit_code is not None, what)
        assert driver.exit_code is None, driver.text

    def goes_on():
        before = committed(checkpoint)
        wait(lambda: committed(checkpoint) >= before + 10, "ten windows more")

    def all_there():
        sizes = re.findall(r"containers (?:live in|are spread over) (\d) slots?", driver.text)
        return bool(sizes) and int(sizes[-1]) == slots

    def is_lost(before):
        return len(re.findall(r"event_lines: slot \d is lost", driver.text)) > before

    wait(all_there, "as many slots as there are cores for")
    goes_on()
    for before in range(2):
        pid = int(re.findall(r"slot 0 is there(?: again)?: process (\d+) on", driver.text)[-1])
        os.kill(parent(parent(pid)), signal.SIGKILL)  # behind Spark's Python daemon: its executor
        wait(partial(is_lost, before), "a lost slot")
        goes_on()
        wait(all_there, "as many slots as before")
    driver.process.send_signal(signal.SIGTERM)
    assert driver.wait() == 0, driver.text
    reader.finish()

    windows = committed(checkpoint) + 1
    run_local(
        load_application(str(APPLICATION), ["--output", str(tmp_path / "whole")]),
        properties={"numbers.windows": str(windows)},
    )
    assert multisets(output) == multisets(tmp_path / "whole")
