"""Properties of the plans of random applications, and of edits that lead from one to another."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ridgeline.api import Application, PartitionKeys, ValidationError
from ridgeline.plan import (
    PhysicalOperator,
    PhysicalPlan,
    Plan,
    RoundRobin,
    plan_application,
)
from ridgeline.plan.specification import edits_between
from support.plan.random_applications import applications, many, plan_of


def taken(route: Any, hashed: int, turn: int) -> bool:
    """Whether a tuple of this hash that is the `turn`-th goes this way."""
    if isinstance(route, PartitionKeys):
        return hashed & route.mask in route.keys
    return not isinstance(route, RoundRobin) or turn % route.of == route.index


def arrivals(
    physical: PhysicalPlan, name: str, source: int, hashed: int, turn: int
) -> Counter[tuple[str, str, int]]:
    """How often a tuple arrives at which operators, ports and partitions of a stream."""
    arrived: Counter[tuple[str, str, int]] = Counter()
    todo = [source]
    while todo:
        here = todo.pop()
        for hop in physical.streams:
            assert (hop.codec is not None) == isinstance(hop.route, PartitionKeys)
            if hop.source == here and hop.name == name and taken(hop.route, hashed, turn):
                sink = physical.operator(hop.sink)
                if sink.unifier:
                    todo.append(sink.id)
                else:
                    arrived[sink.name, hop.sink_port, sink.partition] += 1
    return arrived


@many
@given(applications(), st.integers(0, 2**64 - 1), st.integers(0, 5))
def test_every_tuple_arrives_where_it_must(app: Application, hashed: int, turn: int) -> None:
    """A divided port sends a tuple to one partition, a broadcast port to all, none twice; equal keys meet."""
    plan = plan_of(app)
    partitions: dict[str, list[PhysicalOperator]] = {}
    for operator in plan.physical.operators:
        if not operator.unifier:
            partitions.setdefault(operator.name, []).append(operator)
    for stream in plan.logical.streams:
        for source in partitions[stream.source.operator]:
            arrived = arrivals(plan.physical, stream.name, source.id, hashed, turn)
            assert set(arrived.values()) == {1}
            for sink in stream.sinks:
                keyed = {"keyed", "also_keyed"}.intersection(plan.logical.operator(sink.operator).inputs)
                takers = [
                    op.partition
                    for op in partitions[sink.operator]
                    if arrived[op.name, sink.port, op.partition]
                ]
                first = partitions[sink.operator][0]
                if sink.port == "followed":
                    assert takers == [source.partition]
                elif "followed" not in first.inputs and first.attributes["partitioner"] is None and keyed:
                    assert set(first.keys) == keyed
                    meeting = [
                        op.partition
                        for op in partitions[sink.operator]
                        if hashed & op.keys[min(keyed)].mask in op.keys[min(keyed)].keys
                    ]
                    assert takers == (meeting if sink.port in keyed else list(range(first.partitions)))
                elif sink.port in first.keys or sink.port in first.round_robin:
                    assert len(takers) == 1
                else:
                    assert takers == list(range(first.partitions))


def planned(app: Application, **given: Any) -> Plan | str:
    """The plan, or the text of all faults."""
    try:
        return plan_application(app, **given)
    except ValidationError as error:
        return str(error)


def picture(plan: Plan | str) -> Any:
    """A plan without what depends on the order of adding."""
    if isinstance(plan, str):
        return plan
    operators = {
        one.name: (
            type(one.operator),
            {**one.attributes, "partitioner": repr(one.attributes["partitioner"])},
            one.ports,
            one.unifiers,
            one.divided,
        )
        for one in plan.logical.operators
    }
    streams = {
        one.name: (str(one.source), {str(end): sink.locality for end, sink in one.sinks.items()})
        for one in plan.logical.streams
    }
    return operators, streams, plan.logical.attributes


@many
@given(applications(), applications())
def test_edits_between_any_two_applications(one: Application, other: Application) -> None:
    old, new = plan_of(one), plan_of(other)
    found = edits_between(old.logical, other)
    assert picture(planned(one, edits=found)) == picture(new)
