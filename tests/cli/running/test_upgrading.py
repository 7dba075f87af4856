"""`ridgeline upgrade` as a user calls it: a version takes over, breaks its promise, and gives way again."""

import json
import os
import signal

import pytest

from support.crash.processes import parent

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APP = """
from pathlib import Path
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort
from ridgeline import RenamedField, State
from ridgeline.operators import FileOutput
from ridgeline.sla import window_latency

class Rec(NamedTuple):
    key: int
    n: int

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
class Store(FileOutput):
    def publisher(self):
        {at_start}
        return super().publisher()

store = app.add_operator("store", Store(path={folder!r} + "/out", format="jsonl", roll_seconds=0))
app.add_stream("sums", total.output, store.input)
{more}
"""


def wait_for_line(process, start):
    """Read what the process says up to a line; fails if it ends before."""
    assert any(line.startswith(start) for line in iter(process.stdout.readline, ""))


def test_a_version_that_breaks_its_promise_gives_way_to_the_one_before(
    ridgeline_process, ridgeline_command, tmp_path
):
    def write(name, **given):
        parts = {"first": "count", "kind": "int", "steps": "", "more": "", "at_start": ""} | given
        (tmp_path / name).write_text(APP.format(folder=str(tmp_path), **parts))

    write("one.py")
    promise = 'app.promise(window_latency(p50="1ms", over="2s"))'
    steps = 'RenamedField("Acc", "count", "n")'
    write("two.py", first="n", kind="float", steps=steps, more=promise)
    write("three.py", kind="str")
    write("exits.py", more=promise, at_start="raise SystemExit(3)")
    before = ridgeline_process("run", "one.py", "--master", "local[2]", "--checkpoint", "state")
    wait_for_line(before, "window 0: ")
    refused = ridgeline_command("upgrade", "sums", "three.py")
    assert refused.exit_code == 2
    assert refused.stdout.endswith("nothing was changed: `sums` runs on\n")
    told = [
        (["two.py", "--shadow", "soon"], "`--shadow`: "),
        (["two.py", "--shadow", "0s"], "a time above zero is needed"),
        (["two.py", "--accept-differences"], "is about `--shadow`"),
        (["two.py", "--shadow", "1m", "--leave-out", "stor"], "did you mean `store`"),
        (["one.py", "--rollback-if", "x"], "is the file that runs"),
        (["two.py", "--rollback-if", "x"], "APP makes no promise `x`"),
        (["two.py", "--rollback-if", "window_latency_p50", "--within", "1s"], "give more"),
        (["two.py", "--master", "local[2]", "--archives", "x.tar.gz"], "is for workers of a cluster"),
    ]
    for words, error in told:
        result = ridgeline_command("upgrade", "sums", *words)
        assert (result.exit_code, error in result.stderr) == (2, True), result.stderr
    exits = ridgeline_process(
        "upgrade", "sums", "exits.py", "--master", "local[2]", "--rollback-if", "window_latency_p50"
    )
    wait_for_line(exits, "it exited by itself: back to the version before")
    wait_for_line(exits, "window ")
    upgrade = ridgeline_process(
        "upgrade", "sums", "two.py", "--master", "local[2]", "--rollback-if", "window_latency_p50"
    )
    wait_for_line(upgrade, "the promise `window_latency_p50` is broken: back to the version before")
    (tmp_path / "finish").touch()
    stdout, stderr = upgrade.communicate()
    assert upgrade.returncode == 0, stdout + stderr
    for process in (before, exits):
        process.communicate()
        assert process.returncode == 0
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


def kill_driver(process):
    """Kill the driver that an upgrade has started, as a system that is out of memory does."""
    driver = next(one.pid for one in process.members() if parent(one.pid) == process.pid)
    os.kill(driver, signal.SIGKILL)


@pytest.mark.crash
def test_a_version_that_is_killed_gives_way_to_the_one_before(ridgeline_process, tmp_path):
    promise = 'app.promise(window_latency(p50="60s", over="2s"))'
    parts = {"first": "count", "kind": "int", "steps": "", "more": promise, "at_start": ""}
    (tmp_path / "one.py").write_text(APP.format(folder=str(tmp_path), **parts))
    kills_itself = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for name, at_start in (("early.py", kills_itself), ("two.py", "")):
        new = parts | {"first": "n", "kind": "float", "steps": 'RenamedField("Acc", "count", "n")'}
        (tmp_path / name).write_text(APP.format(folder=str(tmp_path), **new | {"at_start": at_start}))
    before = ridgeline_process("run", "one.py", "--master", "local[2]", "--checkpoint", "state")
    wait_for_line(before, "window 0: ")
    words = ("--master", "local[2]", "--rollback-if", "window_latency_p50")
    early = ridgeline_process("upgrade", "sums", "early.py", *words)
    wait_for_line(
        early, "it was killed by SIGKILL, as by a system that is out of memory: back to the version"
    )
    wait_for_line(early, "window ")
    later = ridgeline_process("upgrade", "sums", "two.py", *words)
    wait_for_line(later, "window ")
    wait_for_line(later, "window ")
    kill_driver(later)
    wait_for_line(
        later, "it was killed by SIGKILL, as by a system that is out of memory: back to the version"
    )
    wait_for_line(later, "window ")
    (tmp_path / "finish").touch()
    for process in (later, early, before):
        stdout, stderr = process.communicate()
        assert process.returncode == 0, stdout + stderr
    assert_as_a_plain_loop(tmp_path)
