"""Plans as data: logical, physical, execution. No Spark, no I/O."""

from ridgeline.api.support.duration import parse_duration
from ridgeline.plan.build.fusing import build_execution
from ridgeline.plan.build.physical import build_physical
from ridgeline.plan.execution import Container, ExecutionPlan, Plan, Stage
from ridgeline.plan.logical import LogicalOperator, LogicalPlan, LogicalStream
from ridgeline.plan.physical import PhysicalOperator, PhysicalPlan, PhysicalStream, RoundRobin
from ridgeline.plan.planner import plan_application, plan_logical
from ridgeline.plan.region import PortRef
from ridgeline.plan.show.notes import Note, find_notes
from ridgeline.plan.show.text import describe
from ridgeline.plan.show.to_json import to_dict
from ridgeline.plan.validation import find_faults, validate

__all__ = [
    "Container",
    "ExecutionPlan",
    "LogicalOperator",
    "LogicalPlan",
    "LogicalStream",
    "Note",
    "PhysicalOperator",
    "PhysicalPlan",
    "PhysicalStream",
    "Plan",
    "PortRef",
    "RoundRobin",
    "Stage",
    "build_execution",
    "build_physical",
    "describe",
    "find_faults",
    "find_notes",
    "parse_duration",
    "plan_application",
    "plan_logical",
    "to_dict",
    "validate",
]
