"""The plan of an application of several regions, joined, with ids that are unique over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from ridgeline.plan.execution import ExecutionPlan, Plan, Stage
from ridgeline.plan.logical import LogicalPlan
from ridgeline.plan.physical import PhysicalPlan
from ridgeline.regions.region_run import RegionRun
from ridgeline.regions.view import IDS


def joined_plan(regions: Sequence[RegionRun], whole: Plan | None = None) -> Plan:
    """The plans of all regions, with the ends of queues, in topological order.

    `whole`: the plan of the application before it was divided: what is of no region comes from it. A stream
    that is decoupled is there for each region that has a part of it, under the same name.
    """
    plans = [(region.number * IDS, region.plan) for region in regions]
    operators = [replace(one, id=first + one.id) for first, plan in plans for one in plan.physical.operators]
    streams = [
        replace(one, source=first + one.source, sink=first + one.sink)
        for first, plan in plans
        for one in plan.physical.streams
    ]
    stages = [_shifted(stage, first) for first, plan in plans for stage in plan.execution.stages]
    return Plan(
        _logical(regions, whole),
        PhysicalPlan(tuple(operators), tuple(streams)),
        ExecutionPlan(tuple(stages)),
        sum(plan.version for _, plan in plans),
    )


def _shifted(stage: Stage, first: int) -> Stage:
    """A stage with ids of the application."""
    containers = tuple(
        replace(one, id=first + one.id, operators=tuple(first + number for number in one.operators))
        for one in stage.containers
    )
    return replace(stage, containers=containers)


def _logical(regions: Sequence[RegionRun], whole: Plan | None) -> LogicalPlan:
    """The logical plans of all regions, with what is of no region from the whole."""
    plans = [region.plan.logical for region in regions]
    base = plans[0] if whole is None else whole.logical
    return replace(
        base,
        operators=tuple(chain.from_iterable(plan.operators for plan in plans)),
        streams=tuple(chain.from_iterable(plan.streams for plan in plans)),
        modules=base.modules if whole is not None else tuple(chain.from_iterable(p.modules for p in plans)),
        affinity=tuple(chain.from_iterable(plan.affinity for plan in plans)),
        given_up=tuple(chain.from_iterable(plan.given_up for plan in plans)),
        listeners={name: who for plan in plans for name, who in plan.listeners.items()},
        regions=tuple(region.region for region in regions),
        region="",
    )
