"""The logical plan: a validated application as frozen data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ridgeline.api.attributes import Locality
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import InputOperator, Operator, operator_type
from ridgeline.api.partitioner import Partition
from ridgeline.api.policy import Policy, Promise, StatsListener
from ridgeline.plan.region import PortRef, Region

if TYPE_CHECKING:
    from ridgeline.api.application import Application
    from ridgeline.plan.edits import Given
    from ridgeline.plan.graph import Part, Sink
    from ridgeline.plan.placement_rule import PlacementRule


@dataclass(frozen=True, slots=True)
class LogicalOperator:
    """An operator with validated properties, all attributes, and the schemas of its connected ports."""

    name: str
    operator: Operator
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Schema]
    outputs: Mapping[str, Schema]
    ports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """All attributes of each port, connected or not."""
    unifier_attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """All attributes of the unifiers of each output port."""
    divided: tuple[Partition, ...] = ()
    """The share of each of its partitions."""

    @property
    def is_input(self) -> bool:
        """True if it is an input operator."""
        return isinstance(self.operator, InputOperator)

    @property
    def followed(self) -> list[str]:
        """The connected input ports at which every partition follows one partition upstream."""
        return parallel_ports(self.operator, self.ports, self.inputs)


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

    def operator(self, name: str) -> LogicalOperator:
        """The operator with this name. Raises KeyError."""
        for operator in self.operators:
            if operator.name == name:
                return operator
        raise KeyError(name)


def parallel_ports(
    operator: Operator, ports: Mapping[str, Mapping[str, Any]], connected: Collection[str]
) -> list[str]:
    """The connected input ports that are parallel. `ports`: the attributes of the operator's ports."""
    inputs = operator_type(type(operator)).inputs
    return [name for name in inputs if name in connected and ports[name]["partition_parallel"]]


def module_of(name: str) -> str:
    """The full name of the module that an operator, a stream or a module is in; "" if in none.

    >>> module_of("clean.cheap"), module_of("source")
    ('clean', '')
    """
    return name.rpartition(".")[0]


def locality_name(locality: Locality | None) -> str | None:
    """The name as plain text, None for none."""
    return locality.name if locality is not None else None
