"""Operators, containers, streams and record ages as plain data for JSON, under Apex's names where it has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.measure.age.record_age import LEVELS, AgeFigures
from ridgeline.measure.latency.blame import milliseconds
from ridgeline.measure.progress.throughput import Rates, Totals
from ridgeline.measure.status import ContainerStatus, OperatorStatus
from ridgeline.measure.topology import OperatorNode, Topology

_RUNNING = {"waiting": "WAITING", "running": "ACTIVE", "done": "DONE"}
_LATENCIES = ("latencyMs", "computeMs", "waitMs", "transferMs", "p50Ms", "p99Ms")
_AGES = ("minMs", "maxMs", "avgMs", "p50Ms", "p90Ms", "p99Ms", "p999Ms", "oldestMs")
_NAMED = 20  # ids that a message names


@dataclass(frozen=True, slots=True)
class Moment:
    """What answers of one moment share, by operator's id: rows of `LatencyFold.latency`, windows behind, tuples, what it is doing.

    `states` are those of the running window, as far as containers have said; `silent` are containers.
    """

    now: float
    over: bool
    current_window: int | None
    latencies: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    behind: Mapping[int, int] = field(default_factory=dict)
    tuples: Mapping[int, tuple[Totals, Rates]] = field(default_factory=dict)
    states: Mapping[int, str] = field(default_factory=dict)
    silent: frozenset[int] = frozenset()


def operator_answer(status: OperatorStatus, container: ContainerStatus, moment: Moment) -> dict[str, Any]:
    """One physical operator."""
    node = status.node
    latency = moment.latencies.get(node.id, {})
    totals, rates = moment.tuples[node.id]
    return {
        "id": node.id,
        "operator": node.title,
        "name": node.title,
        "logicalName": node.name,
        "className": node.class_name,
        "container": node.container,
        "host": container.host,
        "pid": container.pid,
        "stage": node.stage,
        "partition": node.partition,
        "unifierClass": node.class_name if node.unifier else None,
        "kind": node.kind,
        "status": _operator_state(status, moment),
        "currentWindowId": moment.current_window
        if moment.states.get(node.id) in _RUNNING
        else status.last_window,
        "recoveryWindowId": status.last_window,
        "totalTuplesProcessed": totals.tuples_in,
        "totalTuplesEmitted": totals.tuples_out,
        "tuplesProcessedPSMA": rates.tuples_in,
        "tuplesEmittedPSMA": rates.tuples_out,
        "cpuPercentageMA": status.cpu_percentage,
        "latencyMA": latency.get("averageMs"),
        **{name: latency.get(name) for name in _LATENCIES},
        "windowsBehind": moment.behind[node.id],
        "failureCount": status.failures,
        "lastHeartbeat": container.last_word,
        "stateBytes": status.state_bytes,
        "errors": status.errors,
        "errorTuples": list(status.error_tuples),
        "droppedWindows": status.dropped_windows,
        "queueSizeMA": status.queue,
        "ports": _ports(status, totals, rates),
    }


def throughput_answer(status: OperatorStatus, moment: Moment) -> dict[str, Any]:
    """The tuples of one physical operator, in sum and per second."""
    node = status.node
    totals, rates = moment.tuples[node.id]
    return {
        "operator": node.title,
        "id": node.id,
        "name": node.name,
        "tuplesIn": totals.tuples_in,
        "tuplesOut": totals.tuples_out,
        "tuplesInPerSecond": rates.tuples_in,
        "tuplesOutPerSecond": rates.tuples_out,
        "seconds": rates.seconds,
        "ports": _ports(status, totals, rates),
    }


def container_answer(container: ContainerStatus, topology: Topology, moment: Moment) -> dict[str, Any]:
    """One container."""
    operators = topology.containers[container.id]
    return {
        "id": container.id,
        "stage": container.stage,
        "host": container.host,
        "pid": container.pid,
        "jvmName": f"{container.pid}@{container.host}" if container.pid is not None else None,
        "state": _container_state(container, operators, moment),
        "operators": {str(operator): topology.by_id[operator].title for operator in operators},
        "numOperators": len(operators),
        "lastHeartbeat": container.last_word,
        "heartbeatAgeSeconds": max(0.0, moment.now - container.last_word)
        if container.last_word is not None
        else None,
        "startedTime": container.started,
        "stack": container.stack,
        "bytesOut": container.bytes_out,
        "lastWindowId": container.last_window,
    }


def age_answer(node: OperatorNode, place: str, figures: AgeFigures | None) -> dict[str, Any]:
    """The record ages of one physical operator at one place; without records in the last minute all are null."""
    head = {"operator": node.title, "id": node.id, "at": place, "level": LEVELS[place]}
    if figures is None:
        return {**head, **dict.fromkeys(_AGES), "count": 0, "negative": 0}
    f = figures
    seconds = (f.minimum, f.maximum, f.average, f.p50, f.p90, f.p99, f.p999, f.oldest_maximum)
    return {
        **head,
        **dict(zip(_AGES, map(milliseconds, seconds), strict=True)),
        "count": f.count,
        "negative": f.negative,
    }


def streams_answer(topology: Topology) -> list[dict[str, Any]]:
    """Each connected output port, and who reads from it."""
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for stream in topology.streams:
        sinks = found.setdefault((stream.name, stream.source, stream.source_port), [])
        sinks.append({"operatorId": stream.sink, "portName": stream.sink_port})
    return [
        {"logicalName": name, "source": {"operatorId": source, "portName": port}, "sinks": sinks}
        for (name, source, port), sinks in found.items()
    ]


def no_such(kind: str, number: int, known: Iterable[int]) -> str:
    """What to say of an id that does not exist."""
    ids = list(map(str, known))
    return f"there is no {kind} {number}; there are {', '.join(ids[:_NAMED]) or 'none'}{', ...' if len(ids) > _NAMED else ''}"


def _operator_state(status: OperatorStatus, moment: Moment) -> str:
    if moment.over or status.finished:
        return "INACTIVE"
    if status.node.container in moment.silent:
        return "SILENT"
    return _RUNNING.get(
        moment.states.get(status.node.id, ""), "PENDING" if status.last_window is None else "ACTIVE"
    )


def _container_state(container: ContainerStatus, operators: Iterable[int], moment: Moment) -> str:
    if container.id in moment.silent:
        return "SILENT"
    if container.heard and any(
        moment.states.get(operator) in {"running", "waiting"} for operator in operators
    ):
        return "RUNNING"
    return "PENDING" if container.last_word is None else "IDLE"


def _ports(status: OperatorStatus, totals: Totals, rates: Rates) -> list[dict[str, Any]]:
    """Ports that are connected or have had tuples.

    The queue is known of the operator: of its port if there is one.
    """
    node = status.node
    queue = status.queue if len(node.inputs) == 1 else None
    return [
        {
            "name": name,
            "type": kind,
            "totalTuples": counted.get(name, 0),
            "tuplesPSMA": per_second.get(name, 0.0),
            "queueSizeMA": queue if kind == "input" else None,
        }
        for kind, names, counted, per_second in (
            ("input", node.inputs, totals.inputs, rates.inputs),
            ("output", node.outputs, totals.outputs, rates.outputs),
        )
        for name in dict.fromkeys((*names, *counted))
    ]
