"""The kernel of a notebook is killed, and its cells run again: it goes on, with other classes too."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KERNEL = """
import builtins, sys, types
main = types.ModuleType("__main__")
main.__dict__.update(FOLDER=sys.argv[1], WINDOWS=int(sys.argv[2]) or None, __builtins__=builtins)
if sys.argv[3] == "module":
    sys.modules["__main__"] = main
for number, path in enumerate(sys.argv[4:]):
    with open(path) as file:
        exec(compile(file.read(), f"<ipython-input-{number}-1>", "exec"), main.__dict__)
"""
CLASSES = """
from dataclasses import dataclass
from typing import NamedTuple
from ridgeline import *
from ridgeline.operators import FileOutput

class Rec(NamedTuple):
    key: int
    n: int

@dataclass
class Acc:
    count: int
    total: int
"""
OTHER_CLASSES = CLASSES.replace(
    "    count: int\n    total: int\n", "    total: int\n    more: str = 'x'\n    count: int = 0\n"
)
OPERATORS = """
class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)

    def emit_tuples(self):
        for n in range(self.pos, self.pos + 10):
            self.output.emit(Rec(n % 7, n))
        self.pos += 10

class Sum(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(Rec)
    acc = KeyedState(object, key=int)

    @data.process
    def add(self, rec):
        before = self.acc.get(rec.key)
        if not isinstance(before, Acc | None):
            raise TypeError(type(before))
        count, total = (0, 0) if before is None else (before.count, before.total)
        self.acc[rec.key] = Acc(count=count + 1, total=total + rec.n)
        self.output.emit(Rec(rec.key, total + rec.n))
"""
RUN = """
app = Application("app", window="20ms")
feed, total = app.add_operator("feed", Feed()), app.add_operator("sum", Sum(), partitions=2)
out = app.add_operator("out", FileOutput(path=f"{FOLDER}/out", format="jsonl", roll_seconds=0))
app.add_stream("numbers", feed.output, total.data)
app.add_stream("totals", total.output, out.input)
handle = app.start("local[2]", checkpoint=f"{FOLDER}/checkpoint", windows=WINDOWS, port=None, quiet=True)
handle.wait()
"""


def rows(folder: Path) -> list[tuple[int, int]]:
    lines = [line for path in (folder / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted((row["key"], row["n"]) for row in map(json.loads, lines))


def wanted(count: int) -> list[tuple[int, int]]:
    totals, found = dict.fromkeys(range(7), 0), []
    for n in range(count):
        totals[n % 7] += n
        found.append((n % 7, totals[n % 7]))
    return sorted(found)


@pytest.mark.parametrize("main", ["module", "namespace"])
def test_cells_that_run_again_go_on(tmp_path, main):
    kernel, cells = tmp_path / "kernel", {}
    kernel.write_text(KERNEL)
    texts = {"classes": CLASSES, "others": OTHER_CLASSES, "operators": OPERATORS, "run": RUN}
    for name, text in texts.items():
        cells[name] = tmp_path / f"cell_{name}"
        cells[name].write_text(text)
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)

    def command(windows, *names):
        return [sys.executable, kernel, folder, str(windows), main, *(cells[name] for name in names)]

    log = (tmp_path / "log").open("w")
    first = subprocess.Popen(
        command(0, "classes", "operators", "run"), stdout=log, stderr=log, start_new_session=True
    )
    try:
        wait_until(lambda: first.poll() is not None or len(rows(folder)) >= 300, "rows of the first kernel")
        assert first.poll() is None, (tmp_path / "log").read_text()[-3000:]
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    subprocess.run(command(10, "others", "operators", "run"), stdout=log, stderr=log, check=False)
    log.close()
    found = rows(folder)
    assert len(found) >= 400, (tmp_path / "log").read_text()[-3000:]
    assert found == wanted(len(found))
