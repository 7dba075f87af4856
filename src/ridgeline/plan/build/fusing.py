"""From a physical to an execution plan: which operators share a container, and in which stage it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ridgeline.api.errors import ValidationError
from ridgeline.plan.build.partitioning import parallel_ports
from ridgeline.plan.execution import Container, ExecutionPlan, Stage
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.physical import PhysicalPlan
from ridgeline.plan.placement.affinity import joins_of
from ridgeline.plan.placement.colocation import Edge, Node, find_groups, one_to_one
from ridgeline.plan.placement_rule import limits_of


def build_execution(logical: LogicalPlan, physical: PhysicalPlan) -> ExecutionPlan:
    """Build the execution plan: groups that a locality demands, then every fusion that is possible.

    A partition is fused into the container of an upstream partition if three things hold. It gets all tuples
    of that stream from there. The stream is not NODE_LOCAL or RACK_LOCAL. Everything else that it waits for
    is in that container too, or in an earlier stage. Raises ValidationError if localities contradict each
    other.
    """
    planner = _Planner(logical, physical)
    groups = find_groups(planner.nodes, planner.edges, joins_of(logical.affinity, planner.nodes))
    if groups.faults:
        raise ValidationError(logical.application, groups.faults)
    for group in groups.groups:
        planner.place(group)
    return planner.plan()


@dataclass(slots=True, eq=False)
class _Box:
    """A container under construction."""

    stage: int
    operators: list[int] = field(default_factory=list)


class _Planner:
    """Places one group of operators after the other, in topological order."""

    def __init__(self, logical: LogicalPlan, physical: PhysicalPlan) -> None:
        """Sort the physical operators into partitions, their sliders, final and intermediate unifiers.

        A final unifier feeds one partition only.
        """
        self.partitions: dict[str, list[int]] = {operator.name: [] for operator in logical.operators}
        self.before: dict[int, list[int]] = {operator.id: [] for operator in physical.operators}
        self.finals: dict[int, list[int]] = {operator.id: [] for operator in physical.operators}
        self.merging: dict[str, list[int]] = {operator.name: [] for operator in logical.operators}
        self.sliders: dict[int, list[int]] = {operator.id: [] for operator in physical.operators}
        self.home: dict[int, _Box] = {}
        self.boxes: list[_Box] = []
        final = set()
        fed: dict[int, set[int]] = {operator.id: set() for operator in physical.operators}
        for stream in physical.streams:
            self.before[stream.sink].append(stream.source)
            fed[stream.source].add(stream.sink)
        sliders = {operator.id for operator in physical.operators if operator.slider}
        for slider in sorted(sliders):
            self.sliders[self.before[slider][0]].append(slider)
        merging = [op.id for op in physical.operators if op.unifier and op.id not in sliders]
        for unifier in merging:
            (sink, *others) = sorted(fed[unifier])
            if not others and not physical.operator(sink).unifier:
                self.finals[sink].append(unifier)
                final.add(unifier)
        for operator in physical.operators:
            if not operator.unifier:
                self.partitions[operator.name].append(operator.id)
            elif operator.id not in final and operator.id not in sliders:
                self.merging[operator.name].append(operator.id)
        self.names = list(self.partitions)
        self.names_by_id = {
            operator.id: operator.name for operator in physical.operators if not operator.unifier
        }
        self.nodes = [Node(op.name, op.is_input, len(self.partitions[op.name])) for op in logical.operators]
        self.edges = _edges(logical)
        self.strangers: dict[str, set[str]] = {name: set() for name in self.partitions}
        for first, second in (pair for rule in logical.affinity for pair in rule.pairs):
            self.strangers[first].add(second)
            self.strangers[second].add(first)
        limits = limits_of(logical.affinity)
        for name, limit in limits.items():
            self.strangers[name] |= {other for other, of_other in limits.items() if of_other != limit}

    def place(self, group: tuple[int, ...]) -> None:
        """Put the partitions of a group, and the unifiers before and behind them, into containers."""
        operators = [self.partitions[self.names[node]] for node in group]
        for partition in range(len(operators[0])):
            unit = [
                identity
                for own in (ids[partition] for ids in operators)
                for identity in (*self.finals[own], own, *self.sliders[own])
            ]
            waits = [
                self.home[source]
                for identity in unit
                for source in self.before[identity]
                if source not in unit
            ]
            box = self.fusable(group, partition, waits) or self.new(
                1 + max((other.stage for other in waits), default=-1)
            )
            self.fill(box, unit)
        for node in group:
            for identity in self.merging[self.names[node]]:
                self.fill(
                    self.new(1 + max(self.home[source].stage for source in self.before[identity])), [identity]
                )

    def fusable(self, group: tuple[int, ...], partition: int, waits: Sequence[_Box]) -> _Box | None:
        """The upstream container that a partition of a group may run in; None if there is none.

        There is never more than one: all others are in earlier stages.
        """
        entering = [edge for edge in self.edges if edge.sink in group and edge.source not in group]
        apart = {
            id(self.home[identity])
            for edge in entering
            if edge.apart
            for identity in self.partitions[self.names[edge.source]]
        }
        for edge in entering:
            if not edge.apart and one_to_one(self.nodes, edge):
                box = self.home[self.partitions[self.names[edge.source]][partition]]
                if (
                    id(box) not in apart
                    and not self.refused(group, box)
                    and all(other is box or other.stage < box.stage for other in waits)
                ):
                    return box
        return None

    def refused(self, group: tuple[int, ...], box: _Box) -> bool:
        """True if a rule wants an operator of a group apart from one that is in a container."""
        there = {self.names_by_id.get(identity, "") for identity in box.operators}
        return any(not there.isdisjoint(self.strangers[self.names[node]]) for node in group)

    def new(self, stage: int) -> _Box:
        """Create an empty container."""
        box = _Box(stage)
        self.boxes.append(box)
        return box

    def fill(self, box: _Box, identities: Sequence[int]) -> None:
        """Put physical operators into a container."""
        box.operators.extend(identities)
        for identity in identities:
            self.home[identity] = box

    def plan(self) -> ExecutionPlan:
        """The finished plan: stages in order, their containers by first operator, operators by id."""
        ordered = sorted(self.boxes, key=lambda box: (box.stage, min(box.operators)))
        containers = [
            Container(number, box.stage, tuple(sorted(box.operators))) for number, box in enumerate(ordered)
        ]
        stages = 1 + max(box.stage for box in ordered)
        return ExecutionPlan(
            tuple(
                Stage(index, tuple(box for box in containers if box.stage == index))
                for index in range(stages)
            )
        )


def _edges(logical: LogicalPlan) -> list[Edge]:
    """The streams of the logical plan as edges between operator numbers."""
    index = {operator.name: number for number, operator in enumerate(logical.operators)}
    edges = []
    for stream in logical.streams:
        for sink, locality in zip(stream.sinks, stream.localities, strict=True):
            operator = logical.operators[index[sink.operator]]
            parallel = sink.port in parallel_ports(operator.operator, operator.ports, operator.inputs)
            edges.append(
                Edge(
                    stream.name,
                    index[stream.source.operator],
                    index[sink.operator],
                    sink.port,
                    parallel,
                    "",
                    locality,
                )
            )
    return edges
