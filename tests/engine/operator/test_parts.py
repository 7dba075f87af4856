"""The features of a turn: those that an operator does not use cost nothing, a new one is an entry."""

from typing import NamedTuple

import pytest

from ridgeline import InputPort, Operator, OperatorContext, OutputPort, State
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.tuples import Tuples
from ridgeline.engine.operator import parts
from ridgeline.engine.operator.instance import Instance
from ridgeline.engine.operator.part import Emitted, Inputs, Turn, TurnPart
from ridgeline.plan.protocol import WindowRequest
from support.engine.one_operator import planned, runtime

CALLS: list[str] = []


class Item(NamedTuple):
    key: int


class Step(Operator):
    data = InputPort(Item)
    out = OutputPort(Item)
    seen = State(0)

    def setup(self, context: OperatorContext) -> None:
        CALLS.append("setup")

    def begin_window(self, window_id: int) -> None:
        CALLS.append("begin_window")

    @data.process
    def take(self, item: Item) -> None:
        CALLS.append(f"item {item.key}")
        self.out.emit(item)

    def end_window(self) -> None:
        CALLS.append("end_window")


class Backwards(TurnPart):
    """A feature that nobody has thought of yet: tuples come in reverse."""

    def start(self) -> None:
        CALLS.append("start")

    def begin(self, turn: Turn) -> None:
        CALLS.append("begin")

    def arrange(self, turn: Turn, inputs: Inputs) -> Inputs:
        return {port: list(reversed(runs)) for port, runs in inputs.items()}

    def before_tuples(self, turn: Turn) -> None:
        CALLS.append("before_tuples")

    def processed(self, turn: Turn, tuples: Tuples) -> None:
        CALLS.append(f"processed {len(tuples)}")

    def after_tuples(self, turn: Turn) -> None:
        CALLS.append("after_tuples")

    def end(self, turn: Turn) -> None:
        CALLS.append("end")

    def report(self, turn: Turn, emitted: Emitted) -> None:
        CALLS.append(f"report {sum(map(len, emitted['out']))}")

    def void(self, turn: Turn) -> None:
        CALLS.append("void")


@pytest.fixture(autouse=True)
def forget():
    CALLS.clear()


def test_a_part_that_is_added_has_its_hooks_called_in_their_order(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", (*parts.PARTS, Backwards))
    step = runtime(Step())
    step.start()
    runs = [Tuples.of_rows(Schema(Item), [Item(key)]) for key in (1, 2)]
    step.run(WindowRequest(0, 0, 1), {"data": runs}, ())
    step.lose(WindowRequest(1, 0, 1))
    assert CALLS == [
        "start", "setup", "begin", "begin_window", "before_tuples",
        "item 2", "processed 1", "item 1", "processed 1",
        "end_window", "after_tuples", "end", "report 2",
        "void",
    ]  # fmt: skip


def test_a_part_that_an_operator_does_not_use_has_no_hook_in_its_turn():
    class Plain(Operator):
        data = InputPort(Item)
        out = OutputPort(Item)

        @data.process
        def take(self, item: Item) -> None: ...

    used = parts.Parts(Instance(*planned(Plain())))
    unused = (
        parts.Gathering, parts.OrderByTime, parts.BeginWindow, parts.IdleTime, parts.Watermark,
        parts.InputTuples, parts.Timers, parts.DeclaredMetrics, parts.WindowStates, parts.BeforeCheckpoint,
        parts.TimeToLive, parts.RecordAges,
    )  # fmt: skip
    assert [kind for kind in unused if used.find(kind) is not None] == []
    assert not used.arrange
    assert not used.processed
