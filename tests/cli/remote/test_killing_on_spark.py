"""`ridgeline kill-container`: an operator that hangs for ever is ended by hand."""

import json

import pytest

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
