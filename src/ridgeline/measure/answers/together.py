"""Rows of operators put together: one for all partitions of an operator, one for all unifiers of a port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ridgeline.measure.answers.operators import OperatorAnswer, PortAnswer
from ridgeline.measure.moment import RUNNING, Moment
from ridgeline.measure.progress.columns import ProgressColumns
from ridgeline.measure.progress.throughput import Together
from ridgeline.measure.registry.operators import OPERATOR_METRICS
from ridgeline.measure.status import ContainerStatus, OperatorStatus, StatusColumns, Statuses
from ridgeline.measure.topology import Topology

_STATES = ("SILENT", "ACTIVE", "WAITING", "DONE", "PENDING", "INACTIVE")
"""The status of several operators is the first of these that one of them has."""
_RANKS = {name: rank for rank, name in enumerate(_STATES)}
_ERROR_TUPLES = 10
_Flags = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.float64]
_Port = tuple[str, str, int, float]
"""Kind, name, tuples in sum and per second."""


class Members(NamedTuple):
    """The statuses of a large plan.

    `due`: the last window that is over by the schedule, and the one before the first; None: nothing is.
    `states`: those of the running window, if some were reported.
    """

    statuses: Statuses
    due: tuple[int, int] | None
    states: ProgressColumns | None

    @property
    def columns(self) -> StatusColumns:
        """The statuses as arrays."""
        found = self.statuses.columns
        assert found is not None  # noqa: S101  the plan is large
        return found


@dataclass(frozen=True)
class _Labels:
    """All operators at a moment, and what is known of those of each label together."""

    topology: Topology
    members: Members
    moment: Moment
    ports: Sequence[Sequence[_Port]]

    @cached_property
    def runs(self) -> _Flags:
        """Of each operator, whether its state in the running window is known."""
        states = self.members.states
        if states is None:
            return np.zeros(len(self.topology.operators), np.bool_)
        return np.array([name in RUNNING for name in states.names], np.bool_)[states.states]

    @cached_property
    def status(self) -> list[str]:
        """The status of each label."""
        columns, states, moment = self.members.columns, self.members.states, self.moment
        rank = np.where(np.isnan(columns.last), _RANKS["PENDING"], _RANKS["ACTIVE"])
        if states is not None:
            of_name = np.array([_RANKS[RUNNING.get(name, "PENDING")] for name in states.names], np.intp)
            rank = np.where(self.runs, of_name[states.states], rank)
        if moment.silent:
            silent = np.array([one in moment.silent for one in self.topology.containers], np.bool_)
            rank = np.where(silent[self.topology.rows_of_containers], _RANKS["SILENT"], rank)
        rank = np.where(columns.finished | moment.over, _RANKS["INACTIVE"], rank)
        return [_STATES[one] for one in self.topology.in_labels.least(rank).tolist()]

    @cached_property
    def containers(self) -> list[list[ContainerStatus]]:
        """The containers of each label."""
        known = self.members.statuses.containers
        return [[known[one] for one in ids] for ids in self.topology.containers_of_labels]

    @cached_property
    def statuses(self) -> list[list[OperatorStatus]]:
        """The operators of each label of which there are counts, or tuples that were errors."""
        own = [self.members.statuses.operators[node.id] for node in self.topology.operators]
        some = np.array([bool(one.counts or one.error_tuples) for one in own], np.bool_)
        return [[own[row] for row in rows[some[rows]].tolist()] for rows in self.topology.labels.values()]

    @cached_property
    def queues(self) -> list[float | None]:
        """Tuples that wait, in sum; None where it is not known of any operator."""
        return self.sums(self.members.columns.queue)

    def sums(self, values: _Numbers) -> list[float | None]:
        """The sum of each label; None where all values are NaN."""
        groups = self.topology.in_labels
        known = np.bincount(groups.of[~np.isnan(values)], minlength=len(groups.starts)) > 0
        return [
            one if there else None
            for one, there in zip(groups.sums(values).tolist(), known.tolist(), strict=True)
        ]

    def least(self, windows: _Numbers) -> list[int | None]:
        """The least window of each label; None where none has any."""
        return [None if one != one else int(one) for one in self.topology.in_labels.least(windows).tolist()]  # noqa: PLR0124  NaN

    @cached_property
    def flows(self) -> dict[str, tuple[list[int], list[float]]]:
        """The tuples of each label by kind of its ports: all, and those a second."""
        found = {kind: ([0] * len(self.ports), [0.0] * len(self.ports)) for kind in ("input", "output")}
        for number, own in enumerate(self.ports):
            for kind, _, count, rate in own:
                found[kind][0][number] += count
                found[kind][1][number] += rate
        return found

    def latency(self, name: str) -> list[Any]:
        """A value of each label's row of latencies."""
        found = self.moment.latencies
        return [found.get(first, {}).get(name) for first in self.topology.first_of_labels]


def _current(labels: _Labels) -> list[int | None]:
    """The window of the operator that is least far."""
    now = labels.moment.current_window
    return labels.least(
        np.where(labels.runs, np.nan if now is None else float(now), labels.members.columns.last)
    )


def _behind(labels: _Labels) -> list[int]:
    """The windows that are over, and that the last of the operators has not completed."""
    due, groups = labels.members.due, labels.topology.in_labels
    if due is None:
        return [0] * len(groups.starts)
    over, before = due
    done = labels.members.columns.done
    behind = np.maximum(0.0, over - np.where(np.isnan(done), before, done))
    return [int(one) for one in groups.greatest(behind).tolist()]


def _last_heartbeat(labels: _Labels) -> list[float | None]:
    seen = ([one.last_seen for one in several] for several in labels.containers)
    return [min((at for at in times if at is not None), default=None) for times in seen]


def _error_tuples(labels: _Labels) -> list[list[str]]:
    return [
        [text for one in several for text in one.error_tuples][-_ERROR_TUPLES:] for several in labels.statuses
    ]


def _counted(labels: _Labels, name: str) -> list[int]:
    return [sum(one.counts.get(name, 0) for one in several) for several in labels.statuses]


def _time(name: str) -> Callable[[_Labels], list[Any]]:
    return lambda labels: labels.latency(name)


_READ: Mapping[str, Callable[[_Labels], Sequence[Any]]] = {
    "currentWindowId": _current,
    "recoveryWindowId": lambda labels: labels.least(labels.members.columns.last),
    "totalTuplesProcessed": lambda labels: labels.flows["input"][0],
    "totalTuplesEmitted": lambda labels: labels.flows["output"][0],
    "tuplesProcessedPSMA": lambda labels: labels.flows["input"][1],
    "tuplesEmittedPSMA": lambda labels: labels.flows["output"][1],
    "cpuPercentageMA": lambda labels: labels.sums(labels.members.columns.cpu_percentage),
    "latencyMA": _time("averageMs"),
    **{
        name: _time(name)
        for name in ("latencyMs", "computeMs", "cpuMs", "waitMs", "transferMs", "p50Ms", "p99Ms")
    },
    "estimated": lambda labels: list(map(bool, labels.latency("estimated"))),
    "windowsBehind": _behind,
    "failureCount": lambda labels: _counted(labels, "failureCount"),
    "lastHeartbeat": _last_heartbeat,
    "errorTuples": _error_tuples,
    "queueSizeMA": lambda labels: labels.queues,
}
"""How the values of metrics that have a `read` become one. Others are sums."""


def _values(labels: _Labels, row: Any) -> Sequence[Any]:
    """The values of a metric, label by label."""
    if row.read is not None:
        return _READ[row.name](labels)
    if row.last is not None:
        whole = labels.topology.in_labels.sums(labels.members.columns.values[row.name])
        return [int(one) for one in whole.tolist()]
    return _counted(labels, row.name)


def operators_together(
    topology: Topology, members: Members, moment: Moment, tuples: Together
) -> list[OperatorAnswer]:
    """A row for each label, in the topology's order: sums, and the times of the slowest.

    Its id is that of the first operator. `partitions` says how many they are. Host and process are those of
    all, else null. `tuples`: as `Throughput.together`.
    """
    ports: list[list[_Port]] = [[] for _ in topology.labels]
    for (number, kind, name), (count, rate) in tuples.items():
        ports[number].append((kind, name, count, rate))
    labels = _Labels(topology, members, moment, ports)
    columns = [_values(labels, row) for row in OPERATOR_METRICS]
    names = [row.name for row in OPERATOR_METRICS]
    return [
        _row(labels, number, label, dict(zip(names, values, strict=True)))
        for number, (label, values) in enumerate(
            zip(topology.labels, zip(*columns, strict=True), strict=True)
        )
    ]


def _row(labels: _Labels, number: int, label: str, metrics: Mapping[str, Any]) -> OperatorAnswer:
    """The row of one label."""
    rows = labels.topology.labels[label]
    node = labels.topology.operators[rows[0]]
    place = {
        "id": node.id,
        "operator": label,
        "name": label,
        "logicalName": node.name,
        "className": node.class_name,
        "container": node.container,
        "host": _same(one.host for one in labels.containers[number]),
        "pid": _same(one.pid for one in labels.containers[number]),
        "stage": node.stage,
        "partition": node.partition,
        "own": dict(node.own) if len(rows) == 1 else {},
        "unifierClass": node.class_name if node.unifier else None,
        "kind": node.kind,
        "status": labels.status[number],
        "partitions": len(rows),
    }
    return cast("OperatorAnswer", {**place, **metrics, "ports": _ports(labels, number, rows[0])})


def _same(values: Iterable[Any]) -> Any:
    """The value of all; None if they differ."""
    several = iter(values)
    first = next(several, None)
    return first if all(one == first for one in several) else None


def _ports(labels: _Labels, number: int, row: int) -> list[PortAnswer]:
    """Ports that are connected or have had tuples."""
    node = labels.topology.operators[row]
    queue = labels.queues[number] if len(node.inputs) == 1 else None
    known = {(kind, name): (count, rate) for kind, name, count, rate in labels.ports[number]}
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
