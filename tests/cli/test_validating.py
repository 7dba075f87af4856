"""`ridgeline validate --against`: what would become of each state of a checkpoint."""

import shutil
import sys

import pytest

from ridgeline.cli.load import load_application
from ridgeline.testing import run_local

APP = """
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.testing import CollectorSink

class Rec(NamedTuple):
    key: int

class Acc(NamedTuple):
{fields}

class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        self.output.emit(Rec(self.pos % 7))
        self.pos += 1

class Sum(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(Rec)
    {state} = KeyedState(Acc, key=int)
    @data.process
    def add(self, rec):
        self.{state}[rec.key] = Acc(count=1, total=2)

app = Application("sums", window=0)
feed = app.add_operator("feed", Feed())
sums = app.add_operator("{name}", Sum(), partitions={partitions})
app.add_stream("numbers", feed.output, sums.data)
app.add_stream("sums", sums.output, app.add_operator("sink", CollectorSink(Rec)).input)
"""


def write(path, fields=("count: int", "total: int"), name="sum", partitions=1, state="acc"):
    lines = "\n".join(f"    {field}" for field in fields)
    path.write_text(APP.format(fields=lines, name=name, partitions=partitions, state=state))
    forget(path)
    return path


def forget(path):
    """Its module is imported again: another version is in the file."""
    sys.modules.pop(path.stem, None)
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


@pytest.fixture
def checkpoint(tmp_path):
    """What ten windows of the first version have left."""
    app = load_application(str(write(tmp_path / "sums_app.py")))
    run_local(app, checkpoint=tmp_path / "ck", windows=10)
    return tmp_path / "ck"


def test_as_text_it_names_the_way_to_go_on(ridgeline_command, tmp_path, checkpoint):
    path = write(tmp_path / "sums_app.py", state="other")
    result = ridgeline_command("validate", path, "--against", checkpoint)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "application sums is valid: 3 operators, 2 streams",
        f"checkpoint {checkpoint}, window 9:",
        "  kept       feed.pos",
        (
            "  refused    sum: `Sum` has no state `acc` any more, but the checkpoint has its values; "
            "`--rename sum.acc=sum.other` gives its values to another one, `--drop-state sum.acc` drops them"
        ),
    ]


def test_a_folder_that_is_no_checkpoint_of_it_is_said(ridgeline_command, tmp_path, checkpoint):
    path = write(tmp_path / "sums_app.py")
    result = ridgeline_command("validate", path, "--against", tmp_path / "typo")
    assert (result.exit_code, "there is no folder" in result.stderr) == (2, True)
    (tmp_path / "empty").mkdir()
    result = ridgeline_command("validate", path, "--against", tmp_path / "empty")
    assert (result.exit_code, "no window yet" in result.stdout) == (0, True)
    result = ridgeline_command("validate", path, "--rename", "a=b")
    assert (result.exit_code, "`--rename` has no checkpoint" in result.stderr) == (2, True)
    path.write_text(path.read_text().replace('"sums", window', '"other", window'))
    forget(path)
    result = ridgeline_command("validate", path, "--against", checkpoint)
    assert (result.exit_code, "belongs to application `sums`" in result.stderr) == (1, True)
