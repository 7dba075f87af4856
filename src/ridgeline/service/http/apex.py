"""Apex's shapes: logical operators, their aggregation, ports and streams, from the plan and the figures of physical operators.

Field names are those of Apache Apex's STRAM web services (`LogicalOperatorInfo`, `OperatorAggregationInfo`,
...), numbers are numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ridgeline.api.operator import operator_type
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, PortRef
from ridgeline.plan.to_json import plain, shown_properties

Row = Mapping[str, Any]
"""A physical operator as `Watch.operators()` gives it."""

_SUMMED = ("totalTuplesProcessed", "totalTuplesEmitted", "tuplesProcessedPSMA", "tuplesEmittedPSMA")
_AGGREGATED = ("tuplesProcessedPSMA", "tuplesEmittedPSMA", "cpuPercentageMA", "failureCount", "stateBytes")
_NOT_SUMMED = ("latencyMA",)
_EXTREMES = ("lastHeartbeat", "recoveryWindowId", "currentWindowId")


def logical_plan(plan: LogicalPlan) -> dict[str, Any]:
    """The whole logical plan."""
    return {
        "operators": [
            {
                "name": operator.name,
                "class": class_name(operator),
                "attributes": attributes(operator.attributes),
                "properties": properties(operator),
                "ports": ports(operator),
            }
            for operator in plan.operators
        ],
        "streams": [
            {
                "name": stream.name,
                "source": _port_ref(stream.source),
                "sinks": [_port_ref(sink) for sink in stream.sinks],
                "locality": stream.locality.name if stream.locality is not None else None,
                "schema": stream.schema.describe(),
            }
            for stream in plan.streams
        ],
        "attributes": attributes(plan.attributes),
    }


def class_name(operator: LogicalOperator) -> str:
    """The full name of an operator's class."""
    kind = type(operator.operator)
    return f"{kind.__module__}.{kind.__qualname__}"


def attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes, defaults filled in."""
    return {name: plain(value) for name, value in values.items()}


def properties(operator: LogicalOperator) -> dict[str, Any]:
    """All properties of an operator; what looks like a secret is masked."""
    return shown_properties(operator)


def ports(operator: LogicalOperator) -> list[dict[str, Any]]:
    """All ports of an operator, connected or not. The schema of a port is known if it is connected."""
    declared = operator_type(type(operator.operator))
    kinds = (("input", declared.inputs, operator.inputs), ("output", declared.outputs, operator.outputs))
    return [
        {
            "name": name,
            "type": kind,
            "connected": name in connected,
            "schema": connected[name].describe() if name in connected else None,
            "attributes": {},
        }
        for kind, known, connected in kinds
        for name in dict.fromkeys((*known, *connected))
    ]


def logical_operator(
    operator: LogicalOperator, rows: Iterable[Row], latencies: Mapping[str, float | None]
) -> dict[str, Any]:
    """A logical operator with the figures of its partitions.

    Sums are over its partitions, of `cpuPercentageMA` and `failureCount` also over its unifiers. `latencies`:
    by name, milliseconds.
    """
    own = [row for row in rows if row["logicalName"] == operator.name]
    partitions = [row for row in own if not row["unifierClass"]]
    return {
        "name": operator.name,
        "className": class_name(operator),
        **{name: _total(row[name] for row in partitions) for name in _SUMMED},
        "cpuPercentageMA": _total(row["cpuPercentageMA"] for row in own),
        "latencyMA": latencies.get(operator.name),
        "status": dict(Counter(row["status"] for row in own)),
        "failureCount": _total(row["failureCount"] for row in own),
        **{name: _over(min, (row[name] for row in own)) for name in _EXTREMES},
        "containerIds": sorted({row["container"] for row in own}),
        "partitions": [row["id"] for row in partitions],
        "unifiers": [row["id"] for row in own if row["unifierClass"]],
        "hosts": sorted({row["host"] for row in own if row["host"]}),
    }


def aggregation(name: str, rows: Iterable[Row]) -> dict[str, Any]:
    """Minimum, maximum, average and sum of the figures of a logical operator's partitions; unifiers are left out."""
    own = [row for row in rows if row["logicalName"] == name and not row["unifierClass"]]
    found: dict[str, Any] = {"name": name}
    for field in (*_AGGREGATED, *_NOT_SUMMED, *_EXTREMES):
        known = [row[field] for row in own if row[field] is not None]
        figures = {"min": min(known, default=None), "max": max(known, default=None)}
        if field not in _EXTREMES:
            figures["avg"] = sum(known) / len(known) if known else None
        if field in _AGGREGATED:
            figures["sum"] = sum(known) if known else None
        found[field] = figures
    return found


def _port_ref(port: PortRef) -> dict[str, str]:
    return {"operatorName": port.operator, "portName": port.port}


def _total(values: Iterable[float | None]) -> float | None:
    return _over(sum, values)


def _over(function: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    """The function of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return function(known) if known else None
