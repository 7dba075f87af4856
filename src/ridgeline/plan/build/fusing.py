"""From a physical to an execution plan: which operators share a container, and in which stage it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ridgeline.plan.execution import Container, ExecutionPlan
from ridgeline.plan.logical import Edge, LogicalPlan
from ridgeline.plan.physical import PhysicalPlan
from ridgeline.plan.placement_rule import limits_of

_NOBODY: Mapping[str, Collection[str]] = MappingProxyType({})


def build_execution(
    logical: LogicalPlan, physical: PhysicalPlan, apart: Mapping[str, Collection[str]] = _NOBODY
) -> ExecutionPlan:
    """Build the execution plan: groups that a locality demands, then every fusion that is possible.

    A partition is fused into the container of an upstream partition if three things hold. It gets all tuples
    of that stream from there. The stream is not NODE_LOCAL or RACK_LOCAL. Everything else that it waits for
    is in that container too, or in an earlier stage. `apart`: the operators that each need not be fused with.
    """
    entering = defaultdict[str, list[Edge]](list)
    for edge in logical.edges:
        entering[edge.sink.name].append(edge)
    planner = _Planner(_sorted(logical, physical), entering, _strangers(logical, apart))
    for group in logical.groups:
        planner.place(group)
    return planner.plan(logical.first_id)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The physical operators, by id, and which of them belong together.

    Attributes:
        partitions: Of each logical operator.
        before: The operators that each reads.
        finals: The unifiers before a partition that feed that one only.
        merging: The other unifiers of each logical operator's outputs.
        sliders: Behind each partition.
        names: The logical operator of each partition.
    """

    partitions: Mapping[str, Sequence[int]]
    before: Mapping[int, Sequence[int]]
    finals: Mapping[int, Sequence[int]]
    merging: Mapping[str, Sequence[int]]
    sliders: Mapping[int, Sequence[int]]
    names: Mapping[int, str]


def _sorted(logical: LogicalPlan, physical: PhysicalPlan) -> _Parts:
    """Sort the physical operators into partitions, their sliders, final and intermediate unifiers."""
    before = {one: [stream.source for stream in own] for one, own in physical.entering.items()}
    partitions: dict[str, list[int]] = {operator.name: [] for operator in logical.operators}
    finals, sliders = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    merging = defaultdict[str, list[int]](list)
    for operator in physical.operators:
        sinks = {stream.sink for stream in physical.leaving.get(operator.id, ())}
        if not operator.unifier:
            partitions[operator.name].append(operator.id)
        elif operator.slider:  # before the next cases: it is a unifier too
            sliders[before[operator.id][0]].append(operator.id)
        elif len(sinks) == 1 and not any(physical.operator(sink).unifier for sink in sinks):
            finals[next(iter(sinks))].append(operator.id)
        else:
            merging[operator.name].append(operator.id)
    names = {identity: name for name, ids in partitions.items() for identity in ids}
    return _Parts(partitions, before, finals, merging, sliders, names)


def _strangers(logical: LogicalPlan, apart: Mapping[str, Collection[str]]) -> Mapping[str, set[str]]:
    """By operator, those that rules keep apart from it, for which rules leave other hosts, and `apart`."""
    found = defaultdict[str, set[str]](set, {name: set(others) for name, others in apart.items()})
    for first, second in (pair for rule in logical.affinity for pair in rule.pairs):
        found[first].add(second)
        found[second].add(first)
    limits = limits_of(logical.affinity)
    for name, limit in limits.items():
        found[name] |= {other for other, of_other in limits.items() if of_other != limit}
    return found


@dataclass(slots=True, eq=False)
class _Box:
    """A container under construction."""

    stage: int
    operators: list[int] = field(default_factory=list)

    def is_last_of(self, boxes: Iterable[_Box]) -> bool:
        """True if all others are in earlier stages."""
        return all(other is self or other.stage < self.stage for other in boxes)


class _Planner:
    """Places one group of operators after the other, in topological order. `strangers`: kept apart."""

    def __init__(
        self,
        parts: _Parts,
        entering: Mapping[str, Sequence[Edge]],
        strangers: Mapping[str, Collection[str]],
    ) -> None:
        self.parts, self.entering, self.strangers = parts, entering, strangers
        self.home: dict[int, _Box] = {}
        self.boxes: list[_Box] = []

    def place(self, group: Sequence[str]) -> None:
        """Put the partitions of a group, and the unifiers before and behind them, into containers."""
        parts = self.parts
        operators = [parts.partitions[name] for name in group]
        for partition, ids in enumerate(zip(*operators, strict=True)):
            unit = [
                one for own in ids for one in (*parts.finals.get(own, ()), own, *parts.sliders.get(own, ()))
            ]
            waits = [self.home[one] for own in unit for one in parts.before.get(own, ()) if one not in unit]
            self.fill(self.fusable(group, partition, waits) or self.new(waits), unit)
        for name in group:
            for unifier in parts.merging.get(name, ()):
                self.fill(self.new([self.home[source] for source in parts.before[unifier]]), [unifier])

    def fusable(self, group: Sequence[str], partition: int, waits: Sequence[_Box]) -> _Box | None:
        """The upstream container that a partition of a group may run in; None if there is none.

        There is never more than one: all others are in earlier stages.
        """
        partitions = self.parts.partitions
        entering = [
            edge for name in group for edge in self.entering.get(name, ()) if edge.source.name not in group
        ]
        apart = {
            id(self.home[one]) for edge in entering if edge.apart for one in partitions[edge.source.name]
        }
        for edge in entering:
            if not edge.apart and edge.one_to_one:
                box = self.home[partitions[edge.source.name][partition]]
                if id(box) not in apart and box.is_last_of(waits) and not self.refused(group, box):
                    return box
        return None

    def refused(self, group: Sequence[str], box: _Box) -> bool:
        """True if a rule wants an operator of a group apart from one that is in a container."""
        there = {self.parts.names.get(one, "") for one in box.operators}
        return any(not there.isdisjoint(self.strangers.get(name, ())) for name in group)

    def new(self, waits: Sequence[_Box]) -> _Box:
        """Create an empty container, in the first stage after those that it waits for."""
        box = _Box(1 + max((other.stage for other in waits), default=-1))
        self.boxes.append(box)
        return box

    def fill(self, box: _Box, identities: Sequence[int]) -> None:
        """Put physical operators into a container."""
        box.operators.extend(identities)
        for identity in identities:
            self.home[identity] = box

    def plan(self, first_id: int) -> ExecutionPlan:
        """The finished plan: stages in order, their containers by first operator, operators by id."""
        ordered = sorted(self.boxes, key=lambda box: (box.stage, min(box.operators)))
        return ExecutionPlan(
            tuple(
                Container(number, box.stage, tuple(sorted(box.operators)))
                for number, box in enumerate(ordered, first_id)
            )
        )
