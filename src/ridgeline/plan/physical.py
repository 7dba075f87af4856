"""The physical plan: partitions and unifiers as operators with ids, and the streams between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ridgeline.api.codec import StreamCodec
from ridgeline.api.columns.combined import Combiner
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import Operator
from ridgeline.api.partitioner import PartitionKeys


@dataclass(frozen=True, slots=True)
class PhysicalOperator:
    """One partition of a logical operator, or one unifier.

    `id` is its own in a run. A change gives ids that no plan before had, so ids are neither dense
    nor in topological order (`ridgeline.plan.change.succession`). `name` is the logical name; for a unifier
    that of the operator whose output `port` it merges. `partition` counts from 0 to `partitions` - 1, for a
    unifier over all unifiers of the port. `operator` is the prototype: a container makes a copy of it.
    `keys`: the ports divided by key; `round_robin`: those divided round robin.
    """

    id: int
    name: str
    partition: int
    partitions: int
    operator: Operator
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Schema]
    outputs: Mapping[str, Schema]
    unifier: bool = False
    port: str | None = None
    keys: Mapping[str, PartitionKeys] = field(default_factory=dict)
    round_robin: frozenset[str] = frozenset()
    ports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The attributes of its ports; none of a unifier's."""
    slides: int = 0
    """How many slides an application window has, of a slider or a unifier behind it; else 0."""
    slider: bool = False
    """Whether it is a slider: a unifier that merges the slides of one partition."""

    @property
    def title(self) -> str:
        """`balances[1]`, `balances` if there is one partition.

        `top.top#unifier[0]` for a unifier, `top.top#slider[1]` for the slider of a partition.
        """
        kind = "slider" if self.slider else "unifier"
        base = f"{self.name}.{self.port}#{kind}" if self.unifier else self.name
        return f"{base}[{self.partition}]" if self.partitions > 1 else base

    @property
    def window_count(self) -> int:
        """The streaming windows from one `end_window` to the next."""
        count: int = self.attributes["slide_by_window_count"] or self.attributes["application_window_count"]
        return count

    @property
    def state_key(self) -> str:
        """The name of its state in the journal and in state files.

        It does not depend on ids, which may differ in the next run's plan. A slider that slides otherwise is
        another one.
        """
        port = f".{self.port}" if self.port else ""
        if self.slider:
            port += f"#slider of {self.slides * self.window_count} windows by {self.window_count}"
        return f"{self.name}{port}/{self.partition}/{self.partitions}"


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Every `of`-th tuple, starting with number `index`."""

    index: int
    of: int


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """All tuples; one that does not belong to `keys` is an error.

    A unifier by key may emit these for the partition that it stands before.
    """

    keys: PartitionKeys


Share: TypeAlias = PartitionKeys | RoundRobin | OwnKeys | None
"""Which tuples of a stream go to a sink; None: all."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How tuples are serialised on their way to an input port, in place of Arrow.

    `codec` gets and makes tuples of the `schema` of the port. `where` names port and stream.
    """

    codec: StreamCodec
    schema: Schema
    where: str


@dataclass(frozen=True, slots=True)
class PhysicalStream:
    """A stream from one output port of a physical operator to one input port of another.

    `route` selects the tuples: by key (`PartitionKeys`, hashed by `codec`), `RoundRobin`, or all (None, or
    `OwnKeys`, which checks them).
    """

    name: str
    source: int
    source_port: str
    sink: int
    sink_port: str
    schema: Schema
    route: Share
    codec: StreamCodec | None
    """The `StreamCodec` that hashes the tuples for `PartitionKeys` and `OwnKeys`; None otherwise."""
    encoding: Encoding | None = None
    combiner: Combiner | None = None
    """Makes partial results of tuples before they are sent."""


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """All physical operators in topological order, and the streams between them."""

    operators: tuple[PhysicalOperator, ...]
    streams: tuple[PhysicalStream, ...]
    entering: Mapping[int, Sequence[PhysicalStream]] = field(init=False, repr=False, compare=False)
    """The streams into each operator, by its id, and (`leaving`) those out of it."""
    leaving: Mapping[int, Sequence[PhysicalStream]] = field(init=False, repr=False, compare=False)
    _by_id: Mapping[int, PhysicalOperator] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index operators and streams."""
        entering, leaving = (
            defaultdict[int, list[PhysicalStream]](list),
            defaultdict[int, list[PhysicalStream]](list),
        )
        for stream in self.streams:
            entering[stream.sink].append(stream)
            leaving[stream.source].append(stream)
        object.__setattr__(self, "entering", dict(entering))
        object.__setattr__(self, "leaving", dict(leaving))
        object.__setattr__(self, "_by_id", {operator.id: operator for operator in self.operators})

    def operator(self, operator_id: int) -> PhysicalOperator:
        """The operator with this id. Raises KeyError."""
        return self._by_id[operator_id]

    @property
    def places(self) -> dict[int, int]:
        """The place of each operator in topological order, by id."""
        return {operator.id: place for place, operator in enumerate(self.operators)}
