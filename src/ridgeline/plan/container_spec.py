"""The part of the plan that one container needs to run, picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from ridgeline.api.attributes import RecordingLevel
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import Operator, lateness_seconds
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.push_input import PushInput
from ridgeline.api.support.loops import DelayHead, DelayTail
from ridgeline.api.support.pickling import pickled_by_values
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import module_of
from ridgeline.plan.physical import Encoding, PhysicalOperator, PhysicalPlan, PhysicalStream


@pickled_by_values
@dataclass(frozen=True, slots=True)
class Route(PhysicalStream):
    """A stream from an operator of this container; within the container if `container` is its own id.

    `towards`: if keys are shared, the input port of an operator that it leads to, be it through unifiers.
    """

    codec: Any  # there is one wherever tuples are hashed
    container: int = 0
    towards: str = ""


_VALUES = attrgetter(*(one.name for one in fields(PhysicalStream)))


class Incoming(NamedTuple):
    """A stream from another container. `where` names the stream, as errors do."""

    schema: Schema
    encoding: Encoding | None
    where: str


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """The operators of one container in topological order, their routes, and the containers that send to it.

    `incoming`: each stream from another container, by (id of the producer's container, number of the route
    there).
    """

    application: str
    id: int
    stage: int
    operators: tuple[PhysicalOperator, ...]
    routes: tuple[Route, ...]
    producers: frozenset[int]
    incoming: Mapping[tuple[int, int], Incoming]
    recording_level: RecordingLevel = RecordingLevel.INFO
    """Whether records carry times and where their ages are taken."""
    window_seconds: float = 1.0
    """The width of a streaming window."""
    watermarks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Its operators that have a watermark, each with the operators whose watermarks it follows."""
    entering: Mapping[int, tuple[tuple[int, str, str], ...]] = field(default_factory=dict)
    """The streams into each operator: (physical id and port of the source, port)."""
    tails: Mapping[int, PhysicalOperator] = field(default_factory=dict)
    """Its heads of delay operators, each with the tail whose state it reads."""
    ends: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Its operators whose end matters to an `end_of_input`, each with the operators that it reads."""
    passed_over: int = 0
    """How many numbers of windows rewinds have left out before the windows that it runs."""

    @property
    def consumers(self) -> frozenset[int]:
        """The other containers that this one sends to."""
        return frozenset(route.container for route in self.routes if route.container != self.id)

    @property
    def wants_commit(self) -> bool:
        """True if an operator overrides `committed` or `checkpointed`."""
        return any(overrides_committed(operator) for operator in self.operators)

    @property
    def waits_for_tuples(self) -> bool:
        """True if an input operator of it is a `PushInput`."""
        return any(isinstance(operator.operator, PushInput) for operator in self.operators)


def overrides_committed(operator: PhysicalOperator) -> bool:
    """True if the operator's class overrides `Operator.committed` or `Operator.checkpointed`."""
    kind = type(operator.operator)
    return kind.committed is not Operator.committed or kind.checkpointed is not Operator.checkpointed


def container_partners(plan: Plan) -> Mapping[int, frozenset[int]]:
    """The containers that each container exchanges blocks with: those that send to it, and its consumers.

    Containers of a stage in which all have the same partners share one set.
    """
    containers = plan.execution.containers
    home = plan.execution.homes
    found: dict[int, list[int]] = {container.id: [] for container in containers}
    for stream in plan.physical.streams:
        source, sink = home[stream.source], home[stream.sink]
        if source != sink:
            found[source].append(sink)
            found[sink].append(source)
    shared: dict[tuple[int, ...], frozenset[int]] = {}
    return {one: shared.setdefault(tuple(others), frozenset(others)) for one, others in found.items()}


def container_specs(plan: Plan) -> tuple[ContainerSpec, ...]:
    """The specs of all containers of a plan, stage by stage. Their ids are not their places."""
    containers = plan.execution.containers
    home = plan.execution.homes
    routes: dict[int, list[Route]] = {container.id: [] for container in containers}
    incoming: dict[int, dict[tuple[int, int], Incoming]] = {container.id: {} for container in containers}
    kinds: dict[tuple[str, str, int, int], Incoming] = {}
    for stream in plan.physical.streams:
        source, sink = home[stream.source], home[stream.sink]
        if source != sink:
            alike = stream.name, stream.sink_port, id(stream.schema), id(stream.encoding)
            if alike not in kinds:  # one for the streams of all pairs of partitions
                port = f"port `{stream.sink_port}` (stream `{stream.name}`)"
                where = stream.encoding.where if stream.encoding else port
                kinds[alike] = Incoming(stream.schema, stream.encoding, where)
            incoming[sink][source, len(routes[source])] = kinds[alike]
        given = *_VALUES(stream), sink, _towards(plan.physical, stream)
        routes[source].append(Route(*given))
    watermarks, tails, ends = _watermarks(plan.physical), tails_of(plan.physical), _ends(plan.physical)
    return tuple(
        ContainerSpec(
            application=plan.logical.application,
            id=container.id,
            stage=container.stage,
            operators=tuple(plan.physical.operator(operator) for operator in container.operators),
            routes=tuple(routes[container.id]),
            producers=frozenset(producer for producer, _ in incoming[container.id]),
            incoming=incoming[container.id],
            window_seconds=plan.logical.window_seconds,
            watermarks={one: watermarks[one] for one in container.operators if one in watermarks},
            entering={
                one: tuple(
                    (stream.source, stream.source_port, stream.sink_port)
                    for stream in plan.physical.entering.get(one, ())
                )
                for one in container.operators
            },
            tails={one: tails[one] for one in container.operators if one in tails},
            ends={one: ends[one] for one in container.operators if one in ends},
            recording_level=plan.logical.attributes["metrics_recording_level"],
            passed_over=plan.passed_over,
        )
        for container in containers
    )


def _towards(plan: PhysicalPlan, stream: PhysicalStream) -> str:
    """Where a stream with shared keys leads to; its partitions share them with no others."""
    if not (isinstance(stream.route, PartitionKeys) and stream.route.shared):
        return ""
    while plan.operator(stream.sink).unifier:
        stream = plan.leaving[stream.sink][0]
    return f"{plan.operator(stream.sink).name}.{stream.sink_port}"


def tails_of(plan: PhysicalPlan) -> dict[int, PhysicalOperator]:
    """The tail of each head of a delay operator, partition by partition."""
    tails = {
        (module_of(operator.name), operator.partition): operator
        for operator in plan.operators
        if isinstance(operator.operator, DelayTail)
    }
    return {
        operator.id: tails[module_of(operator.name), operator.partition]
        for operator in plan.operators
        if isinstance(operator.operator, DelayHead)
    }


def _watermarks(plan: PhysicalPlan) -> dict[int, tuple[int, ...]]:
    """The operators that have a watermark: those that make one, and all downstream of them.

    Those that make one are inputs that promise a lateness, and steps that give tuples other times.
    """
    making = {one.id: None for one in plan.operators if lateness_seconds(one.operator) is not None}
    found: dict[int, dict[int, None]] = {one: {} for one in making}
    reached = list(making)
    for producer in reached:  # grows
        for stream in plan.leaving.get(producer, ()):
            # a loop's watermark would wait for itself
            if stream.sink in making or isinstance(plan.operator(stream.sink).operator, DelayTail):
                continue
            if stream.sink not in found:
                found[stream.sink] = {}
                reached.append(stream.sink)
            found[stream.sink][producer] = None
    return {operator: tuple(producers) for operator, producers in found.items()}


def _ends(plan: PhysicalPlan) -> dict[int, tuple[int, ...]]:
    """The operators with an `end_of_input` and all upstream, each with the operators that it reads.

    Tuples that come round a loop by a delay operator are not waited for.
    """
    heads = tails_of(plan)
    found: dict[int, tuple[int, ...]] = {}
    reached = [
        one.id for one in plan.operators if type(one.operator).end_of_input is not Operator.end_of_input
    ]
    for one in reached:  # grows
        if one not in found:
            streams = plan.entering.get(one, ())
            found[one] = tuple(
                dict.fromkeys(stream.source for stream in streams if stream.source not in heads)
            )
            reached += found[one]
    return found
