"""`ridgeline kill-container` and `ridgeline wait`: an operator that hangs for ever is ended by hand."""

import json
from collections import Counter

import pytest

from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
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
            Path("hung").touch()
            time.sleep(100_000)
        self.output.emit(number)

app = Application("hang", window=0)
hangs = app.add_operator("hangs", Hangs(), partitions=2)
app.add_stream("numbers", app.add_operator("feed", Feed()).output, hangs.numbers)
app.add_stream("taken", hangs.output, app.add_operator("store", FileOutput(path="out", format="jsonl")).input)
"""


def test_a_container_that_hangs_is_ended_by_hand(
    ridgeline_process, ridgeline_command, environment, tmp_path, wait_until
):
    environment["RIDGELINE_HOME"] = str(tmp_path / "ridgeline-home")
    (tmp_path / "hang.py").write_text(APP)
    run = ridgeline_process("run", "hang.py", "--master", "local[4]", "--checkpoint", "state", "--quiet")
    wait_until((tmp_path / "hung").exists, "the operator to hang")

    waited = ridgeline_command("wait", "hang", "0.5")
    assert waited.exit_code == 1
    assert "`hang` still runs after 0.5 s" in waited.stderr

    listed = json.loads(ridgeline_command("list-containers", "hang", "--json").stdout)["containers"]
    unknown = ridgeline_command("kill-container", "hang", "99")
    assert unknown.exit_code == 2, unknown.output
    hung = next(one for one in listed if "hangs" in " ".join(one["operators"].values()))
    killed = ridgeline_command("kill-container", "hang", hung["id"], "--json")
    assert killed.exit_code == 0, killed.output
    (answer,) = json.loads(killed.stdout)["killed"]
    assert hung["id"] in answer["containers"]
    assert answer["pid"] == hung["pid"]

    done = ridgeline_command("wait", "hang", PATIENCE_SECONDS)
    assert (done.exit_code, done.stdout) == (0, "hang has ended\n")
    assert run.wait(PATIENCE_SECONDS) == 0
    lines = [line for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert Counter(json.loads(line)["value"] for line in lines) == Counter(range(200))
