"""All three plans of an application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ridgeline.api.application import Application
from ridgeline.plan.build.fusing import build_execution
from ridgeline.plan.build.physical import build_physical
from ridgeline.plan.edits import Edit
from ridgeline.plan.execution import Plan
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.validation import Rewrite, validate

_NONE: Mapping[str, object] = {}


def plan_application(
    app: Application,
    properties: Mapping[str, object] = _NONE,
    attributes: Mapping[str, object] = _NONE,
    rewrite: Rewrite | None = None,
    *,
    edits: Sequence[Edit] = (),
    kept: Sequence[Edit] = (),
) -> Plan:
    """Validate an application and build its three plans.

    Arguments as for `validate`. Raises ValidationError with all faults.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SumKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput
        >>> class Volume(NamedTuple):
        ...     symbol: str
        ...     shares: int
        >>> app = Application("volumes")
        >>> trades = app.add_operator("trades", ListInput(Volume, [("IBM", 3)]))
        >>> volumes = app.add_operator("volumes", SumKeyVal(), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Volume))
        >>> app.add_stream("trades", trades.output, volumes.data)
        >>> app.add_stream("volumes", volumes.sum, sink.input)
        >>> plan = plan_application(app)
        >>> [operator.title for operator in plan.physical.operators]
        ['trades', 'volumes[0]', 'volumes[1]', 'volumes.sum#unifier', 'sink']
    """
    return plan_logical(validate(app, properties, attributes, rewrite, edits=edits, kept=kept))


def plan_logical(logical: LogicalPlan, version: int = 0) -> Plan:
    """Build the physical and the execution plan of a valid logical plan."""
    physical = build_physical(logical)
    return Plan(logical, physical, build_execution(logical, physical), version)
