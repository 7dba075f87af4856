"""How a run ends for a service manager, which starts it again by its exit code."""

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeline.api.errors import (
    ApplicationKilledError,
    CheckpointError,
    FencedError,
    NameTakenError,
    RidgelineError,
    StateError,
    UntrustedError,
    ValidationError,
)
from ridgeline.cli.errors import CommandError
from ridgeline.cli.running.starting import run_code
from ridgeline.engine.files.folder_lock import FolderInUseError
from ridgeline.service import registry
from support.manifests import last_of
from support.service.managers import messages
from support.waiting import wait_until

APP = """
from pathlib import Path
from typing import NamedTuple
from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.operators import FileOutput

class Rec(NamedTuple):
    n: int

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + 10):
            if Path("poison").exists():
                raise ValueError("poison")
            self.output.emit(Rec(n))
        self.pos += 10

app = Application("feed", window="50ms")
feed = app.add_operator("feed", Feed(), recovery_attempts=0)
store = app.add_operator("store", FileOutput(path="out", format="jsonl", roll_seconds=0))
app.add_stream("numbers", feed.output, store.input)
"""


def caused(error, cause):
    error.__cause__ = cause
    return error


def test_the_exit_code_says_whether_another_start_may_get_further():
    for error, code in (
        (ValidationError("app", []), 2),
        (CommandError("no such option"), 2),
        (ApplicationKilledError("x"), 1),
        (FencedError("x"), 1),
        (StateError("x"), 1),
        (UntrustedError("x"), 1),
        (CheckpointError("damaged"), 1),
        (caused(CheckpointError("no space is left"), OSError("full")), 3),
        (FolderInUseError("x"), 3),
        (NameTakenError("x"), 3),
        (RidgelineError("Spark has ended"), 3),
        (OSError("no space"), 3),
    ):
        assert run_code(error) == code, error


def test_a_process_that_does_not_answer_is_killed(ridgeline_command):
    with subprocess.Popen(["sleep", "600"]) as process:
        identity = registry.process_identity(process.pid)
        made = registry.own_entry("one-1", "one", "http://127.0.0.1:9", token=None, started=1.0)
        registry.register(replace(made, pid=process.pid, process=identity))
        done = ridgeline_command("kill", "one", "--yes")
        assert process.wait() == -signal.SIGKILL
    assert done.stdout == f"the process {process.pid} got SIGKILL\none has ended\n"


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_under_a_manager_is_ready_says_how_it_does_and_ends_for_good(
    ridgeline_process, ridgeline_command, environment, tmp_path
):
    (tmp_path / "app.py").write_text(APP)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.settimeout(120)
        environment |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1500000"}
        words = ("run", "app.py", "--master", "local[2]", "--checkpoint", "state", "--event-log", "log.jsonl")
        driver = ridgeline_process(*words, "--quiet")
        before = messages(end, "READY=1")
        assert last_of(tmp_path / "state").window_id >= 0
        assert all("EXTEND_TIMEOUT_USEC=60000000" in one for one in before[:-1])
        assert before[-1][1].startswith("STATUS=")
        assert any(" window" in one[0] for one in messages(end, "WATCHDOG=1"))
        for worker in driver.members():  # none of them speaks for the driver
            with suppress(ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
                variables = Path(f"/proc/{worker.pid}/environ").read_bytes()
                assert worker.pid == driver.pid or b"NOTIFY_SOCKET=" not in variables

        os.kill(driver.pid, signal.SIGSTOP)  # it hangs: systemd would end it after 1.5 s of silence
        end.settimeout(0.1)
        quiet = time.monotonic() + 1.5
        while time.monotonic() < quiet:
            try:
                end.recv(4096)  # what it had sent before
                quiet = time.monotonic() + 1.5
            except TimeoutError:
                continue
        os.kill(driver.pid, signal.SIGCONT)
        end.settimeout(60)
        assert messages(end, "WATCHDOG=1")
        assert ridgeline_command("kill", "feed", "--yes").exit_code == 0
        _, error = driver.communicate()
        assert driver.returncode == 1, error

        windows = last_of(tmp_path / "state").window_id
        driver = ridgeline_process(*words, "--quiet")
        messages(end, "READY=1")
        wait_until(lambda: last_of(tmp_path / "state").window_id > windows + 3, "windows more")
        driver.send_signal(signal.SIGTERM)
        assert messages(end, "STOPPING=1")
        _, error = driver.communicate()
        assert driver.returncode == 0, error

        (tmp_path / "poison").touch()
        driver = ridgeline_process(*words, "--quiet")
        _, error = driver.communicate()
        assert driver.returncode == 3, error
    assert (tmp_path / "log.000001.jsonl").exists()
    lines = [
        json.loads(line)["n"]
        for file in (tmp_path / "out").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted(lines) == list(range(len(lines)))
