"""The physical plan: every partition and unifier as an operator of its own, with an integer id, and who gets which tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.api.operator import Operator
from ridgeline.api.partitioner import PartitionKeys
from ridgeline.api.schema import Schema


@dataclass(frozen=True, slots=True)
class PhysicalOperator:
    """One partition of a logical operator, or one unifier.

    `id` counts from 1 in topological order. `name` is the logical name (of a unifier: of the operator that it
    unifies, `port` being the output port). `partition` counts from 0 to `partitions` - 1; all unifiers of one
    port are counted through. `operator` is the prototype: whoever runs it makes a copy. `keys`: the sticky
    input ports; `round_robin`: the dealt ones.
    """

    id: int
    name: str
    partition: int
    partitions: int
    unifier: bool
    port: str | None
    operator: Operator
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Schema]
    outputs: Mapping[str, Schema]
    keys: Mapping[str, PartitionKeys]
    round_robin: frozenset[str]

    @property
    def title(self) -> str:
        """`balances[1]`, `balances` if there is one partition, `top.top#unifier[0]` for a unifier."""
        base = f"{self.name}.{self.port}#unifier" if self.unifier else self.name
        return f"{base}[{self.partition}]" if self.partitions > 1 else base

    @property
    def state_key(self) -> str:
        """The name of its state in manifests and state files.

        It does not depend on ids, which may differ in the next run's plan.
        """
        port = f".{self.port}" if self.port else ""
        return f"{self.name}{port}/{self.partition}/{self.partitions}"


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Every `of`-th tuple, beginning with number `index`."""

    index: int
    of: int


@dataclass(frozen=True, slots=True)
class PhysicalStream:
    """From one output port of a physical operator to one input port of another.

    `route` says which tuples: by key (`PartitionKeys`, hashed by `codec`), in turn (`RoundRobin`), or all
    (None).
    """

    name: str
    source: int
    source_port: str
    sink: int
    sink_port: str
    schema: Schema
    route: PartitionKeys | RoundRobin | None
    codec: Any
    """The `StreamCodec` that hashes the tuples for `PartitionKeys`; None otherwise."""


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """All physical operators, by id, in topological order, and the streams between them."""

    operators: tuple[PhysicalOperator, ...]
    streams: tuple[PhysicalStream, ...]

    def operator(self, operator_id: int) -> PhysicalOperator:
        """The operator of that id. Raises IndexError."""
        return self.operators[operator_id - 1]
