"""Drivers that die at any step of a conversion of states at a start: the next start goes on right."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ridgeline.engine.driver.checkpoint.journal import Journal
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.engine.state import keyed_segments
from ridgeline.testing import run_local

TEXT = """
from typing import NamedTuple
from ridgeline import Application, InputOperator, InputPort, KeyedState, Operator, OutputPort, State
from ridgeline.operators import FileOutput
class Number(NamedTuple):
    key: int
    n: int
class Held(NamedTuple):
    {fields}
class Numbers(InputOperator):
    out = OutputPort(Number)
    position = State(0)
    def emit_tuples(self):
        for n in range(self.position, self.position + 12):
            self.out.emit(Number(n % 24, n))
        self.position += 12
        if self.position == 144:
            self.finish()
def first(values, partitions):
    return values[:1] * partitions
class Sum(Operator):
    numbers = InputPort(Number, key="key")
    out = OutputPort(Number)
    held = KeyedState(Held)
    last = State(Held(count=0, total=0), moves=first)
    @numbers.process
    def add(self, number):
        held = self.held.get(number.key, Held(count=0, total=0))
        assert self.last.count >= 0 >= self.last.total
        self.last = Held(count=number.n, total=-1)
        self.held[number.key] = Held(count=held.count + 1, total=held.total + 1000 * number.n)
        self.out.emit(Number(number.key, held.count + held.total))
def application(partitions, folder):
    app = Application("converted", window=0)
    numbers = app.add_operator("numbers", Numbers())
    sums = app.add_operator("sums", Sum(), partitions=partitions)
    app.add_stream("numbers", numbers.out, sums.numbers)
    sink = app.add_operator("sink", FileOutput(path=folder, format="jsonl"))
    app.add_stream("sums", sums.out, sink.input)
    return app
"""
FIRST = 8


class DeadError(BaseException):
    """Stands for the death of a driver."""


def expected() -> list[list[int]]:
    """All rows, by a plain loop."""
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    found = []
    for n in range(144):
        found.append([n % 24, counts[n % 24] + totals[n % 24]])
        counts[n % 24] += 1
        totals[n % 24] += 1000 * n
    return sorted(found)


def rows(folder: Path) -> list[list[int]]:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(list(json.loads(line).values()) for line in lines)


class Deaths:
    """Raises DeadError at a step: before or after each change of files and each commit."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at, self.steps = 0, 0
        patch.setattr(os, "fsync", lambda _descriptor: None)
        for name in ("write", "write_parts", "create", "delete", "settle"):
            self._count(patch, LocalStorage, name)
        self._count(patch, Journal, "append")

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise DeadError

    def _count(self, patch: pytest.MonkeyPatch, kind: type[Any], name: str) -> None:
        original = getattr(kind, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.step()
            result = original(*arguments, **named)
            self.step()
            return result

        patch.setattr(kind, name, call)


@pytest.mark.parametrize(
    ("partitions", "segments"),
    [
        ((1, 1), False),
        pytest.param((2, 2), True, marks=pytest.mark.slow),
        pytest.param((5, 3), True, marks=pytest.mark.slow),
    ],
)
def test_a_driver_that_dies_at_any_step_of_a_conversion_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: tuple[int, int], segments: bool
) -> None:
    if segments:
        monkeypatch.setattr(keyed_segments, "SEGMENT_KEYS", 2)
    modules = []
    for name, fields in (("before", "count: int, total: int"), ("after", "total: int, count: int")):
        (tmp_path / f"converted_{name}.py").write_text(TEXT.format(fields=fields.replace(", ", "\n    ")))
        monkeypatch.syspath_prepend(str(tmp_path))
        modules.append(importlib.import_module(f"converted_{name}"))
        monkeypatch.delitem(sys.modules, f"converted_{name}")
    before, after = modules
    (tmp_path / "converted_before.py").unlink()
    sys.modules["converted_after"] = after
    run, saved = tmp_path / "run", tmp_path / "saved"
    app = before.application(partitions[0], str(run / "out"))
    sys.modules["converted_before"] = before
    run_local(app, windows=FIRST, checkpoint=run / "state", attributes={"snapshot_interval": 2})
    del sys.modules["converted_before"]
    shutil.copytree(run, saved)
    deaths, converted = Deaths(monkeypatch), set()
    while True:
        deaths.at, deaths.steps = deaths.at + 1, 0
        shutil.rmtree(run)
        shutil.copytree(saved, run)
        app = after.application(partitions[1], str(run / "out"))
        died = False
        try:
            run_local(app, windows=1, checkpoint=run / "state")
        except DeadError:
            died = True
        at, deaths.at = deaths.at, 0
        rest = run_local(app, checkpoint=run / "state")
        converted.add(rest.window_ids[0])
        assert rows(run / "out") == expected(), at
        deaths.at = at
        if not died:
            break
    assert deaths.at > 20
    assert converted == {FIRST, FIRST + 1}
    del sys.modules["converted_after"]
