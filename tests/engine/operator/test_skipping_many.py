"""Operators with state that refuse many tuples of a window: no trace of them is left."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline import Application, InputPort, KeyedState, ListState, Operator, OutputPort, State
from ridgeline.engine.operator.skipping import _MOST_RUNS
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.depth import deep

CALLS: list[int] = []


class Number(NamedTuple):
    key: int
    value: int


class Text(NamedTuple):
    text: str


class Held:
    """What the operator below holds, and does with a number; the model of it holds plain containers."""

    counts: Any
    lists: Any
    table: Any
    seen: Any
    total: int

    def take(self, number: Number) -> None:
        self.counts[number.key] = self.counts.get(number.key, 0) + number.value
        self.lists[number.key] = self.lists.get(number.key, [])
        self.lists[number.key].append(number.value)
        self.seen.append(number.value)
        self.table["last"] = number.value
        self.table.setdefault("all", []).append(number.key)
        self.total += number.value
        if number.value % 5 == 2:
            self.counts.pop(number.key)
            self.waiting.clear()
        self.waiting.append([number.value])
        self.groups[number.key].append(number.value)
        if number.value < 0 or self.table["all"][-2:] == [1, 1]:
            raise ValueError(f"{number} is refused")

    def text(self) -> str:
        held = sorted(self.counts.items()), sorted(self.lists.items()), sorted(self.table.items())
        return repr((held, list(self.seen), self.total, self.waiting, sorted(self.groups.items())))


class Model(Held):
    def __init__(self) -> None:
        self.counts, self.lists, self.table, self.seen, self.total = {}, {}, {}, [], 0


class Refusing(Held, Operator):
    input = InputPort(Number, key="key")
    output = OutputPort(Text)

    counts = KeyedState(int)
    lists = KeyedState(list)
    table = State({})
    seen = ListState(int)
    total = State(0)

    def begin_window(self, window_id: int) -> None:
        self.waiting: list[Any] = []
        self.groups: Any = defaultdict(list)

    @input.process
    def add(self, number: Number) -> None:
        CALLS.append(number.value)
        self.take(number)
        self.output.emit(Text(str(number)))

    def end_window(self) -> None:
        self.output.emit(Text(self.text()))


class InBatches(Refusing):
    input = InputPort(Number, key="key")

    @input.process_batch
    def add_all(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self.add(Number(**row))


def expected(windows: list[list[Number]]) -> list[str]:
    model, found = Model(), []
    for window in windows:
        model.waiting, model.groups = [], defaultdict(list)
        for number in window:
            before = copy.deepcopy(vars(model))
            try:
                model.take(number)
            except ValueError:
                vars(model).update(before)
            else:
                found.append(str(number))
        found.append(model.text())
    return found


def run(operator: Operator, windows: list[list[Number]]) -> list[str]:
    app = Application("refusing")
    items = [item for window in windows for item in (*window, END_WINDOW)]
    source = app.add_operator("source", ListInput(Number, items))
    one = app.add_operator("one", operator, on_error="SKIP")
    sink = app.add_operator("sink", CollectorSink(Text))
    app.add_stream("in", source.output, one.input)
    app.add_stream("out", one.output, sink.input)
    return [row.text for row in run_local(app).collected("sink")]


NUMBERS = st.builds(Number, st.integers(0, 3), st.integers(-4, 9))


@pytest.mark.parametrize("kind", [Refusing, InBatches])
def test_the_run_is_as_if_what_is_refused_had_never_come(kind: type[Operator]) -> None:
    @settings(max_examples=deep(7), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.lists(NUMBERS, max_size=12), min_size=1, max_size=3))
    def check(windows: list[list[Number]]) -> None:
        assert run(kind(), windows) == expected(windows)

    check()


@pytest.mark.parametrize("kind", [Refusing, InBatches])
def test_many_refusals_in_a_window_cost_so_many_attempts_at_most(kind: type[Operator]) -> None:
    numbers = [Number(2 * (place % 50), place if place % 3 else -place - 1) for place in range(900)]
    CALLS.clear()
    found = run(kind(), [numbers])
    assert len(CALLS) <= (_MOST_RUNS + 3) * len(numbers)
    assert found[:-1] == [str(number) for number in numbers if number.value >= 0]
