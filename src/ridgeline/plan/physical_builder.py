"""Build the physical plan from the logical one: partitions, unifiers, routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.codec import StreamCodec
from ridgeline.api.operator import operator_type, port_schema
from ridgeline.api.partitioner import Partition, PartitionKeys
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, LogicalStream
from ridgeline.plan.partitioning import define_partitions, parallel_ports
from ridgeline.plan.physical import PhysicalOperator, PhysicalPlan, PhysicalStream, RoundRobin
from ridgeline.plan.port_attributes import attributes_of_unifier
from ridgeline.plan.unifiers import cascade, make_unifier, unifier_ports


def build_physical(logical: LogicalPlan) -> PhysicalPlan:
    """Build the physical plan of a valid logical plan. Equal plans get equal ids."""
    builder = _Builder(logical)
    for operator in logical.operators:
        builder.add(operator)
    return PhysicalPlan(tuple(builder.operators), tuple(builder.streams))


@dataclass(slots=True)
class _Head:
    """A source of an output port's tuples: a partition, or a unifier of several."""

    id: int
    port: str


@dataclass(slots=True)
class _Output:
    """A connected output port of a logical operator.

    `partitions`: its sources; `heads`: the sources that are left after intermediate unifiers; `unifiers`: how
    many unifiers it gets, of which `unifiers_made` exist.
    """

    operator: LogicalOperator
    port: str
    stream: LogicalStream
    partitions: list[_Head] = field(default_factory=list)
    heads: list[_Head] = field(default_factory=list)
    unifiers: int = 0
    unifiers_made: int = 0


class _Builder:
    """Adds one logical operator after the other, in topological order."""

    def __init__(self, logical: LogicalPlan) -> None:
        """Index the streams by their ports and count the partitions of each operator."""
        self.operators: list[PhysicalOperator] = []
        self.streams: list[PhysicalStream] = []
        self.outputs: dict[str, list[_Output]] = {}
        self.entering: dict[tuple[str, str], _Output] = {}
        self.counts: dict[str, int] = {}
        by_name = {operator.name: operator for operator in logical.operators}
        for stream in logical.streams:
            output = _Output(by_name[stream.source.operator], stream.source.port, stream)
            self.outputs.setdefault(stream.source.operator, []).append(output)
            for sink in stream.sinks:
                self.entering[sink.operator, sink.port] = output
        self.followed = {
            op.name: parallel_ports(op.operator, op.ports, op.inputs) for op in logical.operators
        }
        for operator in logical.operators:
            upstream = [
                self.entering[operator.name, port].operator.name for port in self.followed[operator.name]
            ]
            self.counts[operator.name] = (
                self.counts[upstream[0]] if upstream else int(operator.attributes["partitions"])
            )

    def add(self, operator: LogicalOperator) -> None:
        """Add an operator's partitions, with final unifiers before and intermediate unifiers behind them."""
        count = self.counts[operator.name]
        divided = define_partitions(
            operator.operator, operator.attributes, count, operator.inputs, self.followed[operator.name]
        )
        ports = [port for port in operator_type(type(operator.operator)).inputs if port in operator.inputs]
        sources = {port: self.unify(operator, port, divided) for port in ports}
        for partition, part in enumerate(divided):
            identity = self.make(operator, partition, count, part)
            for port in ports:
                for head, route, codec in sources[port][partition]:
                    self.join(self.entering[operator.name, port].stream, head, identity, port, route, codec)
            for output in self.outputs.get(operator.name, []):
                output.partitions.append(_Head(identity, output.port))
        for output in self.outputs.get(operator.name, []):
            self.cascade(output)

    def unify(
        self, operator: LogicalOperator, port: str, divided: tuple[Partition, ...]
    ) -> list[list[tuple[_Head, Any, Any]]]:
        """Return, for each partition, the sources of the port with route and codec.

        Adds a final unifier before each partition if the port has several sources.
        """
        output = self.entering[operator.name, port]
        if port in self.followed[operator.name]:
            return [[(head, None, None)] for head in output.partitions]
        codec = operator_type(type(operator.operator)).inputs[port].codec
        sources: list[list[tuple[_Head, Any, object]]] = []
        for partition, part in enumerate(divided):
            route = _route(part, port, partition, len(divided))
            hashed = codec if isinstance(route, PartitionKeys) else None
            if len(output.heads) == 1:
                sources.append([(output.heads[0], route, hashed)])
            else:
                sources.append([(self.unifier(output, output.heads, route, hashed), None, None)])
        return sources

    def cascade(self, output: _Output) -> None:
        """Add the intermediate unifiers of an output port, if a sink needs its partitions merged.

        A pass-through unifier is added before each partition of the sink and gets that partition's tuples
        only. A unifier of the author's must see all tuples, else it would merge parts. If a sink has
        partitions, one unifier merges for all sinks, and its output is divided.
        """
        count = len(output.partitions)
        sinks = [
            self.counts[sink.operator]
            for sink in output.stream.sinks
            if sink.port not in self.followed[sink.operator]
        ]
        output.heads = list(output.partitions)
        if count == 1 or not sinks:
            return
        levels = cascade(count, output.operator.ports[output.port]["unifier_limit"])
        finals = sum(sinks)
        if max(sinks) > 1 and not self.passes_on(output):
            levels.append([len(levels[-1]) if levels else count])
            finals = 0
        output.unifiers = finals + sum(size > 1 for level in levels for size in level)
        for level in levels:
            merged = []
            for size in level:
                group, output.heads = output.heads[:size], output.heads[size:]
                merged.append(self.unifier(output, group, None, None) if size > 1 else group[0])
            output.heads = merged

    def passes_on(self, output: _Output) -> bool:
        """True if the port declares no unifier."""
        return output.operator.operator.unifier_of(output.port) is None

    def unifier(
        self,
        output: _Output,
        heads: list[_Head],
        route: PartitionKeys | RoundRobin | None,
        codec: StreamCodec | None,
    ) -> _Head:
        """Add one unifier for some sources of an output port; return it as a source."""
        prototype = make_unifier(output.operator.operator, output.port)
        entry, leaving = unifier_ports(prototype)
        identity = len(self.operators) + 1
        schema = output.stream.schema
        self.operators.append(
            PhysicalOperator(
                id=identity,
                name=output.operator.name,
                partition=output.unifiers_made,
                partitions=output.unifiers,
                unifier=True,
                port=output.port,
                operator=prototype,
                attributes=attributes_of_unifier(
                    output.operator.attributes, output.operator.unifier_attributes[output.port]
                ),
                inputs={entry: port_schema(prototype, entry) or schema},
                outputs={leaving: port_schema(prototype, leaving) or schema},
                keys={},
                round_robin=frozenset(),
            )
        )
        output.unifiers_made += 1
        for head in heads:
            self.join(output.stream, head, identity, entry, route, codec)
        return _Head(identity, leaving)

    def make(self, operator: LogicalOperator, partition: int, count: int, part: Partition) -> int:
        """Add one partition of an operator; return its id."""
        identity = len(self.operators) + 1
        self.operators.append(
            PhysicalOperator(
                id=identity,
                name=operator.name,
                partition=partition,
                partitions=count,
                unifier=False,
                port=None,
                operator=operator.operator,
                attributes=operator.attributes,
                inputs=operator.inputs,
                outputs=operator.outputs,
                keys=part.keys,
                round_robin=part.round_robin,
            )
        )
        return identity

    def join(
        self,
        stream: LogicalStream,
        head: _Head,
        sink: int,
        port: str,
        route: PartitionKeys | RoundRobin | None,
        codec: StreamCodec | None,
    ) -> None:
        """Add one physical stream."""
        schema = self.operators[head.id - 1].outputs[head.port]
        self.streams.append(PhysicalStream(stream.name, head.id, head.port, sink, port, schema, route, codec))


def _route(part: Partition, port: str, partition: int, count: int) -> PartitionKeys | RoundRobin | None:
    if count == 1:
        return None
    if port in part.keys:
        return part.keys[port]
    return RoundRobin(partition, count) if port in part.round_robin else None
