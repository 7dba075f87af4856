"""Build the physical plan from the logical one: partitions, unifiers, routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ridgeline.api.attributes import OnError, RecordingLevel
from ridgeline.api.codec import StreamCodec
from ridgeline.api.columns.combined import Combiner, Combines
from ridgeline.api.operator import Operator, operator_type, port_schema
from ridgeline.api.partitioner import Partition, PartitionKeys
from ridgeline.plan.build.key_agreement import determines, key_of
from ridgeline.plan.build.port_attributes import attributes_of_unifier
from ridgeline.plan.build.unifiers import cascade, make_unifier, merges_by_key, unifier_ports
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, LogicalStream
from ridgeline.plan.physical import (
    Encoding,
    OwnKeys,
    PhysicalOperator,
    PhysicalPlan,
    PhysicalStream,
    RoundRobin,
    Share,
)


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


class _Way(NamedTuple):
    """How tuples go from a source to a port: as of `PhysicalStream`."""

    route: Share = None
    codec: StreamCodec | None = None
    encoding: Encoding | None = None
    combiner: Combiner | None = None


@dataclass(slots=True)
class _Output:
    """A connected output port of a logical operator.

    `partitions`: its sources; `heads`: the sources that are left after intermediate unifiers; `merged`: one
    source of all tuples, if some sink needs it. `unifiers`: how many unifiers it gets, of which
    `unifiers_made` exist.
    """

    operator: LogicalOperator
    port: str
    stream: LogicalStream
    partitions: list[_Head] = field(default_factory=list)
    heads: list[_Head] = field(default_factory=list)
    merged: _Head | None = None
    unifiers: int = 0
    unifiers_made: int = 0


_STRAIGHT = _Way()


class _Builder:
    """Adds one logical operator after the other, in topological order."""

    def __init__(self, logical: LogicalPlan) -> None:
        """Index the streams by their ports."""
        self.operators: list[PhysicalOperator] = []
        self.first_id = logical.first_id + 1
        self.streams: list[PhysicalStream] = []
        self.codec: StreamCodec | None = logical.attributes["stream_codec"]
        self.traces = logical.attributes["metrics_recording_level"] is RecordingLevel.TRACE
        self.outputs: dict[str, list[_Output]] = {}
        self.entering: dict[tuple[str, str], list[_Output]] = {}
        """By sink. Several streams end at one sink only if they are of dead letters."""
        self.by_name = by_name = {operator.name: operator for operator in logical.operators}
        for stream in logical.streams:
            output = _Output(by_name[stream.source.operator], stream.source.port, stream)
            self.outputs.setdefault(stream.source.operator, []).append(output)
            for sink in stream.sinks:
                self.entering.setdefault((sink.operator, sink.port), []).append(output)
        self.followed = {operator.name: operator.followed for operator in logical.operators}

    def add(self, operator: LogicalOperator) -> None:
        """Add an operator's partitions, with final unifiers before and intermediate unifiers behind them."""
        divided, count = operator.divided, len(operator.divided)
        ports = [port for port in operator_type(type(operator.operator)).inputs if port in operator.inputs]
        entering = [(port, output) for port in ports for output in self.entering[operator.name, port]]
        sources = [(port, output, self.unify(output, operator, port, divided)) for port, output in entering]
        for partition, part in enumerate(divided):
            identity = self.make(operator, partition, count, part)
            for port, output, heads in sources:
                head, way = heads[partition]
                self.join(output.stream, head, identity, port, way)
            for output in self.outputs.get(operator.name, []):
                head = _Head(identity, output.port)
                output.partitions.append(self.slider(output, head, partition) if _slides(output) else head)
        for output in self.outputs.get(operator.name, []):
            self.cascade(output)  # once all partitions are there, which it merges

    def unify(
        self, output: _Output, operator: LogicalOperator, port: str, divided: tuple[Partition, ...]
    ) -> list[tuple[_Head, _Way]]:
        """Return, for each partition, the source that comes to a port, and its way.

        Adds a final unifier before each partition if the output has several sources.
        """
        encoding = self.encoding(output, operator, port)
        if port in self.followed[operator.name]:
            return [(head, _Way(encoding=encoding)) for head in output.partitions]
        codec = operator_type(type(operator.operator)).inputs[port].codec
        one = output.merged or (output.heads[0] if len(output.heads) == 1 else None)
        if len(divided) > 1 and self.merges_apart(output, operator, port):
            one = one if len(output.heads) == 1 else None
        combiner = self.combiner(output, operator, port)
        sources: list[tuple[_Head, _Way]] = []
        for partition, part in enumerate(divided):
            route = _route(part, port, partition, len(divided))
            hashed = codec if isinstance(route, PartitionKeys) else None
            way = _Way(route, hashed, encoding, combiner)
            if one is not None:
                sources.append((one, way))
                continue
            head = self.unifier(output, output.heads, way)
            checked = OwnKeys(route) if isinstance(route, PartitionKeys) and _by_author(output) else None
            sources.append((head, _Way(checked, hashed if checked else None, encoding)))
        return sources

    def cascade(self, output: _Output) -> None:
        """Add the intermediate unifiers of an output port, if a sink needs its partitions merged.

        A unifier that passes tuples on is added before each partition of a sink and gets that partition's
        tuples only. So is one of the author's with the key by which the sink is divided. Any other must see
        all tuples, else it would merge parts: one unifier merges for the sink, and its output is divided.
        """
        count = len(output.partitions)
        sinks = [
            (self.by_name[sink.operator], sink.port)
            for sink in output.stream.sinks
            if sink.port not in self.followed[sink.operator]
        ]
        output.heads = list(output.partitions)
        if count == 1 or not sinks:
            return
        levels = cascade(count, output.operator.ports[output.port]["unifier_limit"])
        left = len(levels[-1]) if levels else count
        apart = [
            len(sink.divided)
            for sink, port in sinks
            if len(sink.divided) == 1 or self.merges_apart(output, sink, port)
        ]
        once = left > 1 and len(apart) < len(sinks)
        finals = [partitions for partitions in apart if partitions > 1 or not once]
        output.unifiers = sum(size > 1 for level in levels for size in level) + once
        output.unifiers += sum(finals) if left > 1 else 0
        encodings = [self.encoding(output, sink, port) for sink, port in sinks]
        alike = all(_alike(one, encodings[0]) for one in encodings)
        shared = _Way(encoding=encodings[0] if alike else None)
        for level in levels:
            merged = []
            for size in level:
                group, output.heads = output.heads[:size], output.heads[size:]
                merged.append(self.unifier(output, group, shared) if size > 1 else group[0])
            output.heads = merged
        if once:
            output.merged = self.unifier(output, output.heads, shared)

    def merges_apart(self, output: _Output, sink: LogicalOperator, port: str) -> bool:
        """True if a unifier may stand before each partition of a sink, with that partition's tuples only."""
        wanted = sink.ports[port]["unifier_single_final"]
        if wanted or (wanted is None and output.operator.ports[output.port]["unifier_single_final"]):
            return False
        if not _by_author(output):
            return True
        found = merges_by_key(output.operator.operator, output.port)
        if found is None or not all(port in part.keys for part in sink.divided):
            return False
        codec = operator_type(type(sink.operator)).inputs[port].codec
        schema = output.stream.schema
        return determines(key_of(found[1], schema), key_of(codec, schema))

    def slider(self, output: _Output, head: _Head, partition: int) -> _Head:
        """Add what merges the slides of one partition; return it as a source."""
        unifier = make_unifier(output.operator.operator, output.port, slides=True)
        made = self.merger(output, unifier, partition, len(output.operator.divided), slider=True)
        self.join(output.stream, head, made.id, unifier_ports(unifier)[0])
        return made

    def unifier(self, output: _Output, heads: list[_Head], way: _Way) -> _Head:
        """Add one unifier for some sources of an output port; return it as a source."""
        unifier = make_unifier(output.operator.operator, output.port)
        made = self.merger(output, unifier, output.unifiers_made, output.unifiers)
        output.unifiers_made += 1
        for head in heads:
            self.join(output.stream, head, made.id, unifier_ports(unifier)[0], way)
        return made

    def merger(
        self, output: _Output, unifier: Operator, partition: int, partitions: int, *, slider: bool = False
    ) -> _Head:
        """Add a unifier or a slider, without what leads to it; return it as a source."""
        entry, leaving = unifier_ports(unifier)
        schema, owner = output.stream.schema, output.operator
        attributes = attributes_of_unifier(owner.attributes, owner.unifiers[output.port])
        slide = owner.attributes["slide_by_window_count"]
        if slider:
            attributes["application_window_count"] = slide
        whole = attributes["application_window_count"] == slide and _slides(output)
        identity = self.append(
            name=owner.name,
            partition=partition,
            partitions=partitions,
            unifier=True,
            port=output.port,
            operator=unifier,
            attributes=attributes,
            inputs={entry: port_schema(unifier, entry) or schema},
            outputs={leaving: port_schema(unifier, leaving) or schema},
            slides=owner.attributes["application_window_count"] // slide if whole else 0,
            slider=slider,
        )
        return _Head(identity, leaving)

    def make(self, operator: LogicalOperator, partition: int, count: int, part: Partition) -> int:
        """Add one partition of an operator; return its id."""
        return self.append(
            name=operator.name,
            partition=partition,
            partitions=count,
            operator=operator.operator,
            attributes=operator.attributes,
            inputs=operator.inputs,
            outputs=operator.outputs,
            keys=part.keys,
            round_robin=part.round_robin,
            ports=operator.ports,
        )

    def append(self, **fields: Any) -> int:
        """Add a physical operator with these fields; return its id."""
        identity = self.first_id + len(self.operators)
        self.operators.append(PhysicalOperator(id=identity, **fields))
        return identity

    def encoding(self, output: _Output, sink: LogicalOperator, port: str) -> Encoding | None:
        """How tuples are serialised on their way to an input port; None for Arrow."""
        declared = operator_type(type(sink.operator)).inputs[port].serialiser
        codec = sink.ports[port]["stream_codec"] or declared or self.codec
        if codec is None:
            return None
        where = f"port `{port}` of operator `{sink.name}` (stream `{output.stream.name}`)"
        return Encoding(codec, sink.inputs[port], where)

    def combiner(self, output: _Output, sink: LogicalOperator, port: str) -> Combiner | None:
        """The combiner of an output's tuples for a sink; None if it gets them as they are.

        It does so where each tuple counts. An author's unifier or codec sees each, the age of each is taken,
        or tuples on which the sink fails are left out.
        """
        operator = sink.operator
        if not isinstance(operator, Combines) or _by_author(output) or self.traces:
            return None
        if sink.attributes["on_error"] is OnError.SKIP or self.encoding(output, sink, port) is not None:
            return None
        return operator.combiner(sink.outputs)

    def join(self, stream: LogicalStream, head: _Head, sink: int, port: str, way: _Way = _STRAIGHT) -> None:
        """Add one physical stream."""
        schema = self.operators[head.id - self.first_id].outputs[head.port]
        self.streams.append(PhysicalStream(stream.name, head.id, head.port, sink, port, schema, *way))


def _alike(one: Encoding | None, other: Encoding | None) -> bool:
    """True if tuples for two ports are serialised in the same way."""
    if one is None or other is None:
        return one is other
    return one.codec is other.codec and one.schema.type is other.schema.type


def _slides(output: _Output) -> bool:
    """True if the results on the port are those of sliding application windows; errors never are."""
    declared = operator_type(type(output.operator.operator)).outputs.get(output.port)
    slides = output.operator.attributes["slide_by_window_count"] is not None
    return slides and declared is not None and not declared.error


def _by_author(output: _Output) -> bool:
    """True if the port declares a unifier."""
    return output.operator.operator.unifier_of(output.port) is not None


def _route(part: Partition, port: str, partition: int, count: int) -> PartitionKeys | RoundRobin | None:
    if count == 1:
        return None
    if port in part.keys:
        return part.keys[port]
    return RoundRobin(partition, count) if port in part.round_robin else None
