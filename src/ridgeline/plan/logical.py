"""The logical plan: a validated application as data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ridgeline.api.attributes import Locality
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import InputOperator, Operator, OperatorType, operator_type
from ridgeline.api.partitioner import Partition
from ridgeline.api.policy import Policy, Promise, StatsListener
from ridgeline.plan.region import PortRef, Region

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.plan.edits import Given
    from ridgeline.plan.graph import Part, Sink, Stream
    from ridgeline.plan.placement_rule import PlacementRule


class End(NamedTuple):
    """One end of a stream: a port of an operator of the application."""

    operator: LogicalOperator
    port: str

    def __str__(self) -> str:
        return self.operator.port(self.port)


@dataclass(slots=True, eq=False)
class LogicalOperator:
    """An operator. Validation fills it, step after step; in a plan nothing changes it any more.

    `operator`: a copy of the author's instance. `inputs`, `outputs`: the schemas of its ports; in a plan of
    the connected ones. `ports`: all attributes of all ports; `unifiers`: those of unifiers, by output port.
    `divided`: the share of each of its partitions. `partitions`: how many it has; None while that is not
    known.

    What validation knows of it beside: `given`: attributes that the author or the command line set.
    `doubtful`: those with faulty values. `touched`: its connected ports. `entered`: the connected input
    ports, each with where its tuples come from; None if a fault hides that. `sound`: its properties have no
    fault.
    """

    name: str
    operator: Operator
    attributes: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Schema] = field(default_factory=dict)
    outputs: dict[str, Schema] = field(default_factory=dict)
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    unifiers: dict[str, dict[str, Any]] = field(default_factory=dict)
    divided: tuple[Partition, ...] = ()
    partitions: int | None = None
    given: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    # not shown: each operator would show all those before it, once for every way to it
    entered: dict[str, End | None] = field(default_factory=dict, repr=False)
    sound: bool = True

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
        return [name for name in self.connected if self.ports[name]["partition_parallel"]]

    @property
    def may_leave_out(self) -> bool:
        """True if `on_error=SKIP` can leave something out: tuples that come in, or records that it reads."""
        return not isinstance(self.operator, InputOperator) or self.operator.leaves_out_records

    def port(self, name: str) -> str:
        """A port as errors name it."""
        return f"{self.name}.{name}"


class Edge(NamedTuple):
    """A stream to one sink: to the port `port` of the operator `sink`."""

    stream: str
    source: LogicalOperator
    sink: LogicalOperator
    port: str
    locality: Locality | None

    @property
    def together(self) -> bool:
        """True if both ends must be in one container."""
        return self.locality is not None and self.locality.together

    @property
    def apart(self) -> bool:
        """True if the ends must be in separate containers."""
        return self.locality is not None and not self.locality.together

    @property
    def title(self) -> str:
        """The stream as errors name what puts operators together."""
        return f"stream `{self.stream}` ({self.locality})"

    @property
    def is_known(self) -> bool:
        """True unless a fault hides a number of partitions: it is reported instead."""
        return None not in (self.source.partitions, self.sink.partitions)

    @property
    def one_to_one(self) -> bool:
        """True if each partition of the sink gets its tuples from one of the source."""
        counts = {self.source.partitions, self.sink.partitions}
        return len(counts) == 1 and (counts == {1} or self.port in self.sink.followed)

    def is_inside(self, names: Collection[str]) -> bool:
        """True if both ends are among these operators."""
        return self.source.name in names and self.sink.name in names


def edges_of(
    streams: Iterable[Stream | LogicalStream], operators: Mapping[str, LogicalOperator]
) -> list[Edge]:
    """The edges of streams with two ends. `operators`: by name."""
    return [
        Edge(stream.name, operators[stream.source.operator], operators[end.operator], end.port, sink.locality)
        for stream in streams
        if stream.source is not None
        for end, sink in stream.sinks.items()
    ]


@dataclass(frozen=True, slots=True)
class LogicalStream:
    """One output port joined to one or more input ports.

    `sinks`: in order, each with what is said of it alone.
    """

    name: str
    source: PortRef
    sinks: Mapping[PortRef, Sink]
    schema: Schema

    @property
    def persisted(self) -> tuple[PortRef, ...]:
        """The sinks that only write the stream down."""
        return tuple(end for end, one in self.sinks.items() if one.persisted)

    @property
    def locality(self) -> Locality | None:
        """That of all sinks, but for those that only write it down; None if there is none or they differ."""
        found: set[Locality | None] = {one.locality for one in self.sinks.values() if not one.persisted}
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class LogicalPlan:
    """A valid application.

    Operators are in topological order (ties in the order of adding), streams in the order of adding.
    """

    application: str
    window_seconds: float
    attributes: Mapping[str, Any]
    operators: tuple[LogicalOperator, ...]
    streams: tuple[LogicalStream, ...]
    modules: tuple[Part, ...] = ()
    """Each after the one that it is in; its operators are those whose names begin with its own and a dot."""
    groups: tuple[tuple[str, ...], ...] = field(kw_only=True, compare=False)
    """The operators that share containers, in topological order."""
    affinity: tuple[PlacementRule, ...] = ()
    """The affinity rules that are kept, strict ones first."""
    given_up: tuple[tuple[PlacementRule, str], ...] = ()
    """Relaxed rules that cannot be kept, each with the reason."""
    listeners: Mapping[str, tuple[StatsListener | Operator, ...]] = field(default_factory=dict)
    """Who listens to the figures of an operator, by its name."""
    policies: tuple[Policy, ...] = ()
    promises: tuple[Promise, ...] = ()
    regions: tuple[Region, ...] = ()
    """The parts that decoupled streams make, in topological order; none if all is one."""
    region: str = ""
    """The region that this is, of an application that has several."""
    first_id: int = 0
    """Ids of its operators, containers and changes are not below this, so that no other region has them."""
    source: tuple[Application, Given] | None = field(default=None, compare=False, repr=False)
    """The application that it was made of, with the values and edits from outside."""

    @property
    def speculates(self) -> bool:
        """Whether a slot that is late with any operator gives way to a spare one."""
        return any(one.attributes["speculation"] is not None for one in self.operators)

    @property
    def edges(self) -> list[Edge]:
        """The streams to each of their sinks."""
        return edges_of(self.streams, {one.name: one for one in self.operators})

    def operator(self, name: str) -> LogicalOperator:
        """The operator with this name. Raises KeyError."""
        for operator in self.operators:
            if operator.name == name:
                return operator
        raise KeyError(name)


def module_of(name: str) -> str:
    """The full name of the module that an operator, a stream or a module is in; "" if in none.

    >>> module_of("clean.cheap"), module_of("source")
    ('clean', '')
    """
    return name.rpartition(".")[0]


def locality_name(locality: Locality | None) -> str | None:
    """The name as plain text, None for none."""
    return locality.name if locality is not None else None
