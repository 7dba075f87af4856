"""Apex's shapes: logical operators, ports and streams.

Field names are those of Apache Apex's STRAM web services (`LogicalOperatorInfo`, ...), numbers are numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from ridgeline.measure.answers.application import OperatorTotalsAnswer
from ridgeline.measure.answers.operators import OperatorAnswer
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.show.to_json import logical_to_dict
from ridgeline.service.http.answers import (
    LogicalOperatorAnswer,
    LogicalPlanAnswer,
    LogicalPlanOperatorAnswer,
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
    return cast("LogicalPlanAnswer", logical_to_dict(plan))


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


Number = TypeVar("Number", int, float)


def _known(values: Iterable[Number | None]) -> list[Number]:
    return [value for value in values if value is not None]


def _total(values: Iterable[Number | None]) -> Number | None:
    """The sum of what is known; None if nothing is."""
    known = _known(values)
    return sum(known) if known else None
