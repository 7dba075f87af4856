"""Tuples of a port that are kept between windows are matched by name when the code has changed."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ridgeline.api.errors import CheckpointError
from ridgeline.engine.state.storage import MemoryStorage
from ridgeline.testing import run_local

LOOP = """
from typing import NamedTuple
from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.operators import Delay
from ridgeline.testing import CollectorSink
class Pair(NamedTuple):
    {fields}
class Step(Operator):
    pairs = InputPort(Pair)
    steps = OutputPort(Pair)
    @pairs.process
    def step(self, pair):
        if pair.next < 500:
            self.steps.emit(Pair(last=pair.next, next=pair.last + pair.next))
def application():
    app = Application("fibonacci")
    step = app.add_operator("step", Step())
    delay = app.add_module("delay", Delay({schema}, first_window=[Pair(last=0, next=1)]))
    sink = app.add_operator("sink", CollectorSink(object))
    app.add_stream("again", delay.output, step.pairs)
    app.add_stream("steps", step.steps, delay.input, sink.input)
    return app
"""
UNIFIED = """
from typing import NamedTuple
from ridgeline import Application, InputPort, Operator, OutputPort, Unifier
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput
class Pair(NamedTuple):
    {fields}
class Add(Unifier):
    pairs = InputPort(Pair)
    total = OutputPort(Pair)
    def begin_window(self, window_id):
        self.last = self.next = 0
    @pairs.process
    def add(self, pair):
        self.last, self.next = self.last + pair.last, self.next + pair.next
    def end_window(self):
        self.total.emit(Pair(last=self.last, next=self.next))
class Pass(Operator):
    pairs = InputPort(Pair)
    out = OutputPort(Pair, unifier=Add)
    @pairs.process
    def step(self, pair):
        self.out.emit(pair)
def application():
    app = Application("unified")
    given = [item for n in range(24) for item in (Pair(last=n, next=100 * n), END_WINDOW)]
    source = app.add_operator("source", ListInput(Pair, given))
    step = app.add_operator("step", Pass(), partitions=2, {window})
    app.add_stream("in", source.output, step.pairs)
    app.add_stream("out", step.out, app.add_operator("sink", CollectorSink(object)).input)
    return app
"""
BEFORE, SWAPPED = "last: int\n    next: int", "next: int\n    last: int"
SUMS = "application_window_count=4"
SLIDES = "application_window_count=4, slide_by_window_count=2"


def load(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(folder))
    (folder / f"{name}.py").write_text(text)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def rows(run: Any) -> list[tuple[int, int]]:
    return [(row.last, row.next) for row in run.collected("sink")]


def both(name: str, before: str, after: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Results without a restart, and with one, after seven windows, with other code."""
    for part in ("one", "two"):
        (folder / part).mkdir()
    module = load(f"{name}_one", before, folder / "one", monkeypatch)
    whole = rows(run_local(module.application()))
    storage = MemoryStorage()
    found = rows(run_local(module.application(), checkpoint=storage, windows=7))
    del sys.modules[f"{name}_one"]
    (folder / "one" / f"{name}_one.py").unlink()
    module = load(f"{name}_two", after, folder / "two", monkeypatch)
    try:
        return whole, found + rows(run_local(module.application(), checkpoint=storage))
    finally:
        del sys.modules[f"{name}_two"]


@pytest.mark.parametrize("fields", [SWAPPED, f"{SWAPPED}\n    more: int = 0"])
def test_tuples_in_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: str) -> None:
    before, after = (LOOP.format(fields=one, schema="Pair") for one in (BEFORE, fields))
    whole, found = both("loop", before, after, tmp_path, monkeypatch)
    assert len(whole) > 10
    assert found == whole


@pytest.mark.parametrize("window", [SUMS, SLIDES])
def test_tuples_that_wait_for_the_end_of_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    before, after = (UNIFIED.format(fields=one, window=window) for one in (BEFORE, SWAPPED))
    whole, found = both("unified", before, after, tmp_path, monkeypatch)
    assert len(whole) > 4
    assert found == whole


def test_a_column_of_another_type_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (
        LOOP.format(fields=one, schema="Pair") for one in (BEFORE, "last: float\n    next: float")
    )
    with pytest.raises(CheckpointError, match="the tuples that it keeps had the columns `last: int64`"):
        both("loop", before, after, tmp_path, monkeypatch)
