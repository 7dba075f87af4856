"""Whether several partitions of an operator may share a key: only where what they make of it is merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.draft import Draft
from ridgeline.plan.execution import Plan
from ridgeline.plan.partitioning import parallel_ports


def why_alone(
    operator: Operator, attributes: Mapping[str, Any], outputs: Iterable[str], followers: Iterable[str]
) -> str:
    """Why no two partitions of an operator may have tuples of one key; "" if they may.

    `outputs`: its connected output ports. `followers`: input ports that follow its partitions one by one.
    """
    declared = operator_type(type(operator))
    lasting = [name for name, state in declared.states.items() if getattr(state, "scope", "") != "window"]
    if lasting:
        return f"state `{lasting[0]}` is kept for longer than an application window"
    if attributes["slide_by_window_count"] is not None:
        return "its application windows slide"
    results = [port for port in outputs if not declared.every_output[port].error]
    if not results:
        return "it has no connected output port, so nothing merges what several partitions make of a key"
    for port in results:
        if operator.unifier_of(port) is None:
            return f"output port `{port}` has no unifier that merges what several partitions make of a key"
    first = next(iter(followers), None)
    return (
        ""
        if first is None
        else f"`{first}` follows its partitions one by one, so nothing is merged before it"
    )


def alone(plan: Plan, operator: str) -> str:
    """`why_alone` of a logical operator of a plan."""
    logical = plan.logical.operator(operator)
    followers = []
    for stream in plan.logical.streams:
        if stream.source.operator == operator:
            for sink in stream.sinks:
                other = plan.logical.operator(sink.operator)
                if sink.port in parallel_ports(other.operator, other.ports, other.inputs):
                    followers.append(f"{sink.operator}.{sink.port}")
    return why_alone(logical.operator, logical.attributes, logical.outputs, followers)


def check_sharing(draft: Draft) -> None:
    """Refuse partitioners that share keys where that would give wrong results."""
    for operator in draft.operators:
        if not any(keys.shared for part in operator.divided for keys in part.keys.values()):
            continue
        followers = [
            str(sink)
            for stream in draft.streams
            if stream.source is not None and stream.source.operator is operator
            for sink in stream.sinks
            if sink.port in parallel_ports(sink.operator.operator, sink.operator.ports, sink.operator.touched)
        ]
        outputs = [port for port in operator.declared.every_output if port in operator.touched]
        why = why_alone(operator.operator, operator.attributes, outputs, followers)
        if why:
            what = f"its partitioner lets partitions share keys, but {why}"
            draft.fault(operator.name, what, "give each key to one partition: leave `shared` out")
