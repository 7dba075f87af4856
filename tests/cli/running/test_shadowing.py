"""`ridgeline upgrade --shadow`: a version runs beside the one at work, which notices nothing."""

import json
import os
import signal

import pytest
from tests.cli.running.test_upgrading import APP, assert_as_a_plain_loop, kill_driver, wait_for_line

from ridgeline.service import registry
from support.depth import DEPTH
from support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PARTS = {"first": "count", "kind": "int", "steps": "", "more": "", "at_start": ""}
NEW = {"first": "n", "kind": "float", "steps": 'RenamedField("Acc", "count", "n")'}
WORDS = ("--master", "local[2]")
SEVENTH = "int(total) + rec.n + (rec.key == 3 and rec.n % 5 == 0)"


@pytest.fixture
def temporary(environment, tmp_path):
    """The folder for temporary files of all commands."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment["TMPDIR"] = str(folder)
    return folder


def write(folder, name, wrong="int(total) + rec.n", **given):
    text = APP.format(folder=str(folder), **PARTS | given)
    (folder / name).write_text(text.replace("int(total) + rec.n", wrong))


def ended(process):
    stdout, stderr = process.communicate()
    return process.returncode, stdout, stderr


def test_versions_run_beside_and_differences_are_named(ridgeline_process, temporary, tmp_path):
    write(tmp_path, "one.py")
    write(tmp_path, "same.py", **NEW)
    write(tmp_path, "wrong.py", SEVENTH)
    write(tmp_path, "fails.py", "int(total) + rec.n // (rec.n % 100)")
    old = ridgeline_process("run", "one.py", *WORDS, "--checkpoint", "state")
    wait_for_line(old, "window 0: ")
    same = ridgeline_process("upgrade", "sums", "same.py", *WORDS, "--shadow", "1s", "--check-only")
    code, stdout, stderr = ended(same)
    assert (code, stderr) == (0, ""), stdout + stderr
    assert "converted  sum.acc" in stdout
    assert "  store.input: " in stdout
    assert "rows, equal" in stdout
    assert "of processor time; with the version before" in stdout

    code, stdout, stderr = ended(ridgeline_process("upgrade", "sums", "wrong.py", *WORDS, "--shadow", "2s"))
    assert code == 1, stdout + stderr
    assert "  store.input: DIFFERENT in " in stdout
    assert "      key=3, count=" in stdout
    assert "the version before repeats what it published: the difference is the new version's" in stdout
    assert stdout.endswith("nothing was changed: `sums` runs on\n")

    code, stdout, stderr = ended(ridgeline_process("upgrade", "sums", "fails.py", *WORDS, "--shadow", "30s"))
    assert code == 1, stdout + stderr
    assert "the new version failed " in stdout
    assert "ZeroDivisionError" in stdout
    assert stdout.endswith("nothing was changed: `sums` runs on\n")

    assert not list(temporary.glob("ridgeline-shadow-*"))
    assert not list((tmp_path / "state" / "recordings").glob("*.*"))
    (tmp_path / "finish").touch()
    assert ended(old)[0] == 0
    assert_as_a_plain_loop(tmp_path)


@pytest.mark.skipif(DEPTH < 2, reason="a version that stands still is waited for a minute")
def test_a_version_that_stands_still_is_no_crash(ridgeline_process, temporary, tmp_path):
    write(tmp_path, "one.py")
    write(tmp_path, "hangs.py", "int(total) + (rec.n if rec.n % 100 < 99 else __import__('time').sleep(1e4))")
    old = ridgeline_process("run", "one.py", *WORDS, "--checkpoint", "state")
    wait_for_line(old, "window 0: ")
    code, stdout, stderr = ended(ridgeline_process("upgrade", "sums", "hangs.py", *WORDS, "--shadow", "2s"))
    assert code == 1, stdout + stderr
    assert "it stands still, or does not keep up; nothing was changed: `sums` runs on\n" in stdout
    assert not list(temporary.glob("ridgeline-shadow-*"))
    (tmp_path / "finish").touch()
    assert ended(old)[0] == 0
    assert_as_a_plain_loop(tmp_path)


def windows_of(temporary):
    """How many windows the new version has compared."""
    for file in temporary.glob("ridgeline-shadow-*/new/progress.json"):
        return json.loads(file.read_text())["windows"]
    return 0


@pytest.mark.crash
def test_kills_of_either_side_leave_the_other_and_an_upgrade_is_supervised(
    ridgeline_process, temporary, tmp_path
):
    write(tmp_path, "one.py")
    write(tmp_path, "same.py", **NEW)
    supervised = ("--supervise", "--back-off", "0.1s-1s")
    old = ridgeline_process("run", "one.py", *WORDS, "--checkpoint", "state", *supervised)
    wait_for_line(old, "window 0: ")
    shadow = ridgeline_process("upgrade", "sums", "same.py", *WORDS, "--shadow", "10m", "--check-only")
    wait_until(lambda: windows_of(temporary) > 5, "the first windows beside")
    before = {one.pid for one in registry.running()}
    kill_driver(old)
    wait_until(lambda: any(one.pid not in before for one in registry.running()), "the next driver")
    seen = windows_of(temporary)
    wait_until(lambda: windows_of(temporary) > seen + 40, "windows of the driver that was started again")
    os.kill(shadow.pid, signal.SIGKILL)
    wait_until(lambda: not list(temporary.glob("ridgeline-shadow-*")), "the copies to be removed")
    recordings = tmp_path / "state" / "recordings"
    wait_until(lambda: not list(recordings.glob("*.*")), "the recording to be removed")

    upgrade = ridgeline_process("upgrade", "sums", "same.py", *WORDS, "--shadow", "1s", *supervised)
    wait_for_line(upgrade, "  store.input: ")
    wait_for_line(upgrade, "window ")
    kill_driver(upgrade)
    wait_for_line(upgrade, "window ")
    (tmp_path / "finish").touch()
    code, stdout, stderr = ended(upgrade)
    assert code == 0, stdout + stderr
    assert "supervisor: the driver was killed by SIGKILL" in stderr
    assert ended(old)[0] == 0
    assert_as_a_plain_loop(tmp_path)
