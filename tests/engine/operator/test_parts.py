"""The features of a turn: those that an operator does not use cost nothing."""

from typing import NamedTuple

from ridgeline import InputPort, Operator, OutputPort
from ridgeline.engine.operator import parts
from ridgeline.engine.operator.instance import Instance
from support.engine.one_operator import planned


class Item(NamedTuple):
    key: int


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
