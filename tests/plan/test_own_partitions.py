"""Partitioners that choose the number of partitions and give them values of their own."""

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
from ridgeline.observe.plan_topology import topology_of
from ridgeline.plan import describe, find_faults, plan_application, to_dict
from ridgeline.testing import CollectorSink, ListInput
from support.rows import in_a_row


class Event(NamedTuple):
    topic: str
    number: int


class Topic(InputOperator):
    out = OutputPort(Event)
    token: str = ""


class Given(Partitioner):
    """Gives what it got, whatever it is asked for."""

    def __init__(self, partitions: Any) -> None:
        self.partitions = partitions

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Any:
        return self.partitions


class Join(Operator):
    left = InputPort(Event, key="number")
    both = OutputPort(Event)
    name: str = ""

    @left.process
    def on_left(self, event: Event) -> None: ...


def topics(partitioner: Partitioner | None, **attributes: Any) -> Application:
    return in_a_row(
        Application("topics", window="1s"),
        source=(Topic(), {"partitioner": partitioner, **attributes}),
        sink=CollectorSink(Event),
    )


def test_secrets_of_partitions_are_masked() -> None:
    plan = plan_application(topics(Given([Partition(properties={"token": "hunter22"}), Partition()])))
    assert "hunter22" not in describe(plan)
    assert "hunter22" not in repr(to_dict(plan))
    assert "hunter22" not in repr(topology_of(plan))


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
        ([Partition(properties={"nmae": "x"})], "`Join` has no property `nmae`"),
        ([Partition(), Partition(properties={"name": 3})], "partition 1 wrong values: property `name`"),
        ([Partition(attributes={"partitions": 3})], "a partition has no attribute `partitions` of its"),
        ([Partition(attributes={"vcores": 0})], "attribute `vcores` must be at least 1; got 0"),
    ],
)
def test_hostile_partitioners_are_refused(partitions: Any, text: str) -> None:
    faults = [str(fault) for fault in find_faults(row(Join(), partitions))]
    assert len(faults) == 1
    assert text in faults[0]
    assert faults[0].startswith("`join`: ")


class Sink(CollectorSink):
    label: str = ""


def test_what_has_no_effect_is_refused() -> None:
    app = topics(StickyPartitioner(), partitions=2)
    assert [fault.what for fault in find_faults(app)] == [
        "attribute `partitioner` would do nothing: an input operator has no tuples to divide"
    ]
    (fault,) = find_faults(row(Sink(Event), [Partition(properties={"label": "x"})]))
    assert "its publisher works for all partitions at once" in str(fault)
