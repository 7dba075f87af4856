"""Check the number of partitions of each operator, how tuples are divided, and localities."""

from __future__ import annotations

from collections.abc import Collection

from ridgeline.api.attributes import OnError, RecordingLevel
from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.plan.build.partitioning import PartitioningError, define_partitions, parallel_ports
from ridgeline.plan.draft import Draft, DraftOperator, Faults
from ridgeline.plan.graphs import topological_order
from ridgeline.plan.placement.colocation import Edge, Node, find_groups
from ridgeline.plan.validate.affinity import settle_rules
from ridgeline.plan.validate.graph import ordered
from ridgeline.plan.validate.keys import check_keyed_state, check_meeting


def divide_operators(draft: Draft, faults: Faults) -> None:
    """Count and define the partitions of each operator of the draft."""
    for operator in ordered(draft):
        connected = [name for name in operator.declared.inputs if name in operator.touched]
        operator.partitions = count = _count(faults, operator, connected)
        if count is None:
            continue
        followed = _followed(operator, connected)
        if _is_refused(faults, operator, "`partitions`" if not followed else "what makes its port parallel"):
            continue
        if "partitioner" in operator.doubtful or operator.vague:
            continue
        operator.attributes["partitions"] = count
        fixed = bool(followed) or "partitions" in operator.given
        try:
            operator.divided = define_partitions(
                operator.operator, operator.attributes, count, connected, followed, fixed=fixed
            )
        except PartitioningError as error:
            faults.add(operator.name, error.what, error.remedy)
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


def _is_refused(faults: Faults, operator: DraftOperator, cause: str) -> bool:
    """Add a fault if the operator has more partitions than it can have, by this cause."""
    if operator.operator.parallelizable or (operator.partitions or 1) == 1:
        return False
    what = f"it has {operator.partitions} partitions, but `{operator.kind}` cannot have more than one"
    faults.add(operator.port("partitions"), what, f"leave {cause} out")
    operator.partitions, operator.divided = None, ()
    return True


def _followed(operator: DraftOperator, connected: Collection[str]) -> list[str]:
    return parallel_ports(operator.operator, operator.ports, connected)


def _count(faults: Faults, operator: DraftOperator, connected: list[str]) -> int | None:
    """The number of partitions upstream for parallel ports, else the attribute; None if a fault hides it."""
    if "partition_parallel" in operator.doubtful:
        return None
    upstream = {}
    for port in _followed(operator, connected):
        stream = operator.entered.get(port)
        upstream[port] = stream.source.operator if stream is not None and stream.source is not None else None
    if not upstream:
        return None if "partitions" in operator.doubtful else int(operator.attributes["partitions"])
    counts = {source.partitions if source is not None else None for source in upstream.values()}
    if None in counts:
        return None
    if len(counts) > 1:
        sources = {port: source for port, source in upstream.items() if source is not None}
        found = ", ".join(
            f"`{port}` follows `{source.name}` with {source.partitions}" for port, source in sources.items()
        )
        remedy = (
            "give these operators the same number of partitions, or declare `InputPort(..., "
            "parallel=True)` for one port only"
        )
        faults.add(
            operator.name, f"its parallel ports follow different numbers of partitions: {found}", remedy
        )
        return None
    count = counts.pop()
    given = operator.attributes["partitions"]
    if "partitions" in operator.given - operator.doubtful and given != count:
        port, source = next((port, source) for port, source in upstream.items() if source is not None)
        what = (
            f"attribute `partitions` is {given}, "
            f"but port `{port}` follows `{source.name}` with {count} one to one"
        )
        faults.add(
            operator.port("partitions"),
            what,
            "leave `partitions` out; or the port's `parallel` and `partition_parallel`",
        )
    return count


def check_unused(draft: Draft, faults: Faults) -> None:
    """Refuse attributes that were given and would have no effect."""
    silent = draft.attributes.get("metrics_recording_level") is RecordingLevel.OFF
    for operator in draft.operators:
        given, values, declared = operator.given - operator.doubtful, operator.attributes, operator.declared
        connected = [name for name in declared.inputs if name in operator.touched]
        followed = [] if "partition_parallel" in operator.doubtful else _followed(operator, connected)
        unused = [
            (
                "partition_parallel",
                values["partition_parallel"] and operator.is_input,
                "an input operator follows nothing",
            ),
            (
                "partitioner",
                values["partitioner"] and operator.is_input and not _chosen(operator),
                "an input operator has no tuples to divide",
            ),
            (
                "partitioner",
                values["partitioner"] and connected and connected == followed,
                "all its ports follow the partitions upstream",
            ),
            ("unifier_limit", values["unifier_limit"] and not declared.outputs, "it has no output port"),
            (
                "error_tuples_kept",
                values["error_tuples_kept"]
                and not _error_ports(operator)
                and values["on_error"] is not OnError.SKIP,
                "it has no output port with `error=True`",
            ),
            (
                "on_error",
                values["on_error"] is OnError.SKIP and not operator.may_leave_out,
                "an input operator gets no tuples to leave out",
            ),
            (
                "callback_timeout",
                values["callback_timeout"] and silent,
                "workers send no heartbeats at `metrics_recording_level` OFF",
            ),
        ]
        for name, set_, why in unused:
            if name in given and set_:
                faults.add(operator.port(name), f"attribute `{name}` would do nothing: {why}", "leave it out")


def _chosen(operator: DraftOperator) -> bool:
    """True if a partitioner chose the number of partitions, or gave them values of their own."""
    own = any(part.properties or part.attributes for part in operator.divided)
    return own or ("partitions" not in operator.given and len(operator.divided) > 1)


def _error_ports(operator: DraftOperator) -> list[str]:
    return [name for name, port in operator.declared.outputs.items() if port.error]


def settle_placement(draft: Draft, faults: Faults) -> None:
    """Decide which affinity rules hold; faults where operators cannot share a container as they must.

    Does nothing while there is a cycle.
    """
    pairs = draft.pairs()
    if len(topological_order(len(draft.operators), pairs)) < len(draft.operators):
        return
    nodes = [Node(operator.name, operator.is_input, operator.partitions) for operator in draft.operators]
    edges = []
    for stream, source, sink, locality in draft.edges():
        operator = sink.operator
        followed = _followed(operator, operator.touched)
        way = _way(operator, sink.port)
        edges.append(
            Edge(
                stream.name,
                source.operator.index,
                operator.index,
                sink.port,
                sink.port in followed,
                way,
                locality,
            )
        )
    faults.found.extend(find_groups(nodes, edges).faults)
    settle_rules(draft, faults, nodes, edges)


def _way(operator: DraftOperator, port: str) -> str:
    if any(port in part.keys for part in operator.divided):
        return "divided by key"
    if any(port in part.round_robin for part in operator.divided):
        return "divided round robin"
    return "broadcast"
