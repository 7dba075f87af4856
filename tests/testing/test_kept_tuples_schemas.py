"""Tuples of a port that are kept between windows are matched by name when the code has changed."""

from typing import Any

import pytest

from ridgeline.api.errors import CheckpointError
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.testing import run_local
from support.testing.shares import share

LOOP = """
from dataclasses import dataclass
from typing import NamedTuple
from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.operators import Delay
from ridgeline.testing import CollectorSink
{head}:
    {fields}
class Step(Operator):
    pairs = InputPort({port})
    steps = OutputPort({port})
    @pairs.process
    def step(self, pair):
        if pair.next < 500:
            self.steps.emit(Pair(last=pair.next, next=pair.last + pair.next))
def application():
    app = Application("fibonacci")
    step = app.add_operator("step", Step())
    delay = app.add_module("delay", Delay({port}, first_window=[Pair(last=0, next=1)]))
    sink = app.add_operator("sink", CollectorSink(object))
    app.add_stream("again", delay.output, step.pairs)
    app.add_stream("steps", step.steps, delay.input, sink.input)
    return app
"""
UNIFIED = """
from dataclasses import dataclass
from typing import NamedTuple
from ridgeline import Application, InputPort, Operator, OutputPort, Unifier
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput
{head}:
    {fields}
class Add(Unifier):
    pairs = InputPort({port})
    total = OutputPort({port})
    def begin_window(self, window_id):
        self.last = self.next = 0
    @pairs.process
    def add(self, pair):
        self.last, self.next = self.last + pair.last, self.next + pair.next
    def end_window(self):
        self.total.emit(Pair(last=self.last, next=self.next))
class Pass(Operator):
    pairs = InputPort({port})
    out = OutputPort({port}, unifier=Add)
    @pairs.process
    def step(self, pair):
        self.out.emit(pair)
def application():
    app = Application("unified")
    given = [item for n in range(20) for item in (Pair(last=n, next=100 * n), END_WINDOW)]
    source = app.add_operator("source", ListInput(Pair, given))
    step = app.add_operator("step", Pass(), partitions=2, {window})
    app.add_stream("in", source.output, step.pairs)
    app.add_stream("out", step.out, app.add_operator("sink", CollectorSink(object)).input)
    return app
"""
BEFORE, SWAPPED = "last: int\n    next: int", "next: int\n    last: int"
SUMS = "application_window_count=4"
SLIDES = "application_window_count=4, slide_by_window_count=2"


PAIR = {"head": "class Pair(NamedTuple)", "port": "Pair"}
OBJECTS = [
    {"head": "class Pair(NamedTuple)", "port": "object"},
    {"head": "@dataclass\nclass Pair", "port": "object"},
    {"head": "@dataclass(slots=True)\nclass Pair", "port": "object"},
]


def rows(run: Any) -> list[tuple[int, int]]:
    return [(row.last, row.next) for row in run.collected("sink")]


def both(version: Any, before: str, after: str) -> Any:
    """Results without a restart, and with one, after seven windows, with other code."""
    module = version(before)
    whole = rows(run_local(module.application()))
    storage = MemoryStorage()
    found = rows(run_local(module.application(), checkpoint=storage, windows=7))
    return whole, found + rows(run_local(version(after, "other_app").application(), checkpoint=storage))


@pytest.mark.parametrize(
    ("fields", "how"), share(2, [SWAPPED, f"{SWAPPED}\n    more: int = 0"], [PAIR, *OBJECTS])
)
def test_tuples_in_a_loop(version: Any, fields: str, how: dict[str, str]) -> None:
    before, after = (LOOP.format(fields=one, **how) for one in (BEFORE, fields))
    whole, found = both(version, before, after)
    assert len(whole) > 10
    assert found == whole


@pytest.mark.parametrize(("window", "how"), share(2, [SLIDES, SUMS], [PAIR, *OBJECTS]))
def test_tuples_that_wait_for_the_end_of_a_window(version: Any, window: str, how: dict[str, str]) -> None:
    before, after = (UNIFIED.format(fields=one, window=window, **how) for one in (BEFORE, SWAPPED))
    whole, found = both(version, before, after)
    assert len(whole) > 4
    assert found == whole


def test_a_column_of_another_type_is_refused(version: Any) -> None:
    before, after = (LOOP.format(fields=one, **PAIR) for one in (BEFORE, "last: float\n    next: float"))
    with pytest.raises(CheckpointError, match="the tuples that it keeps had the columns `last: int64`"):
        both(version, before, after)
