"""All tuples that the streams of a run carried, while outputs write nothing: what runs are compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, cast

import pyarrow as pa

from ridgeline.api.application import Node
from ridgeline.api.columns.schema import Schema
from ridgeline.api.operator import Operator, operator_type
from ridgeline.api.publisher import Publisher
from ridgeline.operators.queue_output import QueueOutput
from ridgeline.plan.execution import Plan
from ridgeline.plan.graph import Graph, Sink
from ridgeline.plan.region import PortRef
from ridgeline.testing.matching import Row, row_of
from ridgeline.testing.sinks import Collector, CollectorSink


class Port(NamedTuple):
    """An output port of an operator."""

    operator: str
    port: str

    def __str__(self) -> str:
        return f"{self.operator}.{self.port}"


class Tap(CollectorSink[Any]):
    """Collects a stream beside its own sinks."""


@dataclass(slots=True)
class Captured:
    """The tuples of each stream of a run.

    `ports`: where streams begin, in topological order. `batches`: of each port by window, as a sink sees
    them. `schemas`: of the ports. `ordered`: the ports whose order is promised. `upstream`: the ports that
    feed an operator. `inputs`: the input operators. `windows`: those that were committed, in order.
    """

    ports: list[Port]
    batches: dict[Port, dict[int, list[pa.RecordBatch]]]
    schemas: dict[Port, Schema]
    ordered: set[Port]
    upstream: dict[str, list[Port]]
    inputs: set[str]
    windows: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, plan: Plan) -> Captured:
        """Nothing so far, of a plan with taps."""
        logical = plan.logical
        upstream: dict[str, list[Port]] = {}
        schemas = {}
        for stream in logical.streams:
            source = Port(stream.source.operator, stream.source.port)
            schemas[source] = stream.schema
            for sink in stream.sinks:
                upstream.setdefault(sink.operator, []).append(source)
        places = {operator.name: place for place, operator in enumerate(logical.operators)}
        return cls(
            sorted(schemas, key=lambda port: (places[port.operator], port.port)),
            {port: {} for port in schemas},
            schemas,
            {port for port in schemas if port.operator in _in_order(plan, upstream)},
            upstream,
            {operator.name for operator in logical.operators if operator.is_input},
        )

    def add(self, plan: Plan, publishers: Mapping[str, Publisher], windows: Sequence[int]) -> None:
        """Add what the taps of a run have collected: of a run, or of one that went on from it."""
        for stream in plan.logical.streams:
            for sink in stream.sinks:
                publisher = publishers.get(sink.operator)
                if isinstance(publisher, Collector) and is_tap(plan, sink.operator):
                    port = Port(stream.source.operator, stream.source.port)
                    self.batches[port] |= publisher.windows
        self.windows = sorted({*self.windows, *windows})

    def of_window(self, port: Port, window: int) -> list[pa.RecordBatch]:
        """The batches of a port in a window."""
        return self.batches.get(port, {}).get(window, [])

    def count(self, port: Port, window: int) -> int:
        """How many tuples a port had in a window."""
        return sum(batch.num_rows for batch in self.of_window(port, window))

    def compared(self, port: Port, window: int) -> list[Row]:
        """The tuples of a port in a window, as they are compared."""
        return [row_of(value) for value in self.rows(port, window)]

    def rows(self, port: Port, window: int) -> list[Any]:
        """The tuples of a port in a window."""
        schema = self.schemas[port]
        return [row for batch in self.of_window(port, window) for row in schema.decode(batch)]


def is_tap(plan: Plan, operator: str) -> bool:
    """True for an operator that `tap` has added."""
    return isinstance(plan.logical.operator(operator).operator, Tap)


def tap(graph: Graph) -> Graph:
    """An application by name, without modules, in which every stream has one more sink."""
    for number, stream in enumerate(graph.streams.values(), 1):
        name = f"tap-{number}"
        while name in graph.nodes:
            name += "-"
        sinks = {**stream.sinks, PortRef(name, "input"): Sink()}
        tapped = graph.put(Node(name, Tap(), {"partitions": 1}))
        graph = tapped.put_stream(replace(stream, sinks=sinks))
    return graph


def _in_order(plan: Plan, upstream: Mapping[str, Sequence[Port]]) -> set[str]:
    """The operators whose tuples come in an order that is promised.

    They and all before them have one partition, and none of these reads two streams.
    """
    partitions = Counter(operator.name for operator in plan.physical.operators if not operator.unifier)
    kept: set[str] = set()
    for operator in plan.logical.operators:
        before = upstream.get(operator.name, [])
        if (
            partitions[operator.name] == 1
            and len(before) <= 1
            and kept.issuperset(port.operator for port in before)
        ):
            kept.add(operator.name)
    return kept


_LIFE = (
    "setup",
    "activate",
    "begin_window",
    "end_window",
    "committed",
    "deactivate",
    "teardown",
    "publisher",
)


def silence(plan: Plan) -> Plan:
    """Let the output operators of a plan take their tuples and do nothing; returns the plan.

    Those are the operators with a publisher and without output ports. Collecting sinks
    stay, and queues between regions.
    """
    operators = [one.operator for one in plan.logical.operators]
    operators += [one.operator for one in plan.physical.operators]
    staying = (CollectorSink, QueueOutput) if plan.logical.region else CollectorSink
    for operator in operators:
        kind = type(operator)
        if (
            kind.publisher is not Operator.publisher
            and not operator_type(kind).outputs
            and not isinstance(operator, staying)
            and not issubclass(kind, Muted)
        ):
            operator.__class__ = _silenced(cast("Hashable", kind))
    return plan


class Muted:
    """Marks what `silence` has muted."""


@cache
def _silenced(kind: Any) -> type[Operator]:
    """A class with the ports, properties and state of another, whose callbacks do nothing."""
    names = {name for port in operator_type(kind).inputs.values() for name in port.methods}
    body: dict[str, Any] = dict.fromkeys(names, _pass)
    body |= {name: getattr(Operator, name) for name in _LIFE}
    body |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (Muted, kind), body)


def _pass(_self: Operator, _tuples: object) -> None:
    """Take what comes."""
