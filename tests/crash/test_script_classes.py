"""Classes of the script in state: `python app.py` goes on after a restart, and after a worker died."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.crash]
SCRIPT = """
import os, sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, ListState
from ridgeline import Operator, OutputPort, State
from ridgeline.operators import FileOutput

class N(NamedTuple):
    n: int
class Out(NamedTuple):
    total: int
    count: int
    pairs: int
    color: str
class Color(Enum):
    RED = 1
    BLUE = 2
@dataclass(slots=True)
class Acc:
    {first}: int = 0
    {second}: int = 0
class Pair(NamedTuple):
    {first}: int
    {second}: int

class Source(InputOperator):
    out = OutputPort(N)
    position = State(0)
    def emit_tuples(self):
        self.out.emit(N(self.position % 3))
        self.position += 1
        if self.position == 30:
            self.finish()

class Count(Operator):
    numbers = InputPort(N, key="n")
    out = OutputPort(Out)
    acc = KeyedState(Acc)
    pairs = ListState(Pair)
    color = State(Color.RED)
    die: str = ""
    @numbers.process
    def one(self, number):
        acc = self.acc.get(number.n, Acc())
        acc.total += number.n
        acc.count += 1
        self.acc[number.n] = acc
        self.pairs.append(Pair(total=number.n, count=1))
        self.color = Color.BLUE if self.color is Color.RED else Color.RED
        if self.die and self.context.window_id == 10 and not os.path.exists(self.die):
            Path(self.die).touch()
            os._exit(9)
    def end_of_input(self):
        accs = list(self.acc.values())
        total, count = sum(acc.total for acc in accs), sum(acc.count for acc in accs)
        pairs = sum(pair.total for pair in self.pairs)
        self.out.emit(Out(total, count, pairs, self.color.name))

if __name__ == "__main__":
    how, folder = sys.argv[1:]
    app = Application("script", window=0)
    source = app.add_operator("source", Source())
    count = app.add_operator("count", Count(die=f"{{folder}}/died" if how == "crash" else ""))
    files = app.add_operator("files", FileOutput(path=f"{{folder}}/out", format="jsonl"))
    app.add_stream("a", source.out, count.numbers)
    app.add_stream("b", count.out, files.input)
    app.start(
        "local[2]", checkpoint=f"{{folder}}/state", port=None, windows=5 if how == "first" else None
    ).wait()
"""
EXPECTED = '{"total":30,"count":30,"pairs":30,"color":"RED"}'


@pytest.mark.parametrize(
    "steps",
    [
        [("first", "total", "count"), ("rest", "count", "total")],
        [("crash", "total", "count")],
    ],
)
def test_classes_of_the_script_are_found_again(tmp_path: Path, steps: list[tuple[str, str, str]]) -> None:
    for how, first, second in steps:
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(first=first, second=second))
        command = [sys.executable, str(script), how, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    rows = "".join(path.read_text() for path in (tmp_path / "out").glob("*.jsonl"))
    assert rows.split() == [EXPECTED]
