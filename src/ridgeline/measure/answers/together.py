"""Rows of operators put together: one for all partitions of an operator, one for all unifiers of a port."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ridgeline.measure.answers.operators import OperatorAnswer, PortAnswer, operator_state
from ridgeline.measure.moment import RUNNING, Moment
from ridgeline.measure.progress.throughput import Together
from ridgeline.measure.registry.operators import OPERATOR_METRICS
from ridgeline.measure.status import ContainerStatus, OperatorStatus
from ridgeline.measure.topology import Topology

_STATES = ("SILENT", "ACTIVE", "WAITING", "DONE", "PENDING", "INACTIVE")
"""The status of several operators is the first of these that one of them has."""
_ERROR_TUPLES = 10


class _Group(NamedTuple):
    """The operators of one label, and what is known of them together."""

    members: Sequence[OperatorStatus]
    containers: Sequence[ContainerStatus]
    moment: Moment
    latency: Mapping[str, Any]
    ports: Sequence[tuple[str, str, int, float]]
    """Kind, name, tuples in sum and per second."""
    counts: Sequence[Mapping[str, int]]
    """Those of operators that have any."""

    def tuples(self, kind: str) -> int:
        """The tuples of all ports of a kind since the start."""
        return sum(count for of, _, count, _ in self.ports if of == kind)

    def rate(self, kind: str) -> float:
        """The same per second."""
        return sum(rate for of, _, _, rate in self.ports if of == kind)


def _present(values: Sequence[Any], join: Callable[[list[Any]], Any]) -> Any:
    """The values that there are, as one; None if there is none."""
    found = [value for value in values if value is not None]
    return join(found) if found else None


def _current(group: _Group) -> int | None:
    """The window of the one that is least far."""
    moment, states = group.moment, group.moment.states
    return cast(
        "int | None",
        _present(
            [
                moment.current_window if states.get(one.node.id) in RUNNING else one.last_window
                for one in group.members
            ],
            min,
        ),
    )


def _last_error_tuples(group: _Group) -> list[str]:
    return [text for one in group.members for text in one.error_tuples][-_ERROR_TUPLES:]


def _time(name: str) -> Callable[[_Group], Any]:
    return lambda group: group.latency.get(name)


_READ: Mapping[str, Callable[[_Group], Any]] = {
    "currentWindowId": _current,
    "recoveryWindowId": lambda group: _present([one.last_window for one in group.members], min),
    "totalTuplesProcessed": lambda group: group.tuples("input"),
    "totalTuplesEmitted": lambda group: group.tuples("output"),
    "tuplesProcessedPSMA": lambda group: group.rate("input"),
    "tuplesEmittedPSMA": lambda group: group.rate("output"),
    "cpuPercentageMA": lambda group: _present([one.cpu_percentage for one in group.members], sum),
    "latencyMA": lambda group: group.latency.get("averageMs"),
    **{
        name: _time(name)
        for name in ("latencyMs", "computeMs", "cpuMs", "waitMs", "transferMs", "p50Ms", "p99Ms")
    },
    "estimated": lambda group: bool(group.latency.get("estimated")),
    "windowsBehind": lambda group: max(group.moment.behind.get(one.node.id, 0) for one in group.members),
    "failureCount": lambda group: sum(counts.get("failureCount", 0) for counts in group.counts),
    "lastHeartbeat": lambda group: _present([one.last_seen for one in group.containers], min),
    "errorTuples": _last_error_tuples,
    "queueSizeMA": lambda group: _present([one.queue for one in group.members], sum),
}
"""How the values of metrics that have a `read` become one. Others are sums."""


def _reader(row: Any) -> Callable[[_Group], Any]:
    if row.read is not None:
        return _READ[row.name]
    if (last := row.last) is not None:
        return lambda group: sum(last(one.last) for one in group.members if one.last is not None)
    return lambda group: sum(counts.get(row.name, 0) for counts in group.counts)


_VALUES = [(row.name, _reader(row)) for row in OPERATOR_METRICS]


def operators_together(
    topology: Topology,
    operators: Mapping[int, OperatorStatus],
    containers: Mapping[int, ContainerStatus],
    moment: Moment,
    tuples: Together,
) -> list[OperatorAnswer]:
    """A row for each label, in the topology's order: sums, and the times of the slowest.

    Its id is that of the first operator. `partitions` says how many they are. Host and process are those of
    all, else null. `tuples`: as `Throughput.together`.
    """
    ports: dict[int, list[tuple[str, str, int, float]]] = {}
    for (number, kind, name), (count, rate) in tuples.items():
        ports.setdefault(number, []).append((kind, name, count, rate))
    rows = []
    for number, (label, places) in enumerate(topology.labels.items()):
        nodes = [topology.operators[place] for place in places.tolist()]
        members = [operators[node.id] for node in nodes]
        group = _Group(
            members,
            [containers[one] for one in dict.fromkeys(node.container for node in nodes)],
            moment,
            moment.latencies.get(nodes[0].id, {}),
            ports.get(number, ()),
            [one.counts for one in members if one.counts],
        )
        rows.append(_row(label, group))
    return rows


def _row(label: str, group: _Group) -> OperatorAnswer:
    """The row of one label."""
    node = group.members[0].node
    hosts = {one.host for one in group.containers}
    processes = {one.pid for one in group.containers}
    states = {operator_state(one, group.moment) for one in group.members}
    place = {
        "id": node.id,
        "operator": label,
        "name": label,
        "logicalName": node.name,
        "className": node.class_name,
        "container": node.container,
        "host": hosts.pop() if len(hosts) == 1 else None,
        "pid": processes.pop() if len(processes) == 1 else None,
        "stage": node.stage,
        "partition": node.partition,
        "own": dict(node.own) if len(group.members) == 1 else {},
        "unifierClass": node.class_name if node.unifier else None,
        "kind": node.kind,
        "status": next(one for one in _STATES if one in states),
        "partitions": len(group.members),
    }
    metrics = {name: value(group) for name, value in _VALUES}
    return cast("OperatorAnswer", {**place, **metrics, "ports": _ports(group)})


def _ports(group: _Group) -> list[PortAnswer]:
    """Ports that are connected or have had tuples."""
    node = group.members[0].node
    queue = _READ["queueSizeMA"](group) if len(node.inputs) == 1 else None
    known = {(kind, name): (count, rate) for kind, name, count, rate in group.ports}
    named = [("input", name) for name in node.inputs] + [("output", name) for name in node.outputs]
    return [
        {
            "name": name,
            "type": kind,
            "totalTuples": known.get((kind, name), (0, 0.0))[0],
            "tuplesPSMA": known.get((kind, name), (0, 0.0))[1],
            "queueSizeMA": queue if kind == "input" else None,
        }
        for kind, name in sorted(dict.fromkeys([*named, *known]), key=lambda port: port[0])
    ]
