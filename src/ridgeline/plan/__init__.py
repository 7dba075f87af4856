"""Plans as data: logical, physical, execution. No Spark, no I/O."""

from ridgeline.plan.build.physical import build_physical
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.physical import PhysicalOperator, PhysicalPlan, RoundRobin
from ridgeline.plan.planner import plan_application
from ridgeline.plan.region import PortRef
from ridgeline.plan.show.notes import find_notes
from ridgeline.plan.show.text import describe
from ridgeline.plan.show.to_json import to_dict
from ridgeline.plan.validation import find_faults, validate

__all__ = [
    "LogicalPlan",
    "PhysicalOperator",
    "PhysicalPlan",
    "Plan",
    "PortRef",
    "RoundRobin",
    "build_physical",
    "describe",
    "find_faults",
    "find_notes",
    "plan_application",
    "to_dict",
    "validate",
]
