"""Disks fill up, folders become read-only: the application says so, waits or ends, and loses nothing."""

import re
import signal

import pytest

from support.crash.disks import full, read_only, small_disk
from support.crash.processes import committed
from support.crash.rows import check_published
from support.depth import DEPTH
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "numbers.py"
GO_ON = "and run again with the same `--checkpoint`; it goes on from the last committed window"


def test_goes_on_once_the_disk_has_room_again(start, wait_until, tmp_path):
    with small_disk(tmp_path / "disk", 4) as disk, small_disk(tmp_path / "other", 4) as other:
        checkpoint, output = disk / "checkpoint", other / "output"

        def begin(windows=1_000_000):
            """Start the command; once it commits, the driver and its last committed window."""
            before = committed(checkpoint)
            options = ("--checkpoint", checkpoint, "--master", "local[2]", "-D", f"numbers.windows={windows}")
            driver = start(APPLICATION, "--output", output, *options, log=f"run{before}.log")
            wait_until(
                lambda: committed(checkpoint) > before + 2 or driver.exit_code is not None,
                "windows",
            )
            return driver

        driver = begin()
        for place, waits in (
            (disk, rf"the checkpoint's store \(`{checkpoint}`\) has not answered for \d+ s"),
            (other, rf"`store` (?:on `\S+` )?has waited for (?:`{output}`|its files) for \d+ s"),
        ):
            with full(place):
                wait_until(
                    lambda waits=waits: (
                        re.search(f"{waits}.*left on device", driver.text) or driver.exit_code is not None
                    ),
                    f"what the run waits for: {waits}",
                )
                assert driver.exit_code is None, driver.text
                before = committed(checkpoint)
            wait_until(
                lambda before=before: committed(checkpoint) > before + 5 or driver.exit_code is not None,
                "windows by itself",
            )
            assert driver.exit_code is None, driver.text
        with full(disk):
            wait_until(lambda: driver.text.count("has not answered for") > 1, "what it waits for")
            driver.process.send_signal(signal.SIGINT)
            assert driver.wait() == 1, driver.text
        assert f"checkpoint folder `{checkpoint}`: no space is left; free some room {GO_ON}" in driver.text
        assert "go on with:" in driver.text

        if DEPTH > 1:  # a partition waits for half a minute
            driver = begin()
            with full(other):
                wait_until(lambda: "has waited for" in driver.text, "what it waits for")
                driver.process.send_signal(signal.SIGINT)
                assert driver.wait() == 1, driver.text
            assert f"`store` cannot write to `{output}`: no space is left on the device" in driver.text
            assert re.search("free some space.*; nothing that was committed is lost", driver.text)

        with read_only(checkpoint / "journal"):
            driver = start(APPLICATION, "--output", output, "--checkpoint", checkpoint, log="read_only.log")
            assert driver.wait() == 3, driver.text
        assert (
            f"checkpoint folder `{checkpoint}`: it cannot be written; "
            f"give this user the right to write there {GO_ON}" in driver.text
        )

        windows = committed(checkpoint) + 5
        assert begin(windows).wait() == 0
        assert committed(checkpoint) == windows - 1
        check_published(output, windows, APPLICATION, tmp_path)


def test_checkpoint_that_cannot_be_written_at_all(start, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with read_only(folder):
        driver = start(APPLICATION, "--output", tmp_path / "output", "--checkpoint", folder / "checkpoint")
        assert driver.wait() == 3, driver.text

    assert (
        f"checkpoint folder `{folder}/checkpoint`: it cannot be written; "
        "give this user the right to write there" in driver.text
    )
    assert "Traceback" not in driver.text
    assert not list(tmp_path.rglob("*.jsonl"))
