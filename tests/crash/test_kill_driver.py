"""Kill the driver at random moments, over and over: nothing is lost, and nothing is there twice."""

import time

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.processes import committed, options
from support.crash.rows import Reader, multisets
from support.depth import deep
from support.paths import ROOT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(6)
APPLICATION = ROOT / "examples" / "flights.py"
PROPERTIES = {
    "flights.rows_per_window": "2000",  # 169 windows, 17 application windows
    "carriers.roll_seconds": "0.5",
    "origins.roll_seconds": "0",
    "routes.roll_seconds": "0.1",
    "cancelled.roll_seconds": "0.2",
}


@pytest.mark.guide("002", "Fault Tolerance")
def test_driver_killed_over_and_over(start, tmp_path, chance):
    whole, output, checkpoint = tmp_path / "whole", tmp_path / "output", tmp_path / "checkpoint"
    properties = [part for name, value in PROPERTIES.items() for part in ("-D", f"{name}={value}")]
    given = options(output=output, checkpoint=checkpoint, master="local[2]", attribute="window=1ms")
    command = (APPLICATION, *given, *properties, "--quiet")
    uninterrupted = run_local(
        load_application(str(APPLICATION), ["--output", str(whole)]), properties=PROPERTIES
    )

    reader = Reader(output, checkpoint)
    reader.start()
    lives = []
    for kill in range(KILLS):
        before = committed(checkpoint)
        driver = start(*command)
        if kill % 5 == 4:  # while it starts, or soon after: what a crash has left is being put right
            time.sleep(chance.uniform(0.0, 5.0))
        else:
            driver.until_windows(checkpoint, chance.randint(1, 3))
            time.sleep(chance.uniform(0.0, 0.2))
        if driver.exit_code is not None:  # one commit may cover several windows: there may be none left
            assert driver.exit_code == 0, f"it failed before kill {kill + 1}"
            break
        driver.kill()
        lives.append(committed(checkpoint) - before)
    print(f"windows committed in each life: {lives}, of {uninterrupted.windows_committed}")
    survivor = start(*command)
    assert survivor.wait() == 0, survivor.text
    reader.finish()

    assert committed(checkpoint) == uninterrupted.windows_committed - 1
    assert multisets(output) == multisets(whole)
    assert sum(multisets(output)["cancelled"].values()) == 8_255
