"""Two drivers on one checkpoint folder: never both."""

import signal

import pytest

from support.crash.processes import committed, options
from support.crash.rows import check_published
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark]

APPLICATION = SUPPORT / "crash" / "numbers.py"


def test_second_driver_is_refused_while_the_first_runs(start, tmp_path):
    output, folder, checkpoint = (tmp_path / name for name in ("output", "notes", "checkpoint"))
    folder.mkdir()
    given = options(output=output, folder=folder, wait_in=4, checkpoint=checkpoint, master="local[2]")
    first = start(APPLICATION, *given)
    first.until(lambda: list(folder.glob("pid-*")) and committed(checkpoint) == 3, "window 4")
    first.process.send_signal(signal.SIGSTOP)  # it holds the folder though it does nothing
    second = start(APPLICATION, *given, log="second.log")

    assert second.wait() == 3
    first.process.send_signal(signal.SIGCONT)
    assert f"checkpoint folder `{checkpoint}` is in use by process {first.pid} on " in second.text
    assert "stop it first, or give another `--checkpoint`" in second.text
    assert committed(checkpoint) == 3
    (folder / "go").touch()
    assert first.wait() == 0, first.text
    check_published(output, 10, APPLICATION, tmp_path)
