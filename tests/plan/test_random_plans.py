"""Properties of the plans of random applications."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ridgeline.api import (
    Application,
    PartitionKeys,
)
from ridgeline.api.partitioner import assign_keys
from ridgeline.plan import (
    PhysicalOperator,
    PhysicalPlan,
    RoundRobin,
    plan_logical,
)
from ridgeline.plan.build.partitioning import check_cover
from ridgeline.plan.graphs import topological_order
from support.plan.random_applications import applications, many, plan_of


@many
@given(applications())
def test_containers(app: Application) -> None:
    plan = plan_of(app)
    physical, execution = plan.physical, plan.execution
    assert sorted(operator for box in execution.containers for operator in box.operators) == [
        operator.id for operator in physical.operators
    ]
    home = {operator: box for box in execution.containers for operator in box.operators}
    for stream in physical.streams:
        source, sink = home[stream.source], home[stream.sink]
        assert stream.source < stream.sink
        assert source is sink or source.stage < sink.stage
    roots = {op.id for op in physical.operators if not op.unifier and plan.logical.operator(op.name).is_input}
    for box in execution.containers:
        assert len(roots.intersection(box.operators)) == (1 if box.stage == 0 else 0)
        assert list(box.operators) == sorted(box.operators)
    assert [box.id for box in execution.containers] == list(range(len(execution.containers)))
    assert [stage.index for stage in execution.stages] == list(range(len(execution.stages)))
    assert all(stage.containers for stage in execution.stages)
    edges = [
        (home[stream.source].id, home[stream.sink].id)
        for stream in physical.streams
        if home[stream.source] is not home[stream.sink]
    ]
    assert len(topological_order(len(execution.containers), edges)) == len(execution.containers)


@many
@given(applications())
def test_localities_are_kept(app: Application) -> None:
    plan = plan_of(app)
    home = {operator: box.id for box in plan.execution.containers for operator in box.operators}
    at = {(op.name, op.partition): home[op.id] for op in plan.physical.operators if not op.unifier}
    for stream in plan.logical.streams:
        for sink in stream.sinks:
            sources = {place for (name, _), place in at.items() if name == stream.source.operator}
            places = {place for (name, _), place in at.items() if name == sink.operator}
            if stream.locality is not None and stream.locality.together:
                assert sources == places
            elif stream.locality is not None:
                assert not sources & places


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


@many
@given(applications())
def test_the_same_plan_again(app: Application) -> None:
    plan = plan_of(app)
    assert plan_logical(plan.logical, version=3).execution == plan.execution


@given(st.integers(1, 300))
def test_sticky_keys_cover_every_hash_once(count: int) -> None:
    keys = assign_keys(count)
    check_cover("sticky", "port", keys)
    mask = keys[0].mask
    assert count - 1 <= mask < max(2 * count - 1, 1)
    assert {part.mask for part in keys} == {mask}
    assert sorted(key for part in keys for key in part.keys) == list(range(mask + 1))
    assert all(key % count == partition for partition, part in enumerate(keys) for key in part.keys)
