"""Apex's shapes: logical operators, ports and streams.

Field names are those of Apache Apex's STRAM web services (`LogicalOperatorInfo`, ...), numbers are numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ridgeline.api.operator import operator_type
from ridgeline.measure.answers.application import OperatorTotalsAnswer
from ridgeline.measure.answers.operators import OperatorAnswer
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, locality_name, module_of
from ridgeline.plan.region import PortRef
from ridgeline.plan.shown_properties import plain, shown_properties
from ridgeline.service.http.answers import (
    LogicalOperatorAnswer,
    LogicalPlanAnswer,
    LogicalPlanOperatorAnswer,
    LogicalPortAnswer,
    LogicalPortRefAnswer,
)


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan of which there is only what `/logicalPlan` answers about it: that of a log."""

    application: str
    answer: LogicalPlanAnswer


def named_plan(plan: Plan | KeptPlan) -> tuple[str, LogicalPlanAnswer]:
    """The name of an application, and its logical plan."""
    if isinstance(plan, KeptPlan):
        return plan.application, plan.answer
    return plan.logical.application, logical_plan(plan.logical)


def logical_plan(plan: LogicalPlan) -> LogicalPlanAnswer:
    """The whole logical plan."""
    return {
        "operators": list(map(planned_operator, plan.operators)),
        "streams": [
            {
                "name": stream.name,
                "source": _port_ref(stream.source),
                "sinks": [_port_ref(sink) for sink in stream.sinks],
                "persisted": [_port_ref(sink) for sink in stream.persisted],
                "locality": locality_name(stream.locality),
                "localities": [locality_name(locality) for locality in stream.localities],
                "schema": stream.schema.describe(),
            }
            for stream in plan.streams
        ],
        "modules": [
            {
                "name": module.name,
                "module": module_of(module.name) or None,
                "class": module.kind,
                "properties": dict(module.properties),
                "inputs": {port: list(map(_port_ref, ends)) for port, ends in module.inputs.items()},
                "outputs": {port: _port_ref(end) for port, end in module.outputs.items()},
            }
            for module in plan.modules
        ],
        "attributes": attributes(plan.attributes),
    }


def planned_operator(operator: LogicalOperator) -> LogicalPlanOperatorAnswer:
    """A logical operator as its author wrote it."""
    return {
        "name": operator.name,
        "module": module_of(operator.name) or None,
        "class": class_name(operator),
        "attributes": attributes(operator.attributes),
        "properties": shown_properties(operator.operator),
        "ports": ports(operator),
    }


def class_name(operator: LogicalOperator) -> str:
    """The full name of an operator's class."""
    kind = type(operator.operator)
    return f"{kind.__module__}.{kind.__qualname__}"


def attributes(values: Mapping[str, object]) -> dict[str, Any]:
    """All attributes, defaults filled in."""
    return {name: plain(value) for name, value in values.items()}


def ports(operator: LogicalOperator) -> list[LogicalPortAnswer]:
    """All ports of an operator, connected or not. The schema of a port is known if it is connected."""
    declared = operator_type(type(operator.operator))
    kinds = (("input", declared.inputs, operator.inputs), ("output", declared.outputs, operator.outputs))
    return [
        {
            "name": name,
            "type": kind,
            "connected": name in connected,
            "schema": connected[name].describe() if name in connected else None,
            "attributes": attributes(operator.ports[name]),
            "unifierAttributes": attributes(operator.unifier_attributes.get(name, {})),
        }
        for kind, known, connected in kinds
        for name in dict.fromkeys((*known, *connected))
    ]


def logical_operator(
    planned: LogicalPlanOperatorAnswer,
    rows: Iterable[OperatorAnswer],
    latencies: Mapping[str, float | None],
    metrics: Mapping[str, float | None],
    totals: OperatorTotalsAnswer | None,
) -> LogicalOperatorAnswer:
    """A logical operator with the figures of its partitions.

    Sums are over its partitions, of `cpuPercentageMA` and `failureCount` also over its unifiers. `latencies`:
    by name, milliseconds. `metrics`: those that it declares. `totals`: of all partitions that it ever had.
    """
    own = [row for row in rows if row["logicalName"] == planned["name"]]
    partitions = [row for row in own if not row["unifierClass"]]
    return {
        "name": planned["name"],
        "className": planned["class"],
        "totalTuplesProcessed": totals["tuplesIn"] if totals else None,
        "totalTuplesEmitted": totals["tuplesOut"] if totals else None,
        "tuplesProcessedPSMA": _total(row["tuplesProcessedPSMA"] for row in partitions),
        "tuplesEmittedPSMA": _total(row["tuplesEmittedPSMA"] for row in partitions),
        "cpuPercentageMA": _total(row["cpuPercentageMA"] for row in own),
        "latencyMA": latencies.get(planned["name"]),
        "status": dict(Counter(row["status"] for row in own)),
        "failureCount": _total(row["failureCount"] for row in own),
        "lastHeartbeat": min(_known(row["lastHeartbeat"] for row in own), default=None),
        "recoveryWindowId": min(_known(row["recoveryWindowId"] for row in own), default=None),
        "currentWindowId": min(_known(row["currentWindowId"] for row in own), default=None),
        "containerIds": sorted({row["container"] for row in own}),
        "partitions": [row["id"] for row in partitions],
        "unifiers": [row["id"] for row in own if row["unifierClass"]],
        "hosts": sorted({row["host"] for row in own if row["host"]}),
        "autoMetrics": dict(metrics),
    }


def _port_ref(port: PortRef) -> LogicalPortRefAnswer:
    return {"operatorName": port.operator, "portName": port.port}


Number = TypeVar("Number", int, float)


def _known(values: Iterable[Number | None]) -> list[Number]:
    return [value for value in values if value is not None]


def _total(values: Iterable[Number | None]) -> Number | None:
    """The sum of what is known; None if nothing is."""
    known = _known(values)
    return sum(known) if known else None
