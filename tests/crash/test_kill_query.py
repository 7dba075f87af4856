"""The driver dies between our commit of a window and Spark's, over and over."""

import json
from collections import Counter

import pytest

from support.crash.processes import committed, options
from support.crash.rows import Reader, multisets
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

APPLICATION = SUPPORT / "crash" / "rates.py"


def logged(checkpoint):
    """The last window that Spark has noted as done, -1 before the first."""
    folder = checkpoint / "spark" / "commits"
    return (
        max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1)
        if folder.is_dir()
        else -1
    )


def test_killed_between_the_two_commits(start, wait_until, tmp_path):
    output, checkpoint, folder = tmp_path / "output", tmp_path / "checkpoint", tmp_path / "folder"
    folder.mkdir()
    given = options(output=output, folder=folder, checkpoint=checkpoint, master="local[2]")
    command = (APPLICATION, *given, "--quiet")
    hold = folder / "hold"
    reader = Reader(output, checkpoint)
    reader.start()

    def kill_when_held(driver):
        assert driver.until(lambda: list(folder.glob("held-*")), "a held window"), driver.text
        driver.kill()
        wait_until(lambda: not driver.members(), "its JVM to end")
        [note] = folder.glob("held-*")
        note.unlink()
        assert note.name == f"held-{committed(checkpoint)}"
        assert logged(checkpoint) < committed(checkpoint)
        return committed(checkpoint)

    hold.touch()
    assert kill_when_held(start(*command)) == 0  # in the first window
    assert kill_when_held(start(*command)) == 0  # again, while the first window is being published after all
    hold.unlink()
    driver = start(*command)
    driver.until(lambda: committed(checkpoint) > 2, "some windows")
    hold.touch()
    killed_in = kill_when_held(driver)
    hold.unlink()

    last = start(*command, "--windows", "2")
    assert last.wait() == 0, last.text
    reader.finish()
    assert committed(checkpoint) == killed_in + 2
    sums = [
        {"window": window, "sum": sum(range(1, 100 * window + 100, 2))} for window in range(killed_in + 3)
    ]
    assert multisets(output) == {".": Counter(map(json.dumps, sums))}
