"""Whether several partitions of an operator may share a key: only where what they make of it is merged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ridgeline.api.codec import ColumnCodec, StreamCodec
from ridgeline.api.operator import Operator, operator_type
from ridgeline.plan.build.partitioning import parallel_ports
from ridgeline.plan.build.unifiers import merges_by_key
from ridgeline.plan.draft import Draft, Faults
from ridgeline.plan.execution import Plan


def why_alone(
    operator: Operator,
    attributes: Mapping[str, Any],
    inputs: Collection[str],
    outputs: Iterable[str],
    followers: Iterable[str],
) -> str:
    """Why no two partitions of an operator may have tuples of one key; "" if they may.

    `inputs`, `outputs`: its connected ports. `followers`: input ports that follow its partitions one by one.
    """
    declared = operator_type(type(operator))
    keyed = {name: port.codec for name, port in declared.inputs.items() if name in inputs and port.codec}
    if len(keyed) > 1:
        names = " and ".join(f"`{name}`" for name in keyed)
        return f"tuples of one key must meet that come in at {names}"
    lasting = [name for name, state in declared.states.items() if getattr(state, "scope", "") != "window"]
    if lasting:
        return f"state `{lasting[0]}` is kept for longer than an application window"
    if attributes["slide_by_window_count"] is not None:
        return "its application windows slide"
    results = [port for port in outputs if not declared.every_output[port].error]
    follower = next(iter(followers), None)
    parallel = (
        ""
        if follower is None
        else f"`{follower}` follows its partitions one by one, so nothing is merged before it"
    )
    return _unmerged(operator, results, keyed.values()) or parallel


def _unmerged(operator: Operator, results: Collection[str], keyed: Iterable[StreamCodec]) -> str:
    """Why what several partitions make of a key is not merged at these output ports; "" if it is."""
    if not results:
        return "it has no connected output port, so nothing merges what several partitions make of a key"
    for port in results:
        if operator.unifier_of(port) is None:
            return f"output port `{port}` has no unifier that merges what several partitions make of a key"
        merged = merges_by_key(operator, port)
        if not all(merged is not None and _keeps_apart(merged[1], codec) for codec in keyed):
            return (
                f"the unifier of output port `{port}` does not say that it merges by the same key; "
                "if it does, declare its input port with the `key` of the operator"
            )
    return ""


def _keeps_apart(merged: StreamCodec, divided: StreamCodec) -> bool:
    """True if tuples of several keys by which an operator is divided never meet where results are merged."""
    if isinstance(merged, ColumnCodec) and isinstance(divided, ColumnCodec):
        return set(divided.columns) <= set(merged.columns)
    return type(merged) is type(divided) and vars(merged) == vars(divided)


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
    return why_alone(logical.operator, logical.attributes, logical.inputs, logical.outputs, followers)


def check_sharing(draft: Draft, faults: Faults) -> None:
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
        inputs = [port for port in operator.declared.inputs if port in operator.touched]
        why = why_alone(operator.operator, operator.attributes, inputs, outputs, followers)
        if why:
            what = f"its partitioner lets partitions share keys, but {why}"
            faults.add(operator.name, what, "give each key to one partition: leave `shared` out")
