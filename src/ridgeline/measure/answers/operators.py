"""Answers about operators, containers, streams and record ages, under Apex's names where it has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, NotRequired, cast, get_type_hints

from typing_extensions import TypedDict

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.age.record_age import LEVELS, AgeFigures
from ridgeline.measure.answers.regions import InRegionAnswer
from ridgeline.measure.answers.windows import LatencyTimesAnswer
from ridgeline.measure.moment import RUNNING, Moment, OperatorMoment
from ridgeline.measure.registry.operator_metric import (
    Column,
    Exported,
    Graph,
    OperatorMetric,
    Read,
    TerminalColumn,
)
from ridgeline.measure.status import ContainerStatus, OperatorStatus
from ridgeline.measure.topology import OperatorNode, Topology
from ridgeline.measure.wording.units import count, duration, milliseconds, percent, rate, size, time_of_day


class PortAnswer(TypedDict):
    """A port of a physical operator that is connected or has had tuples."""

    name: Annotated[str, "Name of the port."]
    type: Annotated[str, "`input` or `output`."]
    totalTuples: Annotated[int, "Tuples since the start."]
    tuplesPSMA: Annotated[float, "Tuples per second, averaged."]
    queueSizeMA: Annotated[float | None, "Tuples that waited at an input port, averaged."]


class OperatorPlaceAnswer(InRegionAnswer, TypedDict):
    """A physical operator: which one it is, where it runs, and whether it does."""

    id: Annotated[int, "Id of the physical operator."]
    operator: Annotated[str, "Its title, such as `book[1]`."]
    name: Annotated[str, "Its title, under Apex's name."]
    logicalName: Annotated[str, "Name of the logical operator."]
    className: Annotated[str, "Full name of its class."]
    container: Annotated[int, "Id of its container."]
    host: Annotated[str | None, "Host of its container's process."]
    pid: Annotated[int | None, "Id of its container's process."]
    stage: Annotated[int, "Stage of its container."]
    partition: Annotated[int, "Number of the partition, from 0."]
    unifierClass: Annotated[str | None, "Class of the unifier; null for a partition."]
    kind: Annotated[str, "`input`, `operator`, `output`, `dead letters`, or `observer` (a query)."]
    status: Annotated[str, "`PENDING`, `ACTIVE`, `WAITING`, `DONE`, `SILENT` or `INACTIVE`."]


_LATENCY = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(LatencyTimesAnswer, include_extras=True).items()
    if name != "region"
}
"""What the fields of `/latency` mean."""


class OperatorMetricsAnswer(TypedDict):
    """The metrics of a physical operator: see `OperatorMetric` for what a field says."""

    currentWindowId: Annotated[
        int | None,
        "The window that it works on, or its last one.",
        Read(lambda seen: seen.current_window),
        TerminalColumn("window", str, keep=7),
    ]
    recoveryWindowId: Annotated[
        int | None, "Its last committed window.", Read(lambda seen: seen.status.last_window)
    ]
    totalTuplesProcessed: Annotated[
        int,
        "Tuples in, since the start.",
        Read(lambda seen: seen.totals.tuples_in),
        TerminalColumn("processed", count, keep=5),
    ]
    totalTuplesEmitted: Annotated[
        int,
        "Tuples out, since the start.",
        Read(lambda seen: seen.totals.tuples_out),
        TerminalColumn("emitted", count, keep=2),
    ]
    tuplesProcessedPSMA: Annotated[
        float,
        "Tuples in per second, averaged.",
        Read(lambda seen: seen.rates.tuples_in),
        TerminalColumn("in/s", rate, keep=9),
    ]
    tuplesEmittedPSMA: Annotated[
        float,
        "Tuples out per second, averaged.",
        Read(lambda seen: seen.rates.tuples_out),
        TerminalColumn("out/s", rate, keep=6),
    ]
    latencyMA: Annotated[
        float | None,
        "Mean latency of the last 10 windows, in milliseconds.",
        Read(lambda seen: seen.latency.get("averageMs")),
        TerminalColumn("latency", milliseconds, keep=10),
    ]
    cpuPercentageMA: Annotated[
        float | None,
        "Processor time per wall time over the last windows, in percent.",
        Read(lambda seen: seen.moment.lately.cpu_percentage(seen.status.node.id)),
        TerminalColumn("cpu", percent, keep=4),
    ]
    estimated: Annotated[
        bool,
        "True if its times in the last window are estimated: see `/latency`.",
        Read(lambda seen: bool(seen.latency.get("estimated"))),
    ]
    latencyMs: Annotated[float | None, _LATENCY["latencyMs"]]
    computeMs: Annotated[float | None, _LATENCY["computeMs"]]
    cpuMs: Annotated[float | None, _LATENCY["cpuMs"]]
    waitMs: Annotated[float | None, _LATENCY["waitMs"]]
    transferMs: Annotated[float | None, _LATENCY["transferMs"]]
    p50Ms: Annotated[float | None, _LATENCY["p50Ms"]]
    p99Ms: Annotated[float | None, _LATENCY["p99Ms"]]
    failureCount: Annotated[
        int,
        "How often an operator's failure made a window start again.",
        Read(lambda seen: seen.status.counts["failureCount"]),
        Exported(
            "operator_failures_total",
            "Look for its exception in the driver's log.",
            ("Apex `failureCount`",),
        ),
        Graph("Failures and dropped windows", "{} failures"),
        TerminalColumn("failures", count, keep=3, warns=True),
    ]
    errors: Annotated[
        int,
        "Tuples that an operator emitted at its error ports, connected or not, or left out.",
        Column("errors", summed=True),
        Exported(
            "operator_records_rejected_total",
            "Alert on any rate; with `error_tuples_kept` some of them are shown.",
            ("Kafka Streams `dropped-records-total`",),
        ),
        Graph("Rejected records"),
        TerminalColumn("errors", count, keep=4, warns=True),
    ]
    errorTuples: Annotated[
        list[str], "The last of them, as text.", Read(lambda seen: list(seen.status.error_tuples))
    ]
    lateRecords: Annotated[
        int,
        "Records that came too late, since the start; they are no errors.",
        Column("late", summed=True),
    ]
    droppedWindows: Annotated[
        int,
        "Windows that an operator with `AT_MOST_ONCE` lost since it had failed in them.",
        Read(lambda seen: seen.status.counts["droppedWindows"]),
        Exported("operator_windows_dropped_total", "Alert on any rate; the reason is in the driver's log."),
        Graph("Failures and dropped windows", "{} dropped"),
    ]
    windowsBehind: Annotated[
        int,
        "Windows that are over by the schedule and that an operator has not completed.",
        Read(lambda seen: seen.moment.behind.get(seen.status.node.id, 0)),
        Exported("operator_windows_behind", "If it grows, its container hangs: ask for its stack."),
        Graph("Windows behind"),
    ]
    lastHeartbeat: Annotated[
        float | None,
        "When its container's last heartbeat or report came.",
        Read(lambda seen: seen.container.last_seen),
    ]
    stateBytes: Annotated[
        int,
        "Bytes of state that an operator's last window changed.",
        Column("state_bytes"),
        Exported(
            "operator_state_bytes",
            "If it grows, each window changes more keys.",
            ("Flink `lastCheckpointSize`", "Spark `memoryUsedBytes`"),
        ),
        Graph("State"),
    ]
    lastStateWritten: Annotated[
        float | None,
        "When an operator's state was last written, in seconds since 1970.",
        Read(lambda seen: float(seen.status.row["written"]) or None),
        Exported(
            "operator_state_written_timestamp_seconds",
            "It stands still while the state does not change.",
            ("Apex `checkpointStartTime`",),
        ),
        Graph("State written"),
        TerminalColumn("state written", time_of_day, keep=1, unless_zero=True),
    ]
    lastStateSeconds: Annotated[
        float | None,
        "How long an operator's state took when it was last written, with the file it is in.",
        Read(lambda seen: float(seen.status.row["writing"]) if seen.status.row["written"] else None),
        Exported(
            "operator_state_write_seconds",
            "If it grows, the checkpoint's disk is slow, or see `operator_state_bytes`.",
            ("Apex `checkpointTimeMA`",),
        ),
        Graph("Time to write state"),
        TerminalColumn("writing", duration, keep=1, unless_zero=True),
    ]
    heldBytes: Annotated[
        int,
        "Bytes of tuples that an operator keeps for sliding application windows.",
        Column("held_bytes"),
        Exported("operator_held_bytes", "Aggregate before it."),
        Graph("State", "slides of {}"),
        TerminalColumn("held", size, unless_zero=True),
    ]
    queueSizeMA: Annotated[
        float | None,
        "Tuples that waited for an operator when its turn came, averaged over the last windows.",
        Read(lambda seen: seen.moment.lately.queue(seen.status.node.id)),
        Exported(
            "operator_queue_records",
            "It grows with the input; compare it among partitions.",
            ("Apex `queueSizeMA`",),
        ),
        Graph("Queue"),
    ]


OPERATOR_METRICS = tuple(
    OperatorMetric(name, hint)
    for name, hint in get_type_hints(OperatorMetricsAnswer, include_extras=True).items()
)
"""The metrics of a physical operator, in the order of the REST answer's fields."""
KEPT, SUMMED = (
    [row.source.name for row in OPERATOR_METRICS if row.source is not None and row.source.summed is summed]
    for summed in (False, True)
)
"""The columns of reports that rows show as of the last window, and as sums since the start."""


class OperatorAnswer(OperatorPlaceAnswer, OperatorMetricsAnswer):
    """A physical operator: a partition, or a unifier."""

    ports: Annotated[list[PortAnswer], "Its ports."]


class ContainerAnswer(InRegionAnswer, TypedDict):
    """A container: the operators that one task runs together."""

    id: Annotated[int, "Id of the container."]
    stage: Annotated[int, "Its stage, from 0."]
    host: Annotated[str | None, "Host of its process."]
    pid: Annotated[int | None, "Id of its process."]
    jvmName: Annotated[str | None, "`pid@host`, under Apex's name."]
    state: Annotated[str, "`PENDING`, `RUNNING`, `IDLE` or `SILENT`."]
    operators: Annotated[dict[str, str], "Its operators: titles by id."]
    numOperators: Annotated[int, "How many they are."]
    lastHeartbeat: Annotated[float | None, "When a heartbeat or a report of it came last."]
    heartbeatAgeSeconds: Annotated[float | None, "Seconds since its last heartbeat or report."]
    startedTime: Annotated[float | None, "When the first heartbeat or report of its present process came."]
    stack: Annotated[str, "Where its thread was by the last heartbeat of the running window; else empty."]
    bytesOut: Annotated[int, "Bytes that it sent to other containers, since the start."]
    lastWindowId: Annotated[int | None, "Its last committed window."]
    memoryBytes: Annotated[int | None, "Memory of its process; as the next two null without heartbeats."]
    processCpuSeconds: Annotated[float | None, "Processor time of its process since it began, all threads."]
    garbageCollections: Annotated[int | None, "Full collections of garbage in its process."]


class RecordAgeAnswer(InRegionAnswer, TypedDict):
    """The record ages of a physical operator at one place over the last minute; null without records."""

    operator: Annotated[str, "Title of the physical operator."]
    id: Annotated[int, "Id of the physical operator."]
    at: Annotated[str, "`source`, `state`, `emit`, `commit` or `publish`."]
    level: Annotated[str, "Recording level of the place, KIP-613's."]
    minMs: Annotated[float | None, "The least age; below 0 if a clock is ahead."]
    maxMs: Annotated[float | None, "The greatest age."]
    avgMs: Annotated[float | None, "The mean age."]
    p50Ms: Annotated[float | None, "The median."]
    p90Ms: Annotated[float | None, "The 90th percentile."]
    p99Ms: Annotated[float | None, "The 99th percentile."]
    p999Ms: Annotated[float | None, "The 99.9th percentile."]
    oldestMs: Annotated[float | None, "The greatest age of the oldest record that went into a result."]
    count: Annotated[int, "Records."]
    negative: Annotated[int, "Records whose age was below 0."]


class RecordAgesAnswer(TypedDict):
    """Record ages by operator and place."""

    operators: Annotated[list[RecordAgeAnswer], "A row for each operator and place that has ever had ages."]
    fromNewestRecord: Annotated[bool, "Ages are from the newest record: see `ages_from_newest_record`."]


class PortRefAnswer(TypedDict):
    """A port of a physical operator, by id."""

    operatorId: Annotated[int, "Id of the physical operator."]
    portName: Annotated[str, "Name of the port."]


class StreamAnswer(TypedDict):
    """A connected output port, and who reads from it."""

    logicalName: Annotated[str, "Name of the logical stream."]
    source: Annotated[PortRefAnswer, "The output port."]
    sinks: Annotated[list[PortRefAnswer], "The input ports that read from it."]
    kind: Annotated[NotRequired[str], "`queue` for a durable queue between regions."]


_NAMED = 20  # ids that a message names


def operator_answer(seen: OperatorMoment) -> OperatorAnswer:
    """One physical operator."""
    status, container = seen.status, seen.container
    node = status.node
    place: OperatorPlaceAnswer = {
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
        "status": operator_state(status, seen.moment),
    }
    metrics = {row.name: row.value(seen) for row in OPERATOR_METRICS}
    return cast("OperatorAnswer", {**place, **metrics, "ports": _ports(seen)})


def container_answer(container: ContainerStatus, topology: Topology, moment: Moment) -> ContainerAnswer:
    """One container."""
    operators, usage = topology.containers[container.id], container.usage
    return {
        "id": container.id,
        "stage": topology.stage_of[container.id],
        "host": container.host,
        "pid": container.pid,
        "jvmName": f"{container.pid}@{container.host}" if container.pid is not None else None,
        "state": _container_state(container, operators, moment),
        "operators": {str(operator): topology.by_id[operator].title for operator in operators},
        "numOperators": len(operators),
        "lastHeartbeat": container.last_seen,
        "heartbeatAgeSeconds": max(0.0, moment.now - container.last_seen)
        if container.last_seen is not None
        else None,
        "startedTime": container.started,
        "stack": container.stack,
        "bytesOut": container.bytes_out,
        "lastWindowId": container.last_window,
        "memoryBytes": None if usage is None else usage.memory_bytes,
        "processCpuSeconds": None if usage is None else usage.cpu_seconds,
        "garbageCollections": None if usage is None else usage.collections,
    }


_AGES = {
    **{f"{short}Ms": name for short, name in (("min", "minimum"), ("max", "maximum"), ("avg", "average"))},
    **{f"{name}Ms": name for name in ("p50", "p90", "p99", "p999")},
    "oldestMs": "oldest_maximum",
}
"""The fields of record ages in milliseconds, and the figures that they are."""


def age_answer(node: OperatorNode, place: str, figures: AgeFigures | None) -> RecordAgeAnswer:
    """The record ages of one physical operator at one place; null without records in the last minute."""
    row: Any = {"operator": node.title, "id": node.id, "at": place, "level": LEVELS[place]}
    for field, name in _AGES.items():
        row[field] = None if figures is None else as_ms(getattr(figures, name))
    row["count"], row["negative"] = (0, 0) if figures is None else (figures.count, figures.negative)
    return cast("RecordAgeAnswer", row)


def streams_answer(topology: Topology) -> list[StreamAnswer]:
    """Each connected output port, and who reads from it."""
    found: dict[tuple[str, int, str], list[PortRefAnswer]] = {}
    for stream in topology.streams:
        sinks = found.setdefault((stream.name, stream.source, stream.source_port), [])
        sinks.append({"operatorId": stream.sink, "portName": stream.sink_port})
    return [
        {"logicalName": name, "source": {"operatorId": source, "portName": port}, "sinks": sinks}
        for (name, source, port), sinks in found.items()
    ]


def no_such(kind: str, number: int, known: Iterable[int]) -> str:
    """The error text of an id that does not exist."""
    ids = list(map(str, known))
    return (
        f"there is no {kind} {number}; there are "
        f"{', '.join(ids[:_NAMED]) or 'none'}{', ...' if len(ids) > _NAMED else ''}"
    )


def operator_state(status: OperatorStatus, moment: Moment) -> str:
    """The status of an operator at a moment."""
    if moment.over or status.row["finished"]:
        return "INACTIVE"
    if status.node.container in moment.doing.silent:
        return "SILENT"
    return RUNNING.get(
        moment.doing.states.get(status.node.id, ""), "PENDING" if status.last_window is None else "ACTIVE"
    )


def _container_state(container: ContainerStatus, operators: Iterable[int], moment: Moment) -> str:
    if container.id in moment.doing.silent:
        return "SILENT"
    if container.has_heartbeat and any(
        moment.doing.states.get(operator) in {"running", "waiting"} for operator in operators
    ):
        return "RUNNING"
    return "PENDING" if container.pid is None else "IDLE"


def _ports(seen: OperatorMoment) -> list[PortAnswer]:
    """Ports that are connected or have had tuples."""
    node, totals, rates, lately = seen.status.node, seen.totals, seen.rates, seen.moment.lately
    return [
        {
            "name": name,
            "type": kind,
            "totalTuples": counted.get(name, 0),
            "tuplesPSMA": per_second.get(name, 0.0),
            "queueSizeMA": lately.queue(node.id, name) if kind == "input" else None,
        }
        for kind, names, counted, per_second in (
            ("input", node.inputs, totals.inputs, rates.inputs),
            ("output", node.outputs, totals.outputs, rates.outputs),
        )
        for name in dict.fromkeys((*names, *counted))
    ]


class HeavyKeyAnswer(TypedDict):
    """A key that many tuples have."""

    key: Annotated[str, "The key; of a codec that does not say what it is, a tuple with that key."]
    share: Annotated[float, "Its share of the tuples of the operator."]
    error: Annotated[float, "How far off the share may be: it comes of a sample."]
    hash: Annotated[str, "Its hash, as 16 hexadecimal digits."]
    partitions: Annotated[list[int], "The partitions that get its tuples."]


class OperatorKeysAnswer(TypedDict):
    """An operator that is divided by key."""

    operator: Annotated[str, "Its name."]
    tuples: Annotated[int, "How many tuples were counted, in some of the windows."]
    imbalance: Annotated[float | None, "The share of the fullest partition, as a multiple of an even one."]
    byPartition: Annotated[list[float], "The share of each partition; empty before anything was counted."]
    heavy: Annotated[list[HeavyKeyAnswer], "The heaviest keys, the heaviest first."]
    partitioner: Annotated[str, "How it is divided."]
    sharedCells: Annotated[int, "How many cells of keys are shared by several partitions."]
    fixed: Annotated[str, "Why nobody may divide it otherwise; empty if one may."]
    alone: Annotated[str, "Why no key may be shared by several partitions; empty if one may."]


class KeysAnswer(TypedDict):
    """The operators that are divided by key."""

    seconds: Annotated[float, "Of how many seconds the figures are, at most."]
    operators: Annotated[list[OperatorKeysAnswer], "In the order of the plan."]


class LineAnswer(TypedDict):
    """A line at which an operator spent time. All figures are estimates: they come of samples."""

    file: Annotated[str, "The file that it is in; empty for all that is not said by line."]
    line: Annotated[int, "Its number; 0 for all that is not said by line."]
    function: Annotated[str, "The qualified name of the function that it is in."]
    text: Annotated[str, "The line itself; empty where its file is not at hand."]
    seconds: Annotated[float, "Time spent there, with what it calls, over all partitions."]
    share: Annotated[float, "Its part of the operator's time."]
    ofPath: Annotated[float, "Its part of the critical path of the averages; 0 beside the path."]


class OperatorLinesAnswer(InRegionAnswer, TypedDict):
    """Where the time of a logical operator goes."""

    operator: Annotated[str, "Name of the logical operator."]
    seconds: Annotated[float, "Time of its samples, over all partitions; the engine's for it included."]
    lines: Annotated[list[LineAnswer], "Its lines, the one with the most time first."]


class LinesAnswer(TypedDict):
    """Where the Python time of operators goes, by line."""

    seconds: Annotated[float, "Of how many last seconds the figures are, at most."]
    operators: Annotated[list[OperatorLinesAnswer], "Those with the most time first."]


class MetricAnswer(TypedDict):
    """A metric that an operator declares, as of the last application window that has ended."""

    operator: Annotated[str, "Name of the logical operator, or title of its unifiers."]
    metric: Annotated[str, "Name of the metric: of the field or method."]
    kind: Annotated[str, "`gauge` or `counter`."]
    aggregate: Annotated[str, "The function that makes one value of those of the partitions."]
    unit: Annotated[str, "Its unit; empty if it has none."]
    help: Annotated[str, "What it is, in its author's words."]
    windowId: Annotated[int | None, "The window with which the application window ended; null before one."]
    at: Annotated[float | None, "When that was reported, seconds since 1970."]
    value: Annotated[float | None, "The value over all partitions; null if there is none in that window."]
    total: Annotated[float | None, "Of a counter, the sum since the start of the run, or what is cumulative."]
    partitions: Annotated[list[float | None], "The value of each partition, from partition 0 on."]
    partitionTotals: Annotated[list[float | None], "Of a counter, `total` of each partition."]
    problem: Annotated[str, "Why the author's aggregate has made no value; empty if nothing was wrong."]


class MetricsAnswer(TypedDict):
    """The metrics that operators declare."""

    metrics: Annotated[list[MetricAnswer], "In the order of the plan, and of their declaration."]


class MetricWindowAnswer(TypedDict):
    """A metric's value in one window."""

    windowId: Annotated[int, "The window with which the application window ended."]
    at: Annotated[float, "When it was reported, seconds since 1970."]
    value: Annotated[float, "The value over all partitions."]


class MetricHistoryAnswer(MetricAnswer):
    """A metric over time."""

    windows: Annotated[list[MetricWindowAnswer], "The last windows, at most 1,000, the newest last."]
