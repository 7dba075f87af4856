"""`ridgeline compare --state`: two versions continue copies of one checkpoint, on the same input."""

import hashlib
import json
import subprocess
import sys

import pytest

APP = """
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput
from ridgeline.testing import run_local

class Rec(NamedTuple):
    key: int
    n: int

class Out(NamedTuple):
    key: int
    count: int
    total: {kind}

class Feed(InputOperator):
    numbers = OutputPort(Rec)
    step: int = 14
    pos = State(0)
    {acknowledges}
    def emit_tuples(self):
        open("reads-{version}", "a").write(f"{{self.pos}} ")
        for n in range(self.pos, self.pos + self.step):
            self.numbers.emit(Rec(n % 7, n))
        self.pos += self.step
        if self.pos > {most}:
            self.finish()

class Sum(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(Out)
    acc = KeyedState(tuple[int, {kind}], key=int)
    @data.process
    def add(self, rec):
        count, total = self.acc.get(rec.key, (0, 0))
        total += rec.n + {wrong}
        self.acc[rec.key] = (count + 1, total)
        self.output.emit(Out(rec.key, count + 1, total))

app = Application("sums")
feed, total = app.add_operator("feed", Feed()), app.add_operator("sum", Sum(), partitions={partitions})
store = app.add_operator("store", FileOutput(path="out", format="jsonl", roll_seconds=0))
app.add_stream("numbers", feed.numbers, total.data)
app.add_stream("sums", total.output, store.input)
if __name__ == "__main__":
    run_local(app, checkpoint="state", windows=10)
"""
PLAIN = {"kind": "int", "acknowledges": "", "most": 10_000, "wrong": "0", "partitions": 1}


@pytest.fixture
def versions(tmp_path):
    """`versions(one={}, two={})`: files of these versions, and a checkpoint after 10 windows."""

    def write(**given):
        for name, parts in given.items():
            (tmp_path / f"{name}.py").write_text(APP.format(**PLAIN | parts, version=name))
        subprocess.run([sys.executable, next(iter(given)) + ".py"], cwd=tmp_path, check=True)
        for file in tmp_path.glob("reads-*"):
            file.unlink()

    return write


def compare(cwd, *words):
    command = [sys.executable, "-m", "ridgeline", "compare", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=300)


def everything_in(*folders):
    """Digests of all files."""
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.slow
def test_a_new_version_continues_the_state_on_the_same_tuples(versions, tmp_path):
    new = {"kind": "float", "partitions": 3, "wrong": "(1 if rec.n == 150 else 0)"}
    versions(one={}, two=new)
    before = everything_in(tmp_path / "state", tmp_path / "out")
    ran = compare(tmp_path, "one.py", "two.py", "--state", "state", "--windows", "3", "--json")
    assert ran.returncode == 1, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["windows"], found["tuples"]) == (3, 2 * 3 * 14)
    assert everything_in(tmp_path / "state", tmp_path / "out") == before
    assert (tmp_path / "reads-one").read_text() == "140 154 168 "
    assert not (tmp_path / "reads-two").exists()
    assert {one["operator"] for one in found["differences"]} == {"sum"}


@pytest.mark.slow
def test_versions_of_the_same_results_are_equal(versions, tmp_path):
    versions(one={}, two={"partitions": 3})
    ran = compare(tmp_path, "one.py", "two.py", "--state", "state", "--windows", "4", "--any-order")
    assert (ran.returncode, ran.stdout) == (0, "equal: 2 streams, 4 windows, 112 tuples\n"), ran.stderr
    versions(one={"most": 300}, two={"most": 300})
    ran = compare(tmp_path, "one.py", "two.py", "--state", "state", "--for", "30s")
    assert (ran.returncode, ran.stdout) == (0, "equal: 2 streams, 2 windows, 56 tuples\n"), ran.stderr


@pytest.mark.slow
def test_properties_of_inputs_are_given_and_kept_by_the_checkpoint(versions, tmp_path):
    versions(one={}, two={})
    again = "from one import *; run_local(app, checkpoint='state', windows=1, properties={'feed.step': 21})"
    subprocess.run([sys.executable, "-c", again], cwd=tmp_path, check=True)
    kept = compare(tmp_path, "one.py", "two.py", "--state", "state", "--windows", "2")
    assert (kept.returncode, kept.stdout) == (0, "equal: 2 streams, 2 windows, 84 tuples\n"), kept.stderr
    given = compare(tmp_path, "one.py", "two.py", "--state", "state", "--windows", "2", "-D", "feed.step=7")
    assert (given.returncode, given.stdout) == (0, "equal: 2 streams, 2 windows, 28 tuples\n"), given.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--state", "nowhere", "--windows", "1"], "there is no such folder"),
        (["--state", "."], "`--state` needs `--for` or `--windows`"),
        (["--for", "5s"], "give a checkpoint, or leave it out"),
        (["--state", ".", "--for", "soon"], "`--for`: "),
        (["--state", ".", "--for", "0s"], "a time above zero is needed"),
        (["--state", ".", "--windows", "1"], "`--state .`: "),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(ridgeline_command, tmp_path, words, text):
    (tmp_path / "one.py").write_text(APP.format(**PLAIN, version="one"))
    ran = ridgeline_command("compare", "one.py", *words)
    assert (ran.exit_code, text in ran.stderr) == (2, True), ran.stderr
    assert not list(tmp_path.glob("reads-*"))


@pytest.mark.slow
def test_what_cannot_be_read_twice_or_continued_is_named(versions, tmp_path):
    versions(one={}, two={"kind": "str", "wrong": "0"})
    ran = compare(tmp_path, "one.py", "two.py", "--state", "state", "--windows", "1")
    assert ran.returncode == 2, ran.stdout
    assert "error: `B` did not run to the end" in ran.stderr
    assert "sum" in ran.stderr
    versions(two={"acknowledges": "def committed(self, window_id): pass"})
    ran = compare(tmp_path, "two.py", "--state", "state", "--windows", "1")
    assert ran.returncode == 2, ran.stdout
    assert "`feed` cannot be read a second time beside the application that runs" in ran.stderr
    assert not (tmp_path / "reads-two").exists()
