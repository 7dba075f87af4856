"""Classes of a notebook: cells run in a namespace that need not be a module's, so pickles have them whole."""

import builtins
from typing import Any

import pytest

from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import run_local

KEYS, WIDTH, WINDOWS, FIRST = 7, 10, 12, 5
IMPORTS = """
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, ListState
from ridgeline import Operator, OutputPort, State
from ridgeline.testing import CollectorSink
class Rec(NamedTuple):
    key: int
    n: int
"""
APPLICATION = """
class Feed(InputOperator):
    output = OutputPort(Rec)
    pos = State(0)
    def emit_tuples(self):
        for n in range(self.pos, self.pos + {width}):
            self.output.emit(Rec(n % {keys}, n))
        self.pos += {width}
        if self.pos >= {width} * {windows}:
            self.finish()

class Sum(Operator):
    data = InputPort(Rec, key="key")
    output = OutputPort(object)
    {state}
    @data.process
    def f(self, r):
        before = self.acc.get(r.key)
        assert before is None or type(before) is Acc, type(before)
        count, total = (0, 0) if before is None else (before.count, before.total)
        self.acc[r.key] = a = Acc(count=count + 1, total=total + r.n{more})
        self.output.emit((r.key, a.count, a.total))

app = Application("app", window=0)
feed, total = app.add_operator("feed", Feed()), app.add_operator("sum", Sum(), partitions=2)
app.add_stream("r", feed.output, total.data)
app.add_stream("o", total.output, app.add_operator("sink", CollectorSink(object)).input)
"""
DECLARED, OPEN = "acc = KeyedState(Acc, key=int)", "acc = KeyedState(object, key=int)"
NAMED = "class Acc(NamedTuple):\n    count: int\n    total: int\n"
NAMED_OTHER = "class Acc(NamedTuple):\n    total: int\n    count: int\n    more: str = 'x'\n"
DATA = "@dataclass{how}\nclass Acc:\n    count: int\n    total: int\n"
DATA_OTHER = "@dataclass{how}\nclass Acc:\n    total: int\n    more: list = field(default_factory=list)\n    count: int = 0\n"  # noqa: E501
PLAIN = "class Acc:\n    def __init__(self, count, total):\n        self.count, self.total = count, total\n"
KIND = "class Level(Enum):\n    {members}\n" + DATA.format(how="") + "    level: Any\n"
LOW_HIGH, HIGH_LOW = "low = 1\n    high = 2", "high = 1\n    low = 2"
HOWS = ("", "(frozen=True, slots=True)")


def run_cells(classes: str, state: str, name: str, more: str = "") -> Any:
    """The application of a notebook whose cells have run, as IPython and others run them."""
    space: dict[str, Any] = {"__name__": name, "__builtins__": builtins}
    text = APPLICATION.format(keys=KEYS, width=WIDTH, windows=WINDOWS, state=state, more=more)
    for number, cell in enumerate((IMPORTS, classes, text)):
        exec(compile(cell, f"<ipython-input-{number}-1>", "exec"), space)
    return space["app"]


def expected() -> list[tuple[int, int, int]]:
    counts, totals, found = dict.fromkeys(range(KEYS), 0), dict.fromkeys(range(KEYS), 0), []
    for n in range(WIDTH * WINDOWS):
        counts[n % KEYS] += 1
        totals[n % KEYS] += n
        found.append((n % KEYS, counts[n % KEYS], totals[n % KEYS]))
    return sorted(found)


SAME = [
    (NAMED, NAMED_OTHER),
    (PLAIN, PLAIN),
    *((DATA.format(how=how), DATA_OTHER.format(how=how)) for how in HOWS),
]


@pytest.mark.parametrize(("state", "name"), [(DECLARED, "__main__"), (OPEN, "notebook")])
@pytest.mark.parametrize(("before", "after"), SAME)
def test_a_kernel_that_is_started_again_goes_on(before: str, after: str, state: str, name: str) -> None:
    """The values are instances of the class of now, also those that a window of the kernel before wrote."""
    storage = MemoryStorage()
    found = run_local(run_cells(before, state, name), checkpoint=storage, windows=FIRST).collected("sink")
    for classes, windows in ((before, 2), (after, 2), (after, None)):
        run = run_local(run_cells(classes, state, name), checkpoint=storage, windows=windows)
        found += run.collected("sink")
    assert sorted(found) == expected()


def test_members_of_enums_within_are_matched_by_name() -> None:
    storage = MemoryStorage()
    more = ", level=Level.low"
    app = run_cells(KIND.format(members=LOW_HIGH), OPEN, "__main__", more)
    found = run_local(app, checkpoint=storage, windows=FIRST).collected("sink")
    check = ", level=Level.low if before is None else [before.level][[Level.low].index(before.level)]"
    app = run_cells(KIND.format(members=HIGH_LOW), OPEN, "__main__", check)
    found += run_local(app, checkpoint=storage).collected("sink")
    assert sorted(found) == expected()
