"""Two drivers on one checkpoint folder: never both."""

import signal

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local
from support.crash.processes import committed
from support.crash.rows import multisets
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark]

APPLICATION = SUPPORT / "crash" / "numbers.py"


def test_second_driver_is_refused_while_the_first_runs(start, wait_until, tmp_path):
    whole, output, folder, checkpoint = (
        tmp_path / name for name in ("whole", "output", "notes", "checkpoint")
    )
    folder.mkdir()
    command = (
        APPLICATION,
        "--output",
        output,
        "--folder",
        folder,
        "--wait-in",
        "4",
        "--checkpoint",
        checkpoint,
        "--master",
        "local[2]",
    )

    first = start(*command)
    wait_until(lambda: list(folder.glob("pid-*")) or first.exit_code is not None, "window 4")
    wait_until(
        lambda: committed(checkpoint) == 3 or first.exit_code is not None, "those before to be committed"
    )
    first.process.send_signal(signal.SIGSTOP)  # it holds the folder though it does nothing
    second = start(*command, log="second.log")

    assert second.wait() == 3
    first.process.send_signal(signal.SIGCONT)
    assert f"checkpoint folder `{checkpoint}` is in use by process {first.pid} on " in second.text
    assert "stop it first, or give another `--checkpoint`" in second.text
    assert committed(checkpoint) == 3
    (folder / "go").touch()
    assert first.wait() == 0, first.text
    run_local(load_application(str(APPLICATION), ["--output", str(whole)]))
    assert multisets(output) == multisets(whole)
