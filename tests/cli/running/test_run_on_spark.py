"""`ridgeline run` as a user calls it: a process of its own, a small application, two slots."""

import json
import re
import signal

import pytest

from support.depth import deeper
from support.paths import SUPPORT
from support.waiting import PATIENCE_SECONDS

TINY = SUPPORT / "cli" / "tiny.py"
RUN = ("run", TINY, "--master", "local[2]")
TOTALS = [(window, sum(range(10 * (window + 1)))) for window in range(5)]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def written(folder):
    path = folder / "totals.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(map(int, line.split())) for line in lines]


def wait_for_line(process, start):
    """Read what the process says up to a line; fails if it ends before."""
    assert any(line.startswith(start) for line in iter(process.stdout.readline, ""))


def ask_meanwhile(ridgeline_command):
    """While the first window of a run goes on, it is found by its name and says so."""
    [app] = json.loads(ridgeline_command("ps", "--json").stdout)["apps"]
    assert (app["name"], app["checkpoint"].endswith("/state")) == ("tiny", True)
    info = json.loads(ridgeline_command("get-app-info", "tiny", "--json").stdout)
    assert (info["id"], info["state"], info["master"]) == (
        f"{app['run']}-{app['epoch']}",
        "RUNNING",
        "local[2]",
    )
    progress = json.loads(ridgeline_command("progress", "tiny", "--json").stdout)
    assert (progress["windowId"], progress["running"]) == (0, True)
    assert ridgeline_command("critical-path").stdout == "no window is committed yet\n"
    operators = json.loads(ridgeline_command("list-operators", "--json").stdout)["operators"]
    assert [operator["operator"] for operator in operators] == ["numbers", "total"]


def ended(process, code):
    stdout, stderr = process.communicate()
    assert process.returncode == code, stdout + stderr
    return stdout, stderr


@pytest.mark.guide("002", "Local Mode")
def test_a_run_that_finishes_and_is_replayed(ridgeline_process, ridgeline_command, tmp_path):
    stdout, stderr = ended(ridgeline_process(*RUN, "--checkpoint", "state", "--event-log", "run.jsonl"), 0)
    assert stderr == ""
    assert written(tmp_path)[: len(TOTALS)] == TOTALS  # in slots, later windows had begun too
    lines = [line for line in stdout.splitlines() if not line.startswith("window 0 runs for ")]  # slow start
    assert lines[:3] == [
        "tiny on local[2]: ends when all inputs have finished; Ctrl-C ends it after the windows under way",
        "starting Spark ...",
        f"checkpoint {tmp_path / 'state'} (fresh)",
    ]
    assert re.fullmatch(r"figures at http://127\.0\.0\.1:\d+", lines[3])
    assert re.match(
        r"window 0: 10 in, 10 out, [\d.]+ m?s; critical path [\d.]+ m?s numbers > total", lines[4]
    )
    end = "finished: all inputs have given everything, 5 windows committed"
    assert end in lines
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", stdout)
    assert any(line.startswith("critical path, average of the last 5 windows") for line in lines)
    assert "where the time of a typical window goes (the middle half of 4 by latency):" in lines

    replayed = ridgeline_command("replay", "run.jsonl").stdout.splitlines()
    assert replayed[0].endswith("; finished")
    # lines with brackets hold the time of day or where it ran: shown as of the last event instead of now
    figures = [line for line in lines[lines.index(end) + 1 : -1] if line and "(" not in line]
    assert [line for line in replayed[1:] if line and "(" not in line] == figures


def test_windows_and_going_on_from_the_checkpoint(ridgeline_process, tmp_path):
    given = ("-D", "total.fail_at=-1")
    stdout, _ = ended(ridgeline_process(*RUN, *given, "--checkpoint", "state", "--windows", "2"), 0)
    assert "stopped after 2 windows" in stdout
    assert f"--master 'local[2]' -D total.fail_at=-1 --windows 2 --checkpoint {tmp_path / 'state'}" in stdout
    assert written(tmp_path) == TOTALS[:2]

    stdout, stderr = ended(ridgeline_process(*RUN, "--checkpoint", "state", "--quiet"), 0)
    assert (stdout, stderr) == ("", "")
    assert written(tmp_path)[: len(TOTALS)] == TOTALS  # in slots, later windows had begun too

    stdout, _ = ended(ridgeline_process(*RUN, "--checkpoint", "state"), 0)
    assert "nothing to do: all inputs had finished with window 4" in stdout
    assert written(tmp_path)[: len(TOTALS)] == TOTALS  # in slots, later windows had begun too
    assert "goes on with properties of the run before: total.fail_at=-1" in stdout


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "Ctrl-C"), pytest.param(signal.SIGTERM, "SIGTERM", marks=deeper)]
)
def test_a_signal_ends_the_run_after_its_window(
    ridgeline_process, ridgeline_command, tmp_path, wait_until, number, name
):
    hold = tmp_path / "hold"
    hold.touch()
    process = ridgeline_process(*RUN, "--checkpoint", "state", "--count", "0", "-D", f"total.hold={hold}")
    wait_until(lambda: written(tmp_path), "the first window")  # it goes on until the file is gone
    ask_meanwhile(ridgeline_command)
    process.send_signal(number)
    wait_for_line(process, "stopping after windows under way")
    hold.unlink()
    stdout, _ = ended(process, 0)
    windows = re.search(rf"stopped by {name} after (\d) window", stdout)
    assert windows is not None, stdout
    assert written(tmp_path) == TOTALS[: int(windows.group(1))]  # in slots, with those that were under way


def test_the_second_signal_kills_and_the_window_is_replayed(ridgeline_process, tmp_path, wait_until):
    hold = tmp_path / "hold"
    hold.touch()
    process = ridgeline_process(*RUN, "--checkpoint", "state", "-D", f"total.hold={hold}")
    wait_until(lambda: written(tmp_path), "the first window")
    process.send_signal(signal.SIGINT)
    wait_for_line(process, "stopping after windows under way")
    process.send_signal(signal.SIGINT)
    _, stderr = ended(process, 130)
    assert "killed; the windows under way are not committed and will be replayed" in stderr
    # The file stays: the old slot, which may live a moment longer, must not go on.
    ended(ridgeline_process(*RUN, "--checkpoint", "state", "-D", "total.hold="), 0)
    assert written(tmp_path)[: 1 + len(TOTALS)] == TOTALS[:1] + TOTALS


def test_a_run_whose_reader_goes_away_stops_after_its_window(ridgeline_process, tmp_path):
    process = ridgeline_process(*RUN, "--checkpoint", "state", "--count", "0")
    wait_for_line(process, "window 0: ")
    process.stdout.close()
    assert process.wait(PATIENCE_SECONDS) == 141
    lines = process.stderr.read().splitlines()
    done = written(tmp_path)
    assert done == [(window, sum(range(10 * (window + 1)))) for window in range(len(done))]
    assert lines[0] == "nobody reads the output any more; stopping after windows under way"
    assert f"{len(done)} windows of this run committed" in lines
    go_on = f"  ridgeline run {TINY} --master 'local[2]' --checkpoint {tmp_path / 'state'} --count 0"
    assert lines[-2:] == ["go on with:", go_on]


def test_a_run_that_fails(ridgeline_process, tmp_path):
    stdout, stderr = ended(ridgeline_process(*RUN, "--checkpoint", "state", "-D", "total.fail_at=23"), 3)
    lines = stderr.splitlines()
    assert "`total` (partition 0) of application `tiny` failed in window 2 in `process of port" in lines[0]
    assert lines[0].endswith("ZeroDivisionError: division by zero; the tuple was Number(value=23)")
    assert f'       File "{TINY}", line 53, in divide' in lines
    assert "site-packages" not in stderr
    assert "2 windows of this run committed" in lines
    assert f"run {TINY} --master 'local[2]' -D total.fail_at=23 --checkpoint {tmp_path}" in lines[-1]
    assert "stopped" not in stdout


def test_spark_that_does_not_start_is_3(ridgeline_process):
    _, stderr = ended(ridgeline_process("run", TINY, "--master", "local[many]"), 3)
    assert stderr.startswith("error: Spark did not start on `local[many]`")
