"""`ridgeline upgrade` with specifications: versions follow each other while the application runs."""

import json

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLASSES = """
from pathlib import Path
from typing import NamedTuple
from ridgeline import InputOperator, InputPort, KeyedState, Operator, OutputPort, State

class Rec(NamedTuple):
    key: int
    n: int

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
    acc = KeyedState(tuple[int, int], key=int)
    @data.process
    def add(self, rec):
        count, total = self.acc.get(rec.key, (0, 0))
        self.acc[rec.key] = (count + 1, total + rec.n)
        self.output.emit(Out(rec.key, count + 1, total + rec.n))
"""
SPECIFICATION = """
application: sums
window: 50ms
operators:
  feed: {{class: live_classes.Feed}}
  sum: {{class: live_classes.Sum, attributes: {{partitions: {partitions}}}}}
  store: {{class: ridgeline.operators.FileOutput, properties: {{{store}}}}}
{more}
streams:
  numbers: {{from: feed.output, to: [sum.data]}}
  sums: {{from: sum.output, to: [{sinks}]}}
"""


@pytest.fixture
def write_version(tmp_path):
    """`write_version(name, partitions, copied)`: a specification, with a second output if it is copied."""
    (tmp_path / "live_classes.py").write_text(CLASSES.format(folder=str(tmp_path)))

    def written_to(folder):
        return f"path: {tmp_path}/{folder}, format: jsonl, roll_seconds: 0"

    def write(name, partitions, *, copied):
        copy = f"  copy: {{class: ridgeline.operators.FileOutput, properties: {{{written_to('copy')}}}}}"
        text = SPECIFICATION.format(
            partitions=partitions,
            store=written_to("out"),
            more=copy if copied else "",
            sinks="store.input, copy.input" if copied else "store.input",
        )
        (tmp_path / name).write_text(text)

    return write


def rows_of(folder):
    """All rows that are published in a folder."""
    return [
        (row["key"], row["count"], row["total"])
        for file in folder.glob("*.jsonl")
        for row in map(json.loads, file.read_text().splitlines())
    ]


def by_a_plain_loop(number):
    """The rows of so many numbers."""
    rows, counts, totals = [], [0] * 7, [0] * 7
    for n in range(number):
        counts[n % 7] += 1
        totals[n % 7] += n
        rows.append((n % 7, counts[n % 7], totals[n % 7]))
    return sorted(rows)


def test_specifications_follow_each_other_while_it_runs(
    ridgeline_process, ridgeline_command, write_version, tmp_path
):
    write_version("one.yaml", 2, copied=False)
    write_version("two.yaml", 3, copied=True)
    write_version("three.yaml", 1, copied=False)
    process = ridgeline_process("run", "one.yaml", "--master", "local[2]", "--checkpoint", "state")
    assert any(line.startswith("window 0: ") for line in iter(process.stdout.readline, ""))
    for version in ("two.yaml", "three.yaml", "two.yaml"):
        result = ridgeline_command("upgrade", "sums", version)
        assert result.exit_code == 0, result.stdout + result.stderr
        assert "is committed with window" in result.stdout
        assert f"`ridgeline run {version} --reset-changes --checkpoint" in result.stdout
        assert process.poll() is None
    process.terminate()
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stdout + stderr
    refused = ridgeline_command("run", "two.yaml", "--master", "local[2]", "--checkpoint", "state")
    assert "`--reset-changes` leaves it out" in refused.stderr
    (tmp_path / "finish").touch()
    words = ("run", "two.yaml", "--reset-changes", "--master", "local[2]", "--checkpoint", "state")
    after = ridgeline_process(*words)
    stdout, stderr = after.communicate()
    assert after.returncode == 0, stdout + stderr
    rows = rows_of(tmp_path / "out")
    assert sorted(rows) == by_a_plain_loop(len(rows))
    copied = rows_of(tmp_path / "copy")
    assert 0 < len(copied) < len(rows)
    assert len(set(copied)) == len(copied)
    assert set(copied) < set(rows)
