"""A plan as measurement sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ridgeline.api.operator import operator_type
from ridgeline.measure.events import ApplicationPlanned
from ridgeline.measure.topology import OperatorNode, StreamEdge, Topology
from ridgeline.observe.reporting import metric_nodes
from ridgeline.plan.execution import Plan
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.shown_properties import plain

_NOTHING: Mapping[str, object] = {}


def topology_of(plan: Plan) -> Topology:
    """The physical operators of a plan, where they run, and the streams between them."""
    home = {
        operator: container for container in plan.execution.containers for operator in container.operators
    }
    inputs = frozenset(logical.name for logical in plan.logical.operators if logical.is_input)
    found = Topology(
        tuple(
            _node(operator, home[operator.id].id, home[operator.id].stage)
            for operator in plan.physical.operators
        ),
        tuple(
            StreamEdge(stream.name, stream.source, stream.source_port, stream.sink, stream.sink_port)
            for stream in plan.physical.streams
        ),
        metric_nodes(plan.physical.operators),
    )
    kinds = dict.fromkeys(found.leaves, "output") | dict.fromkeys(found.letters, "dead letters")
    kinds |= {one.id: "input" for one in found.operators if one.name in inputs and not one.unifier}
    kinds |= {one.id: one.kind for one in found.operators if one.kind == "observer"}
    nodes = tuple(replace(one, kind=kinds[one.id]) if one.id in kinds else one for one in found.operators)
    return replace(found, operators=nodes)


def planned_event(
    plan: Plan,
    *,
    at: float,
    application_id: str,
    info: Mapping[str, object] = _NOTHING,
    logical: Mapping[str, object] = _NOTHING,
) -> ApplicationPlanned:
    """The event that a run of the plan begins with.

    Args:
        plan: The plan.
        at: STRAM's wall clock, seconds since 1970.
        application_id: The id of this run of the application.
        info: More about the run: `user`, `master`, `checkpoint`, `version`, and `host`, where STRAM runs.
        logical: The logical plan as `/logicalPlan` answers it, where an event log keeps it.
    """
    attributes = {name: plain(value) for name, value in plan.logical.attributes.items()}
    return ApplicationPlanned(
        at,
        plan.logical.application,
        application_id,
        plan.version,
        plan.logical.window_seconds,
        topology_of(plan),
        attributes,
        dict(info),
        dict(logical),
    )


def _node(operator: PhysicalOperator, container: int, stage: int) -> OperatorNode:
    """A physical operator as a node of the topology: plain data, without its instance."""
    implementation = type(operator.operator)
    declared = operator_type(implementation)
    return OperatorNode(
        id=operator.id,
        name=operator.name,
        title=operator.title,
        class_name=f"{implementation.__module__}.{implementation.__qualname__}",
        partition=operator.partition,
        partitions=operator.partitions,
        unifier=operator.unifier,
        kind="observer" if operator.operator.leaves_with_streams else "operator",
        stateful=bool(declared.states),
        container=container,
        stage=stage,
        inputs=tuple(operator.inputs),
        outputs=tuple(operator.outputs),
        error_outputs=tuple(
            name for name in operator.outputs if name in declared.outputs and declared.outputs[name].error
        ),
    )
