"""`ridgeline prove`: an output of an application against its own place, which is not touched."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

_APPLICATION = """
from typing import NamedTuple
from ridgeline import Application
from ridgeline.operators import FileOutput
from ridgeline.operators.sql_files import SqliteOutput
from ridgeline.operators.sql_files.sqlite_output import SqliteSink
from ridgeline.testing import ListInput

class Total(NamedTuple):
    country: str
    cents: int

class Forgetful(SqliteSink):
    def mark(self):
        return None

class ForgetfulOutput(SqliteOutput):
    def sink(self):
        return Forgetful(self.target)

app = Application("shop")
totals = app.read("totals", ListInput(Total, [("CH", 500)]))
totals.write("table", SqliteOutput("shop.db", "totals", key="country"))
totals.write("wrong", ForgetfulOutput("shop.db", "totals"))
totals.write("files", FileOutput("out", partition_by=["country"]))
totals.write("console")
"""
_QUICK = ("--only", "2 partitions", "--only", "write: in, time 1", "--only", "kills")


@pytest.fixture
def shop(tmp_path):
    """The application, and a database with data of the user's."""
    (tmp_path / "shop.py").write_text(_APPLICATION)
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table totals (country text primary key, cents int)")
        database.execute("insert into totals values ('CH', 7)")
    database.close()
    return tmp_path


def _command(*arguments):
    return [sys.executable, "-m", "ridgeline", "prove", "shop.py", *arguments]


def _prove(*arguments, folder):
    return subprocess.run(
        _command(*arguments), capture_output=True, text=True, cwd=folder, check=False, timeout=300
    )


def _names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


@pytest.mark.slow
def test_a_right_output_is_proved_and_leaves_nothing(shop):
    data = (shop / "shop.db").read_bytes()
    ran = _prove("--sink", "table", "--kills", "3", *_QUICK, folder=shop)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "  driver killed, write: in, time 1: held\n  3 kills of the process: held\n" in ran.stdout
    assert "proved: exactly once, expected exactly once (3 checks held, 0 failed, 0 skipped" in ran.stdout
    assert _names(shop) == ["shop.db", "shop.py"]
    assert (shop / "shop.db").read_bytes() == data


@pytest.mark.slow
def test_a_wrong_output_is_not_proved(shop):
    ran = _prove("--sink", "wrong", "--kills", "4", "--json", *_QUICK, folder=shop)
    found = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert not found["holds"]
    assert {one["check"]: one["result"] for one in found["checks"]}["2 partitions"] == "held"
    assert found["checks"][-1]["result"] == "failed" or found["checks"][-1]["found"] == "repeats"
    assert _names(shop) == ["shop.db", "shop.py"]


@pytest.mark.slow
def test_files_are_proved_beside_their_folder(shop):
    ran = _prove("--sink", "files", "--kills", "2", *_QUICK, folder=shop)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert _names(shop) == ["shop.db", "shop.py"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--sink", "console"], "`ConsoleOutput` cannot be proved: it has no scratch place; give its class"),
        (["--sink", "tabel"], "there is no operator `tabel`; did you mean `table`?"),
        ([], "the application has 3 outputs; name one by `--sink`: `table`, `wrong`, `files`"),
        (["--sink", "table", "--only", "nonesuch"], "no check has 'nonesuch' in its name"),
    ],
)
def test_what_cannot_be_proved_is_said(shop, ridgeline_command, arguments, what):
    ran = ridgeline_command("prove", "shop.py", *arguments)
    assert ran.exit_code == 2
    assert what in ran.stderr


def _started(folder, *arguments):
    """A proof that has begun its checks."""
    started = subprocess.Popen(_command(*arguments), cwd=folder, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    while "1 partitions" not in started.stdout.readline():
        assert started.poll() is None
    return started


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["table", "files"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_proof_leaves_nothing(shop, sink, number, code):
    started = _started(shop, "--sink", sink)
    started.send_signal(number)
    started.communicate(timeout=120)
    assert started.returncode == code
    assert _names(shop) == ["shop.db", "shop.py"]


def _kill_within_a_check(folder):
    """A proof that is killed while a scratch database is there."""
    started = _started(folder, "--sink", "table")
    while not list(folder.glob("ridgeline_scratch_*.db")):
        assert started.poll() is None
    os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=60)


@pytest.mark.slow
def test_what_a_killed_proof_has_left_is_said_and_removed(shop):
    while not list(Path(shop).glob("ridgeline_scratch_*")):  # it may be between two checks when it dies
        _kill_within_a_check(shop)
    ran = _prove("--sink", "table", "--kills", "0", "--only", "2 partitions", folder=shop)
    assert "scratch places of other proofs are there: `ridgeline_scratch_2" in ran.stdout
    assert list(shop.glob("ridgeline_scratch_*"))
    ran = _prove("--sink", "table", "--remove-scratch", folder=shop)
    assert ran.stdout.startswith("removed ridgeline_scratch_2")
    assert _names(shop) == ["shop.db", "shop.py"]
