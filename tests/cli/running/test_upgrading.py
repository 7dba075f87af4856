"""`ridgeline upgrade` as a user calls it: a version takes over where the one before has stopped."""

import json

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
from pathlib import Path
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort
from ridgeline import Migration, State
from ridgeline.operators import FileOutput

class Rec(NamedTuple):
    key: int
    n: int

def counted(acc):
    return {{"n": acc["count"], "total": acc["total"]}}

class Acc(NamedTuple):
    {first}: int
    total: {kind}

class Out(NamedTuple):
    key: int
    count: int
    total: int

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + 20):
            self.output.emit(Rec(n % 7, n))
        self.pos += 20
        if Path({folder!r}, "finish").exists():
            self.finish()

class Sum(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(Out)
    migrations = [{steps}]
    acc = KeyedState(Acc, key=int)
    @data.process
    def add(self, rec):
        count, total = self.acc.get(rec.key, (0, 0))
        self.acc[rec.key] = Acc(count + 1, total + rec.n)
        self.output.emit(Out(rec.key, count + 1, int(total) + rec.n))

app = Application("sums", window="50ms")
feed, total = app.add_operator("feed", Feed()), app.add_operator("sum", Sum(), partitions=2)
app.add_stream("numbers", feed.output, total.data)
store = app.add_operator("store", FileOutput(path={folder!r} + "/out", format="jsonl", roll_seconds=0))
app.add_stream("sums", total.output, store.input)
"""


def wait_for_line(process, start):
    """Read what the process says up to a line; fails if it ends before."""
    assert any(line.startswith(start) for line in iter(process.stdout.readline, ""))


def test_a_version_takes_over_unless_its_state_would_be_refused(
    ridgeline_process, ridgeline_command, tmp_path
):
    def write(name, **given):
        parts = {"first": "count", "kind": "int", "steps": ""} | given
        (tmp_path / name).write_text(APP.format(folder=str(tmp_path), **parts))

    write("one.py")
    write("two.py", first="n", kind="float", steps='Migration("acc", counted)')
    write("three.py", kind="str")
    before = ridgeline_process("run", "one.py", "--master", "local[2]", "--checkpoint", "state")
    wait_for_line(before, "window 0: ")
    refused = ridgeline_command("upgrade", "sums", "three.py")
    assert refused.exit_code == 2
    assert "`--drop-state sum.acc`" in refused.stdout
    assert refused.stdout.endswith("nothing was changed: `sums` runs on\n")
    elsewhere = ridgeline_command("upgrade", "sums", "two.py", "--checkpoint", "other")
    assert (elsewhere.exit_code, "leave it out" in elsewhere.stderr) == (2, True)
    assert before.poll() is None
    upgrade = ridgeline_process("upgrade", "sums", "two.py", "--master", "local[2]")
    wait_for_line(upgrade, "  converted  sum.acc")
    wait_for_line(upgrade, "window ")
    before.communicate()
    assert before.returncode == 0
    (tmp_path / "finish").touch()
    stdout, stderr = upgrade.communicate()
    assert upgrade.returncode == 0, stdout + stderr
    assert_as_a_plain_loop(tmp_path)


def assert_as_a_plain_loop(tmp_path):
    """All that was published is what a loop over the same numbers makes."""
    rows = [
        json.loads(line)
        for file in (tmp_path / "out").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    found = sorted((row["key"], row["count"], row["total"]) for row in rows)
    expected, counts, totals = [], [0] * 7, [0] * 7
    for n in range(len(rows)):
        counts[n % 7] += 1
        totals[n % 7] += n
        expected.append((n % 7, counts[n % 7], totals[n % 7]))
    assert found == sorted(expected)
