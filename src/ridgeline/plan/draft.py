"""An application during validation: what is read of it so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ridgeline.api.errors import Fault, Faults
from ridgeline.api.operator import Operator
from ridgeline.api.policy import StatsListener
from ridgeline.plan.graph import Graph, Stream
from ridgeline.plan.graphs import topological_order
from ridgeline.plan.logical import Edge, End, LogicalOperator, edges_of
from ridgeline.plan.placement_rule import PlacementRule
from ridgeline.plan.region import PortRef, Region


@dataclass(slots=True, eq=False)
class Draft:
    """The application, as far as it is understood: later steps use what is read, and may change it."""

    graph: Graph
    window_seconds: float = 0.0
    attributes: dict[str, Any] = field(default_factory=dict)
    owners: dict[str, LogicalOperator] = field(default_factory=dict)
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
    def operators(self) -> Collection[LogicalOperator]:
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

    @property
    def edges(self) -> list[Edge]:
        """The streams to each of their sinks, where both ends are valid."""
        return edges_of(self.streams.values(), self.owners)

    def pairs(self) -> list[tuple[str, str]]:
        """The edges as pairs of names."""
        return [(edge.source.name, edge.sink.name) for edge in self.edges]

    def ordered(self) -> list[LogicalOperator]:
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
