"""Drivers that are killed while they rewind their run."""

import json
from collections import Counter

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.processes import committed
from support.crash.rows import multisets
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"


def sums(folder):
    """The rows without the numbers of windows, which go on after a rewind."""
    [rows] = multisets(folder).values()
    return Counter((json.loads(row)["digit"], json.loads(row)["sum"]) for row in rows.elements())


def test_a_run_is_rewound_and_killed_and_its_output_is_that_of_one_straight_run(start, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    options = ("--output", tmp_path / "output", "--checkpoint", checkpoint, "--master", "local[2]")
    first = start(APPLICATION, *options, "--windows", "6")
    assert first.wait() == 0, first.text
    last = committed(checkpoint)

    driver = start(APPLICATION, *options, "--from-window", str(last - 2))
    driver.until(lambda: committed(checkpoint) > last, "the record of the rewind")
    driver.kill()

    again = start(APPLICATION, *options)
    assert again.wait() == 0, again.text
    run_local(load_application(str(APPLICATION), ["--output", str(tmp_path / "whole")]))
    assert sums(tmp_path / "output") == sums(tmp_path / "whole")
