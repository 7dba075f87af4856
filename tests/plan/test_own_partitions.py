"""Partitioners that choose the number of partitions and give them values of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from pydantic import Field

from ridgeline.api import (
    Application,
    InputOperator,
    InputPort,
    KeyedState,
    Operator,
    OutputPort,
    Partition,
    Partitioner,
    PartitionKeys,
    PortInfo,
    State,
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
    """`limit` events of a topic a window, for two windows."""

    out = OutputPort(Event)
    topic: str = "none"
    limit: int = Field(1, gt=0)
    token: str = ""
    window = State(0)

    def emit_tuples(self) -> None:
        for number in range(self.limit):
            self.out.emit(Event(self.topic, self.window * self.limit + number))
        self.window += 1
        if self.window == 2:
            self.finish()


class Given(Partitioner):
    """Gives what it got, whatever it is asked for."""

    def __init__(self, partitions: Any) -> None:
        self.partitions = partitions

    def define_partitions(self, count: int, ports: Sequence[PortInfo]) -> Any:
        return self.partitions


class Join(Operator):
    """Numbers of the left that the right has too."""

    left = InputPort(Event, key="number")
    right = InputPort(Event, key="number")
    rates = InputPort(Event, optional=True)
    both = OutputPort(Event)
    name: str = ""
    seen = KeyedState(int, default=0)

    @left.process
    def on_left(self, event: Event) -> None:
        self._note(event, 1)

    @right.process
    def on_right(self, event: Event) -> None:
        self._note(event, 2)

    @rates.process
    def on_rates(self, event: Event) -> None: ...

    def _note(self, event: Event, bit: int) -> None:
        before = self.seen[event.number]
        self.seen[event.number] |= bit
        if before != 3 and self.seen[event.number] == 3:
            self.both.emit(Event("both", event.number))


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


def join_app(given: Any, **attributes: Any) -> Application:
    app = Application("join", window="1s")
    source = app.add_operator("source", ListInput(Event, []))
    join = app.add_operator("join", Join(), partitioner=Given(given), **attributes)
    app.add_stream("events", source.output, join.left, join.right)
    app.add_stream("both", join.both, app.add_operator("sink", CollectorSink(Event)).input)
    return app


EVEN = PartitionKeys(1, frozenset({0}))
ODD = PartitionKeys(1, frozenset({1}))


@pytest.mark.parametrize(
    ("partitions", "attributes", "text"),
    [
        ([], {}, "gave 0 partitions; return at least one and at most 65536"),
        ([Partition()] * 10**6, {}, "gave 1000000 partitions; return at least one and at most 65536"),
        ([Partition()] * 3, {"partitions": 2}, "gave 3 partitions; 2 were asked for"),
        ([Partition({"left": EVEN}), Partition({"left": EVEN})], {}, "are taken by partitions 0, 1"),
        (
            [Partition({"left": EVEN}), Partition({"left": PartitionKeys(1, frozenset())})],
            {},
            "are taken by no partition",
        ),
        ([Partition({"left": PartitionKeys("x", frozenset())})], {}, "gave partitions that are none"),  # type: ignore[arg-type]
        (
            [Partition({"left": EVEN}), Partition({"left": ODD, "wrong": ODD})],
            {},
            "`wrong` that is not there",
        ),
        ([Partition(properties={"nmae": "x"})], {}, "`Join` has no property `nmae`"),
        ([Partition(), Partition(properties={"name": 3})], {}, "partition 1 wrong values: property `name`"),
        ([Partition(attributes={"partitions": 3})], {}, "a partition has no attribute `partitions` of its"),
        ([Partition(attributes={"vcores": 0})], {}, "attribute `vcores` must be at least 1; got 0"),
        (None, {}, "gave None, which is no list of `Partition`"),
    ],
)
def test_hostile_partitioners_are_refused(partitions: Any, attributes: dict[str, Any], text: str) -> None:
    faults = [str(fault) for fault in find_faults(join_app(partitions, **attributes))]
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
    given = Given([Partition(properties={"label": "x"})])
    app = in_a_row(
        Application("one"), source=ListInput(Event, []), sink=(Sink(Event), {"partitioner": given})
    )
    (fault,) = find_faults(app)
    assert "its publisher works for all partitions at once" in str(fault)
