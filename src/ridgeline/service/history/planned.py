"""The logical plan of a run, from its event log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ridgeline.measure.events import ApplicationPlanned
from ridgeline.measure.topology import OperatorNode, Topology
from ridgeline.plan.logical import module_of
from ridgeline.service.http.answers import LogicalPlanAnswer
from ridgeline.service.page.state import KeptPlan

_PARTS = ("operators", "streams", "modules")


def plan_of(event: ApplicationPlanned) -> KeptPlan:
    """The plan that an event begins: as it keeps it, else what its physical operators show of it.

    Logs of versions before 0.2 keep no logical plan: properties, schemas and attributes are missing then.
    """
    kept = event.logical
    if all(isinstance(kept.get(part), list) for part in _PARTS):
        return KeptPlan(event.application, cast("LogicalPlanAnswer", dict(kept)))
    return KeptPlan(event.application, _plan_of(event.topology, event.attributes))


def _plan_of(topology: Topology, attributes: Mapping[str, Any]) -> LogicalPlanAnswer:
    """The plan as physical operators show it."""
    first = {name: nodes[0] for name in topology.names if (nodes := topology.partitions_of(name))}
    answer: dict[str, Any] = {
        "operators": [_operator(node) for node in first.values()],
        "streams": _streams(topology),
        "modules": [
            {"name": name, "module": module_of(name) or None, "class": "", "properties": {}}
            | {"inputs": {}, "outputs": {}}
            for name in _modules(first)
        ],
        "attributes": dict(attributes),
    }
    return cast("LogicalPlanAnswer", answer)


def _operator(node: OperatorNode) -> dict[str, Any]:
    """An operator as its partitions show it; ports that are not connected are not known."""
    ports = [*(("input", name) for name in node.inputs), *(("output", name) for name in node.outputs)]
    unknown: dict[str, Any] = {"schema": None, "attributes": {}, "unifierAttributes": {}}
    return {
        "name": node.name,
        "module": module_of(node.name) or None,
        "class": node.class_name,
        "attributes": {"partitions": node.partitions},
        "properties": {},
        "ports": [{"name": name, "type": kind, "connected": True, **unknown} for kind, name in ports],
    }


def _streams(topology: Topology) -> list[dict[str, Any]]:
    """The streams between operators; unifiers, which stand between partitions, are left out."""
    found: dict[str, dict[str, Any]] = {}
    for edge in topology.streams:
        source, sink = topology.by_id[edge.source], topology.by_id[edge.sink]
        stream = found.setdefault(edge.name, {"source": None, "sinks": {}})
        if not source.unifier:
            stream["source"] = {"operatorName": source.name, "portName": edge.source_port}
        if not sink.unifier:
            stream["sinks"][sink.name, edge.sink_port] = None
    return [
        {
            "name": name,
            "source": stream["source"],
            "sinks": [{"operatorName": operator, "portName": port} for operator, port in stream["sinks"]],
            "persisted": [],
            "locality": None,
            "localities": [None] * len(stream["sinks"]),
            "schema": "",
        }
        for name, stream in found.items()
        if stream["source"] is not None and stream["sinks"]
    ]


def _modules(names: Mapping[str, object]) -> list[str]:
    """The modules that operators are in by their names, each after the one that it is in."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split(".")[:-1]
        found.update((".".join(parts[: depth + 1]), None) for depth in range(len(parts)))
    return list(found)
