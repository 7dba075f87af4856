"""When a driver is started again, and when not."""

import json
import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from ridgeline.api.errors import (
    ApplicationKilledError,
    CheckpointError,
    FencedError,
    NameTakenError,
    ValidationError,
)
from ridgeline.cli.supervising.link import Link, judged
from ridgeline.cli.supervising.supervisor import Failures, Policy
from ridgeline.engine.files.folder_lock import FolderInUseError
from support.crash.processes import parent
from support.waiting import wait_until

APP = """
import os, signal
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
            if n == 100 and Path({folder!r}, "poison").exists():
                raise ValueError("poison")
            self.output.emit(Rec(n))
        self.pos += 10
        if Path({folder!r}, "finish").exists():
            self.finish()

app = Application("fed", window="20ms")
feed = app.add_operator("feed", Feed(), recovery_attempts=0)
store = app.add_operator("store", FileOutput(path={folder!r} + "/out", format="jsonl", roll_seconds=0))
app.add_stream("numbers", feed.output, store.input)
"""


def test_pauses_double_until_a_driver_runs_well():
    failures = Failures(Policy(failures=100))
    pauses = [failures.next(float(now), 0.0, {}, -9)[0] for now in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert failures.next(9.0, 299.0, {}, -9) == (60, "")
    assert failures.next(10.0, 300.0, {}, -9) == (1, "")


def test_it_gives_up_after_failures_within_a_time():
    failures = Failures(Policy(failures=3, within=100.0))
    assert [failures.next(now, 0.0, {}, 1)[1] for now in (0.0, 90.0, 120.0)] == ["", "", ""]
    assert failures.next(150.0, 0.0, {}, 1)[1] == "it gives up: 3 failures within 1 min 0 s (`--give-up`)"


def test_the_same_fault_at_the_same_window_is_met_three_times():
    failures, poison = Failures(Policy()), {"again": True, "same": "check 0 7 ValueError"}
    found = [failures.next(float(now), 0.0, poison, 1)[1] for now in range(3)]
    assert found == ["", "", "it failed 3 times in the same way at the same window"]
    failures = Failures(Policy())
    others = [{"again": True, "same": f"check 0 {window} ValueError"} for window in (7, 7, 8, 7, 7)]
    assert not any(failures.next(float(now), 0.0, one, 1)[1] for now, one in enumerate(others))


@pytest.mark.parametrize(
    ("error", "begun", "again"),
    [
        (ValidationError("app", []), True, False),
        (ApplicationKilledError("x"), True, False),
        (FencedError("x"), True, False),
        (FolderInUseError("x"), False, False),
        (FolderInUseError("x"), True, True),
        (NameTakenError("x"), False, False),
        (NameTakenError("x"), True, True),
        (CheckpointError("corrupt"), True, False),
        (OSError("no space"), True, True),
    ],
)
def test_errors_that_another_start_cannot_mend(error, begun, again):
    assert judged(error, begun=begun)["again"] is again


def test_a_checkpoint_on_a_full_disk_is_tried_again():
    error = CheckpointError("no space is left")
    error.__cause__ = OSError("full")
    assert judged(error, begun=True)["again"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "`--supervise` needs `--checkpoint`"),
        (["--checkpoint", "c", "--give-up", "x"], "`--give-up x`: give a number of failures and a time"),
        (["--checkpoint", "c", "--back-off", "5s-1s"], "the first pause is longer than the last"),
        (["--checkpoint", "c", "--back-off-reset", "0s"], "`--back-off-reset`: a time above zero is needed"),
    ],
)
def test_wrong_options_are_refused_before_anything_starts(ridgeline_command, tmp_path, words, text):
    (tmp_path / "app.py").write_text(APP.format(folder=str(tmp_path)))
    result = ridgeline_command("run", "app.py", "--supervise", *words)
    assert result.exit_code == 2
    assert text in result.stderr


def lines_from(process, *starts):
    """Read what the process says until it has said these lines, in this order."""
    for start in starts:
        assert any(line.startswith(start) for line in iter(process.stdout.readline, "")), start


def driver_of(process):
    """The process id of the driver that a supervisor has started."""
    return next(one.pid for one in process.members() if parent(one.pid) == process.pid)


def words_of_run(folder, *more):
    """The words of a supervised run of the application, which is made in a folder."""
    (folder / "app.py").write_text(APP.format(folder=str(folder)))
    return "run", "app.py", "--master", "local[2]", *more, "--supervise"


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_that_was_killed_is_started_again_and_nothing_is_lost_or_twice(
    ridgeline_process, ridgeline_command, tmp_path
):
    words = words_of_run(tmp_path, "--store", "store")
    process = ridgeline_process(*words, "--back-off", "100ms-1s")
    lines_from(process, "window 0: ", "window ")
    os.kill(driver_of(process), signal.SIGKILL)
    lines_from(process, "window ", "window ")
    (row,) = json.loads(ridgeline_command("ps", "--store", "store", "--json").stdout)["apps"]
    assert (row["state"], row["epoch"]) == ("running", 2)
    info = json.loads(ridgeline_command("get-app-info", "fed", "--json").stdout)
    assert info["restarts"] == 1
    assert info["restartReason"].startswith("was killed by SIGKILL")
    process.terminate()
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stdout + stderr
    assert "the supervisor was killed" not in stderr
    rows = [
        json.loads(line)["n"]
        for file in (tmp_path / "out").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert sorted(rows) == list(range(len(rows)))


@pytest.mark.spark
@pytest.mark.slow
def test_kill_of_a_frozen_driver_ends_its_supervisor_too(ridgeline_process, tmp_path):
    words = words_of_run(tmp_path, "--checkpoint", "state")
    process = ridgeline_process(*words, "--back-off", "100ms-1s")
    lines_from(process, "window 0: ", "window ")
    os.kill(driver_of(process), signal.SIGSTOP)
    out, error = (killing := ridgeline_process("kill", "fed", "--yes")).communicate()
    assert killing.returncode == 0, error
    assert f"the supervisor {process.pid} got SIGTERM" in out
    assert "fed has ended" in out
    stderr = process.communicate()[1]
    assert process.returncode == 128 + signal.SIGKILL
    assert "started again" not in stderr


@pytest.mark.spark
@pytest.mark.slow
def test_in_the_pause_before_a_start_the_name_is_taken_and_stop_ends_the_supervisor(
    ridgeline_process, ridgeline_command, tmp_path
):
    words = words_of_run(tmp_path, "--store", "store")
    process = ridgeline_process(*words, "--back-off", "10m")
    lines_from(process, "window 0: ", "window ")

    def rows(*store):
        return json.loads(ridgeline_command("ps", "--json", *store).stdout)["apps"]

    def between():
        found = [*rows(), *rows("--store", "store")]
        return found if [one["state"] for one in found] == ["restarting"] * 2 else None

    os.kill(driver_of(process), signal.SIGKILL)
    for row in wait_until(between, "the pause"):
        assert re.match(
            r"restarts in (10|9) min .*\(attempt 1\), after: was killed by SIGKILL", row["sentence"]
        )
    second = ridgeline_process(*words)
    _, error = second.communicate()
    assert second.returncode == 2
    assert f"`fed` is under a supervisor already, process {process.pid} on " in error
    found = ridgeline_command("status", "fed", "--store", "store")
    assert "`fed` cannot be asked now: restarts in " in found.stderr
    out = ridgeline_command("stop", "fed", "--store", "store").stdout
    assert out == f"the supervisor {process.pid} got SIGTERM\nfed has ended\n"
    _, error = process.communicate()
    assert (process.returncode, "stopped before it was started again" in error) == (0, True)
    assert rows() == []
    assert rows("--store", "store")[0]["sentence"] == "stopped before it was started again"


@pytest.mark.spark
@pytest.mark.slow
def test_a_poison_tuple_ends_it_and_a_supervisor_that_is_killed_ends_its_driver(ridgeline_process, tmp_path):
    words = words_of_run(tmp_path, "--checkpoint", "state")
    process = ridgeline_process(*words)
    lines_from(process, "window 0: ", "window ")
    driver = driver_of(process)
    process.send_signal(signal.SIGKILL)
    stdout, stderr = process.communicate()  # both are open until the driver has ended
    assert "the supervisor was killed; stopping after windows under way" in stderr
    assert stdout.count("stopped after") == 1
    stat = Path(f"/proc/{driver}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    (tmp_path / "poison").touch()
    process = ridgeline_process(*words[:-2], "state2", "--supervise", "--back-off", "100ms-1s")
    stdout, stderr = process.communicate()
    assert process.returncode == 1, stdout + stderr
    assert "it is not started again: it failed 3 times in the same way at the same window" in stderr
    assert stderr.count("it is started again in ") == 2


def test_a_long_report_arrives_whole_at_a_slow_supervisor_and_a_dead_one_holds_nothing_up():
    end, theirs = socket.socketpair()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    link = Link(end)
    with end, theirs:
        for number in range(100):  # fills the connection; none of them waits
            link.report("line", text=f"{number} " + "x" * 2000)
        lines = theirs.makefile("rb")
        read = threading.Thread(target=lambda: said.extend(iter(lines.readline, b"")))
        said = []
        read.start()
        link.report("failed", error="e" * 1_000_000, again=True)
        end.shutdown(socket.SHUT_WR)
        read.join(10)
        link.report("ended")  # into a closed connection
    last = json.loads(said[-1])
    assert last == {"what": "failed", "error": "e" * 10_000, "again": True}


class Taken:
    """What a supervisor's end is followed by: it keeps what it is to take."""

    def __init__(self):
        self.got = []

    def stop(self, why):
        self.got.append(why)

    def passed_on(self, number, count):
        self.got.append((number, count))


def test_a_signal_between_a_wait_as_standby_and_a_run_is_taken_by_the_run_and_so_is_the_end_of_a_supervisor():
    end, theirs = socket.socketpair()
    link = Link(end)
    waiting, running, later, gone = Taken(), Taken(), Taken(), []
    with end:
        link.follow(waiting, lambda: gone.append("waiting"))
        theirs.sendall(b"15 1\n")
        wait_until(lambda: waiting.got == [(15, 1)], "the signal")
        link.follow(running, lambda: gone.append("running"))
        assert running.got == [(15, 1)]
        theirs.close()
        wait_until(lambda: gone == ["running"], "the end of the supervisor")
        link.follow(later, lambda: gone.append("later"))
    assert waiting.got == [(15, 1)]
    assert running.got == [(15, 1), "the end of its supervisor"]
    assert later.got == running.got
    assert gone == ["running", "later"]
