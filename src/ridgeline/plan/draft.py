"""An application during validation: what is read of it so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import Fault, Faults
from ridgeline.api.operator import InputOperator, Operator, OperatorType, operator_type
from ridgeline.api.partitioner import Partition
from ridgeline.api.policy import StatsListener
from ridgeline.plan.graph import Graph, Stream
from ridgeline.plan.graphs import topological_order
from ridgeline.plan.logical import parallel_ports
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.plan.region import PortRef, Region


class End(NamedTuple):
    """One end of a stream: a port of an operator of the application."""

    operator: DraftOperator
    port: str

    def __str__(self) -> str:
        return self.operator.port(self.port)


@dataclass(slots=True, eq=False)
class DraftOperator:
    """An operator under validation; `operator` is a copy of the author's instance.

    `touched`: its connected ports. `entered`: the connected input ports, each with where its tuples come
    from; None if a fault hides that. `doubtful`: attributes with faulty values. `given`: attributes that the
    author or the command line set. `ports`: the attributes of all ports; `unifiers`: those of unifiers, by
    output port. `exempt`: ports that need no stream, since a module's port stands for them.
    """

    name: str
    operator: Operator
    attributes: dict[str, Any] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    unifiers: dict[str, dict[str, Any]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    entered: dict[str, End | None] = field(default_factory=dict)
    exempt: Collection[str] = ()
    sound: bool = True
    """Its properties have no fault."""
    unread: str = ""
    """The remedy if nothing reads its output; "": that of any operator."""
    inputs: dict[str, Schema] = field(default_factory=dict)
    outputs: dict[str, Schema] = field(default_factory=dict)
    partitions: int | None = None
    """How many partitions it will have; None while that is not known."""
    divided: tuple[Partition, ...] = ()

    @property
    def declared(self) -> OperatorType:
        """The declarations of its class."""
        return operator_type(type(self.operator))

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.operator).__name__

    @property
    def is_input(self) -> bool:
        """True if it is an input operator."""
        return isinstance(self.operator, InputOperator)

    @property
    def connected(self) -> list[str]:
        """Its connected input ports, as declared."""
        return [name for name in self.declared.inputs if name in self.touched]

    @property
    def followed(self) -> list[str]:
        """The connected input ports at which every partition follows one partition upstream."""
        return parallel_ports(self.operator, self.ports, self.touched)

    @property
    def may_leave_out(self) -> bool:
        """True if `on_error=SKIP` can leave something out: tuples that come in, or records that it reads."""
        return not isinstance(self.operator, InputOperator) or self.operator.leaves_out_records

    def port(self, name: str) -> str:
        """A port as errors name it."""
        return f"{self.name}.{name}"


@dataclass(slots=True, eq=False)
class Draft:
    """The application, as far as it is understood: later steps use what is read, and may change it."""

    graph: Graph
    window_seconds: float = 0.0
    attributes: dict[str, Any] = field(default_factory=dict)
    owners: dict[str, DraftOperator] = field(default_factory=dict)
    """The operators by name."""
    streams: dict[str, Stream] = field(default_factory=dict)
    """Those of the graph with sound values, and those of dead letters. Several may lead to one port there."""
    affinity: list[PlacementRule] = field(default_factory=list)
    given_up: list[tuple[PlacementRule, str]] = field(default_factory=list)
    """Relaxed rules that cannot be kept, each with the reason."""
    listeners: Mapping[str, tuple[StatsListener | Operator, ...]] = field(default_factory=dict)
    """By operator, which may listen to itself."""
    regions: tuple[Region, ...] = ()
    """The parts that decoupled streams make; none if all is one."""
    groups: tuple[tuple[str, ...], ...] = ()
    """The operators that share containers, in topological order; none if faults hide it."""

    @property
    def operators(self) -> Collection[DraftOperator]:
        """The operators, in the order of adding."""
        return self.owners.values()

    def end(self, ref: PortRef) -> End:
        """A port that is named."""
        return End(self.owners[ref.operator], ref.port)

    def put(self, stream: Stream) -> None:
        """Add a stream, whose ends are connected then."""
        self.streams[stream.name] = stream
        source = None if stream.source is None else self.end(stream.source)
        if source is not None:
            source.operator.touched.add(source.port)
        for operator, port in map(self.end, stream.sinks):
            operator.touched.add(port)
            operator.entered.setdefault(port, source)

    def edges(self) -> Iterator[tuple[Stream, End, End]]:
        """Every (stream, source, sink) with two valid ends."""
        for stream in self.streams.values():
            if stream.source is not None:
                for sink in stream.sinks:
                    yield stream, self.end(stream.source), self.end(sink)

    def pairs(self) -> list[tuple[str, str]]:
        """The edges as pairs of names."""
        return [(source.operator.name, sink.operator.name) for _, source, sink in self.edges()]

    def ordered(self) -> list[DraftOperator]:
        """The operators in topological order. Those on or behind a cycle come last, as they were added."""
        order = topological_order(self.owners, self.pairs())
        return [self.owners[name] for name in dict.fromkeys((*order, *self.owners))]


def with_origins(faults: Sequence[Fault], origins: Mapping[str, str]) -> Faults:
    """Faults, each with the file of what it is about. `origins`: as `Application.origins`.

    >>> fault = Fault("totals.limit", "is 5", "give 6")
    >>> [found.what for found in with_origins([fault], {"operators.totals": "common.yaml"})]
    ['is 5 (in `common.yaml`)']
    """
    files: dict[str, str] = {}
    for part, file in origins.items():
        files[part.partition(".")[2] or part] = files[part] = file
    found = Faults()
    for fault in faults:
        inside = [part for part in files if _is_in(fault.where, part)]
        file = files[max(inside, key=len)] if inside else ""
        found.append(replace(fault, what=f"{fault.what} (in `{file}`)") if file else fault)
    return found


def _is_in(where: str, part: str) -> bool:
    return where == part or where.startswith((f"{part}.", f"{part} "))


def free_name(name: str, used: Collection[str]) -> str:
    """A name, with lines behind it until it is none of those that are used."""
    while name in used:
        name += "_"
    return name
