"""Partitioners that choose the number of partitions, or give what is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from ridgeline.api import (
    Application,
    InputOperator,
    InputPort,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    PartitionKeys,
    PortInfo,
    StickyPartitioner,
)
from ridgeline.plan import find_faults
from ridgeline.testing import CollectorSink, ListInput
from support.rows import in_a_row


class Event(NamedTuple):
    topic: str
    number: int


class Topic(InputOperator):
    out = OutputPort(Event)


class Given(Partitioner):
    """Gives what it got, whatever it is asked for."""

    def __init__(self, partitions: Any) -> None:
        self.partitions = partitions

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Any:
        return self.partitions


class Join(Operator):
    left = InputPort(Event, key="number")
    both = OutputPort(Event)

    @left.process
    def on_left(self, event: Event) -> None: ...


def topics(partitioner: Partitioner | None, **attributes: Any) -> Application:
    return in_a_row(
        Application("topics", window="1s"),
        source=(Topic(), {"partitioner": partitioner, **attributes}),
        sink=CollectorSink(Event),
    )


def row(operator: Operator, given: Any) -> Application:
    """An application with an operator of these partitions."""
    attributes = {"partitioner": Given(given)}
    operators: dict[str, Any] = {"source": ListInput(Event, []), "join": (operator, attributes)}
    if isinstance(operator, Join):
        operators["sink"] = CollectorSink(Event)
    return in_a_row(Application("row", window="1s"), **operators)


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], "gave 0 partitions; return at least one and at most 65536"),
        ([Partition()] * 10**6, "gave 1,000,000 partitions; return at least one and at most 65536"),
        ([Partition({"left": PartitionKeys("x", frozenset())})], "gave partitions that are none"),  # type: ignore[arg-type]
    ],
)
def test_hostile_partitioners_are_refused(partitions: Any, text: str) -> None:
    faults = [str(fault) for fault in find_faults(row(Join(), partitions))]
    assert len(faults) == 1
    assert text in faults[0]
    assert faults[0].startswith("`join`: ")


def test_what_has_no_effect_is_refused() -> None:
    app = topics(StickyPartitioner(), partitions=2)
    assert [fault.what for fault in find_faults(app)] == [
        "attribute `partitioner` would do nothing: an input operator has no tuples to divide"
    ]
