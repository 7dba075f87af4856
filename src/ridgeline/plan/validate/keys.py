"""Check operators that work by key: equal keys meet, state is divided by key."""

from __future__ import annotations

from ridgeline.api.errors import listed
from ridgeline.api.operator import SparkSource
from ridgeline.api.state import KeyedState
from ridgeline.plan.build.key_agreement import KeyedPort, disagreement
from ridgeline.plan.build.partitioning import parallel_ports
from ridgeline.plan.draft import DraftOperator, Faults


def check_meeting(faults: Faults, operator: DraftOperator) -> None:
    """Refuse an operator whose ports would send equal keys to different partitions.

    Only for ports that are partitioned by key by default.
    """
    sticky = []
    for name in operator.divided[0].keys if operator.divided else ():
        codec, schema = operator.declared.inputs[name].codec, operator.inputs.get(name)
        if codec is not None and schema is not None:
            sticky.append(KeyedPort(name, codec, schema))
    why = disagreement(sticky)
    if why is not None:
        what = (
            f"it has {operator.partitions} partitions, "
            f"and equal keys of its ports would not meet in one of them: {why}"
        )
        remedy = (
            "declare keys of one type, or say by a `partitioner` that they need not meet, "
            "such as `KeyedPartitioner()`"
        )
        faults.add(operator.name, what, remedy)


def check_keyed_state(faults: Faults, operator: DraftOperator, connected: list[str]) -> None:
    """Refuse state by key in an operator whose tuples are not partitioned by key.

    An explicit `partitioner` is the author's decision; it is not checked.
    """
    inputs = operator.declared.inputs
    states = [name for name, state in operator.declared.states.items() if isinstance(state, KeyedState)]
    if not states or not connected:
        return
    followed = parallel_ports(operator.operator, operator.ports, connected)
    first = (followed or connected)[0]
    kept = f"state {listed(states)} is kept by key in {operator.partitions} partitions"
    if any(inputs[port].codec is not None for port in connected):
        why = _scattered(operator) if followed and inputs[first].codec is not None else None
        if why is not None:
            remedy = (
                f"leave the `parallel` of `{first}` or `partition_parallel` out: "
                "then it is divided by its key"
            )
            faults.add(operator.name, f"{kept}, but tuples of one key come to several of them: {why}", remedy)
        return
    what = (
        f"{kept}, but no connected port of `{operator.kind}` has a key, "
        "so tuples of one key come to several of them"
    )
    remedy = f"declare `{first} = InputPort(..., key=...)`, leave `partitions` out, or give a `partitioner`"
    stream = operator.entered.get(first)
    if followed and stream is not None and stream.source is not None:
        upstream = stream.source.operator.name
        remedy = (
            f"declare `{first} = InputPort(..., key=..., "
            f"parallel=True)` if each key comes from one partition of `{upstream}` only, "
            "else without `parallel`"
        )
    faults.add(operator.name, what, remedy)


def _scattered(operator: DraftOperator) -> str | None:
    """Why tuples of one key come from several upstream partitions; None if that is not known."""
    at, followed = operator, ["it"]
    while followed:
        connected = [name for name in at.declared.inputs if name in at.touched]
        followed = parallel_ports(at.operator, at.ports, connected)
        stream = at.entered.get(followed[0]) if followed else None
        if stream is None or stream.source is None:
            break
        at = stream.source.operator
    if isinstance(at.operator, SparkSource):
        return f"they follow those of `{at.name}`, among which Spark divides its rows anew in each window"
    if any(part.round_robin for part in at.divided):
        return f"they follow those of `{at.name}`, which is divided round robin"
    return None
