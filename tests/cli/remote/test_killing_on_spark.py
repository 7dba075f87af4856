"""`ridgeline kill-container` and `ridgeline wait`: an operator that hangs for ever is ended by hand."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ridgeline.cli.applications import commands
from ridgeline.cli.remote.options import Named
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
import os
import time
from pathlib import Path
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput

class Number(NamedTuple):
    value: int

class Feed(InputOperator):
    output = OutputPort(Number)
    count = State(0)
    def emit_tuples(self):
        for value in range(self.count, self.count + 10):
            self.output.emit(Number(value))
        self.count += 10
        if self.count == 200:
            self.finish()

class Hangs(Operator):
    numbers = InputPort(Number, key="value")
    output = OutputPort(Number)
    seen = KeyedState(int, key=int, default=0)
    @numbers.process
    def take(self, number):
        self.seen[number.value % 7] += 1
        if number.value == 105 and not Path("hung").exists():
            Path("hung").write_text(str(os.getpid()))
            time.sleep(100_000)
        self.output.emit(number)

app = Application("hang", window=0)
hangs = app.add_operator("hangs", Hangs(), partitions=2)
app.add_stream("numbers", app.add_operator("feed", Feed()).output, hangs.numbers)
app.add_stream("taken", hangs.output, app.add_operator("store", FileOutput(path="out", format="jsonl")).input)
"""


def written(folder):
    """All values that were published, in order."""
    lines = [line for file in (folder / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


def test_a_container_that_hangs_is_ended_by_hand(ridgeline_process, ridgeline_command, tmp_path, wait_until):
    (tmp_path / "hang.py").write_text(APP)
    run = ridgeline_process("run", "hang.py", "--master", "local[4]", "--checkpoint", "state", "--quiet")
    file = tmp_path / "hung"
    pid = int(wait_until(lambda: file.exists() and file.read_text(), "the operator to hang"))

    waited = ridgeline_command("wait", "hang", "0.5")
    assert waited.exit_code == 1
    assert "`hang` still runs after 0.5 s" in waited.stderr

    listed = json.loads(ridgeline_command("list-containers", "hang", "--json").stdout)["containers"]
    hung = next(one for one in listed if one["pid"] == pid)
    unknown = ridgeline_command("kill-container", "hang", hung["id"], "99")
    assert unknown.exit_code == 2, unknown.output
    again = json.loads(ridgeline_command("list-containers", "hang", "--json").stdout)["containers"]
    assert hung["pid"] in {one["pid"] for one in again}, "no process was ended"
    killed = ridgeline_command("kill-container", "hang", hung["id"], "--json")
    assert killed.exit_code == 0, killed.output
    (answer,) = json.loads(killed.stdout)["killed"]
    assert hung["id"] in answer["containers"]
    assert answer["pid"] == hung["pid"]

    done = ridgeline_command("wait", "hang", PATIENCE_SECONDS)
    assert (done.exit_code, done.stdout) == (0, "hang has ended\n")
    assert run.wait(PATIENCE_SECONDS) == 0
    assert written(tmp_path) == [*range(200)]


def test_containers_of_one_process_end_it_once_and_those_of_two_end_both(
    ridgeline_process, ridgeline_command, tmp_path, wait_until
):
    (tmp_path / "hang.py").write_text(APP.replace("self.count == 200", 'Path("end").exists()'))
    (tmp_path / "hung").touch()
    run = ridgeline_process("run", "hang.py", "--master", "local[3]", "--checkpoint", "state", "--quiet")

    def containers():
        found = ridgeline_command("list-containers", "hang", "--json")
        return json.loads(found.stdout)["containers"] if found.exit_code == 0 else []

    wait_until(lambda: containers() and all(one["pid"] for one in containers()), "all containers to run")
    before = containers()
    pids = {one["pid"] for one in before}
    assert 1 < len(pids) < len(before), "some containers share a process"
    killed = ridgeline_command("kill-container", "hang", *(one["id"] for one in before), "--json")
    assert killed.exit_code == 0, killed.output
    answers = json.loads(killed.stdout)["killed"]
    assert sorted(one["pid"] for one in answers) == sorted(pids)
    assert sorted(id for one in answers for id in one["containers"]) == sorted(one["id"] for one in before)
    wait_until(
        lambda: all(one["pid"] not in pids | {None} for one in containers()), "other processes to have all"
    )
    (tmp_path / "end").touch()
    assert run.wait(PATIENCE_SECONDS) == 0
    assert written(tmp_path) == [*range(len(written(tmp_path)))]


def test_wait_follows_a_driver_that_is_started_again(
    ridgeline_process, ridgeline_command, tmp_path, wait_until, monkeypatch
):
    monkeypatch.setattr(commands, "_SUCCESSOR_SECONDS", PATIENCE_SECONDS)
    (tmp_path / "hang.py").write_text(APP.replace("self.count == 200", 'Path("end").exists()'))
    (tmp_path / "hung").touch()
    words = ("run", "hang.py", "--master", "local[3]", "--store", "store", "--quiet")
    first = ridgeline_process(*words)

    def pid():
        found = json.loads(ridgeline_command("list-apps", "hang", "--json").stdout)["apps"]
        return found[0]["pid"] if found else None

    wait_until(pid, "the application to run")
    assert ridgeline_command("wait", "hang", "0.5", "--store", "store").exit_code == 1
    begun, connect = threading.Event(), commands._Wait._first
    monkeypatch.setattr(commands._Wait, "_first", lambda self: (connect(self), begun.set())[0])
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(commands.wait, Named(app="hang", store="store"), None)
        assert begun.wait(PATIENCE_SECONDS)
        first.kill()
        second = ridgeline_process(*words)
        wait_until(lambda: pid() == second.pid, "the next driver to run")
        assert not waits.done(), "it waits on"
        (tmp_path / "end").touch()
        waits.result(PATIENCE_SECONDS)
    assert second.wait(PATIENCE_SECONDS) == 0
