"""All three plans of an application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.api.application import Application
from ridgeline.plan.execution import Plan
from ridgeline.plan.fusing import build_execution
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.physical_builder import build_physical
from ridgeline.plan.validation import validate

_NONE: Mapping[str, Any] = {}


def plan_application(
    app: Application, properties: Mapping[str, Any] = _NONE, attributes: Mapping[str, Any] = _NONE
) -> Plan:
    """Validate an application and plan it.

    Arguments as `validate`. Raises ValidationError with all faults.
    """
    return plan_logical(validate(app, properties, attributes))


def plan_logical(logical: LogicalPlan, version: int = 0) -> Plan:
    """The physical and the execution plan of a valid logical plan, as a version of the application's plan."""
    physical = build_physical(logical)
    return Plan(logical, physical, build_execution(logical, physical), version)
