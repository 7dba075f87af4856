"""Set the partitions of each operator, by key or otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from ridgeline.api.attributes import OnError, RecordingLevel
from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.api.errors import Faults, listed
from ridgeline.api.operator import SparkSource
from ridgeline.api.state import KeyedState
from ridgeline.plan.build.key_agreement import KeyedPort, disagreement
from ridgeline.plan.build.partitioning import define_partitions
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import LogicalOperator


def divide_operators(draft: Draft, faults: Faults) -> None:
    """Count and define the partitions of each operator of the draft."""
    for operator in draft.ordered():
        connected = operator.connected
        operator.partitions = count = _count(faults, operator)
        if count is None:
            continue
        followed = operator.followed
        if _is_refused(faults, operator, "`partitions`" if not followed else "what makes its port parallel"):
            continue
        if "partitioner" in operator.doubtful:
            continue
        operator.attributes["partitions"] = count
        fixed = bool(followed) or "partitions" in operator.given
        with faults.noting(operator.name):
            operator.divided = define_partitions(
                operator.operator, operator.attributes, count, connected, followed, fixed=fixed
            )
        if not operator.divided:
            continue
        operator.partitions = operator.attributes["partitions"] = len(operator.divided)
        if _is_refused(faults, operator, "its partitioner"):
            continue
        if (
            count > 1
            and isinstance(operator.attributes["partitioner"], BalancedPartitioner | None)
            and operator.operator.partitioner_default is None
        ):
            check_meeting(faults, operator)
            check_keyed_state(faults, operator, connected)


def _is_refused(faults: Faults, operator: LogicalOperator, cause: str) -> bool:
    """Add a fault if the operator has more partitions than it can have, by this cause."""
    if operator.operator.parallelizable or (operator.partitions or 1) == 1:
        return False
    what = f"it has {operator.partitions} partitions, but `{operator.kind}` cannot have more than one"
    faults.add(operator.port("partitions"), what, f"leave {cause} out")
    operator.partitions, operator.divided = None, ()
    return True


def _count(faults: Faults, operator: LogicalOperator) -> int | None:
    """The number of partitions upstream for parallel ports, else the attribute; None if a fault hides it."""
    if "partition_parallel" in operator.doubtful:
        return None
    followed = operator.followed
    if not followed:
        return None if "partitions" in operator.doubtful else int(operator.attributes["partitions"])
    ends = ((port, operator.entered.get(port)) for port in followed)
    sources = {port: end.operator for port, end in ends if end is not None}
    counts = {source.partitions for source in sources.values()}
    if None in counts or len(sources) < len(followed):
        return None
    found = [f"`{port}` follows `{source.name}` with {source.partitions}" for port, source in sources.items()]
    if len(counts) > 1:
        what = f"its parallel ports follow different numbers of partitions: {', '.join(found)}"
        remedy = "give these operators the same number of partitions, or declare `InputPort(..., "
        remedy += "parallel=True)` for one port only"
        faults.add(operator.name, what, remedy)
        return None
    count = counts.pop()
    given = operator.attributes["partitions"]
    if "partitions" in operator.given - operator.doubtful and given != count:
        what = f"attribute `partitions` is {given}, but port {found[0]} one to one"
        remedy = "leave `partitions` out; or the port's `parallel` and `partition_parallel`"
        faults.add(operator.port("partitions"), what, remedy)
    return count


def check_unused(draft: Draft, faults: Faults) -> None:
    """Refuse attributes that were given and would have no effect."""
    silent = draft.attributes.get("metrics_recording_level") is RecordingLevel.OFF
    for operator in draft.operators:
        for name, why in _useless(operator, silent=silent):
            if name in operator.given - operator.doubtful:
                faults.add(operator.port(name), f"attribute `{name}` would do nothing: {why}", "leave it out")


def _useless(operator: LogicalOperator, *, silent: bool) -> Iterator[tuple[str, str]]:
    """The attributes that an operator has and that do nothing, each with the reason."""
    values, outputs = operator.attributes, operator.declared.outputs
    skips = values["on_error"] is OnError.SKIP
    if values["partition_parallel"] and operator.is_input:
        yield "partition_parallel", "an input operator follows nothing"
    if values["partitioner"] and operator.is_input and not _chosen(operator):
        yield "partitioner", "an input operator has no tuples to divide"
    connected = operator.connected
    followed = [] if "partition_parallel" in operator.doubtful else operator.followed
    if values["partitioner"] and connected and connected == followed:
        yield "partitioner", "all its ports follow the partitions upstream"
    if values["unifier_limit"] and not outputs:
        yield "unifier_limit", "it has no output port"
    if values["error_tuples_kept"] and not skips and not any(port.error for port in outputs.values()):
        yield "error_tuples_kept", "it has no output port with `error=True`"
    if skips and not operator.may_leave_out:
        yield "on_error", "an input operator gets no tuples to leave out"
    if values["callback_timeout"] and silent:
        yield "callback_timeout", "workers send no heartbeats at `metrics_recording_level` OFF"


def _chosen(operator: LogicalOperator) -> bool:
    """True if a partitioner chose the number of partitions."""
    return "partitions" not in operator.given and len(operator.divided) > 1


def check_meeting(faults: Faults, operator: LogicalOperator) -> None:
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
        what = f"it has {operator.partitions} partitions, and equal keys of its ports would not meet"
        what += f" in one of them: {why}"
        remedy = "declare keys of one type, or say by a `partitioner` that they need not meet, such as"
        remedy += " `KeyedPartitioner()`"
        faults.add(operator.name, what, remedy)


def check_keyed_state(faults: Faults, operator: LogicalOperator, connected: list[str]) -> None:
    """Refuse state by key in an operator whose tuples are not partitioned by key.

    An explicit `partitioner` is the author's decision; it is not checked.
    """
    inputs = operator.declared.inputs
    states = [name for name, state in operator.declared.states.items() if isinstance(state, KeyedState)]
    if not states or not connected:
        return
    followed = operator.followed
    first = (followed or connected)[0]
    kept = f"state {listed(states)} is kept by key in {operator.partitions} partitions"
    if any(inputs[port].codec is not None for port in connected):
        why = _scattered(operator) if followed and inputs[first].codec is not None else None
        if why is not None:
            remedy = f"leave the `parallel` of `{first}` or `partition_parallel` out"
            what = f"{kept}, but tuples of one key come to several of them: {why}"
            faults.add(operator.name, what, f"{remedy}: then it is divided by its key")
        return
    what = f"{kept}, but no connected port of `{operator.kind}` has a key"
    what += ", so tuples of one key come to several of them"
    remedy = f"declare `{first} = InputPort(..., key=...)`, leave `partitions` out, or give a `partitioner`"
    source = operator.entered.get(first)
    if followed and source is not None:
        upstream = source.operator.name
        remedy = f"declare `{first} = InputPort(..., key=..., parallel=True)` if each key comes from one"
        remedy += f" partition of `{upstream}` only, else without `parallel`"
    faults.add(operator.name, what, remedy)


def _scattered(operator: LogicalOperator) -> str | None:
    """Why tuples of one key come from several upstream partitions; None if that is not known."""
    at = operator
    while (followed := at.followed) and (source := at.entered.get(followed[0])) is not None:
        at = source.operator
    if isinstance(at.operator, SparkSource):
        return f"they follow those of `{at.name}`, among which Spark divides its rows anew in each window"
    if any(part.round_robin for part in at.divided):
        return f"they follow those of `{at.name}`, which is divided round robin"
    return None
