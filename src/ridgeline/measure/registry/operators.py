"""Metrics of operators, partition by partition."""

from __future__ import annotations

from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.registry.labels import LATENCY_BOUNDS_SECONDS, OPERATOR

_PORT = (*OPERATOR, "port")

OPERATORS = (
    Metric(
        "operator_window_latency_seconds",
        Kind.HISTOGRAM,
        "seconds",
        OPERATOR,
        "How much later a window's end leaves an operator than the slowest of those that it reads from; "
        "of inputs, their compute.",
        "A long tail is a straggler or skew: compare the partitions.",
        aliases=("Apex `latencyMA`",),
        bounds=LATENCY_BOUNDS_SECONDS,
    ),
    Metric(
        "operator_compute_seconds_total",
        Kind.COUNTER,
        "seconds",
        OPERATOR,
        "Time in an operator's own callbacks, that of a running window included as far as heartbeats "
        "report it.",
        "A rate near 1 is an operator that is always busy: partition it.",
        aliases=("Flink `busyTimeMsPerSecond`", "Kafka Streams `process-ratio`"),
    ),
    Metric(
        "operator_cpu_seconds_total",
        Kind.COUNTER,
        "seconds",
        OPERATOR,
        "Processor time of an operator's thread in its own callbacks, of windows that are committed.",
        "Far below the compute time, it waits for something outside, or others have the processor.",
        aliases=("Apex `cpuPercentageMA`",),
    ),
    Metric(
        "operator_wait_seconds_total",
        Kind.COUNTER,
        "seconds",
        OPERATOR,
        "Time in which an operator waited: for the stage before, a slot, or siblings in its container.",
        "Much of it: more slots, or fewer operators a container.",
        aliases=("Flink `idleTimeMsPerSecond`", "Kafka Streams `blocked-time-ns-total`"),
    ),
    Metric(
        "operator_transfer_seconds_total",
        Kind.COUNTER,
        "seconds",
        OPERATOR,
        "Time in which an operator's tuples or state moved: launch, shuffle, encode and decode, restore.",
        "Much of it: fuse the operator with those that it reads from, or send fewer columns.",
    ),
    Metric(
        "operator_records_in_total",
        Kind.COUNTER,
        "records",
        _PORT,
        "Tuples that came in at a port, in committed windows.",
        "Its rate is the throughput; compare the partitions for skew.",
        aliases=("Apex `totalTuplesProcessed`", "Flink `numRecordsIn`", "Bytewax `item_inp_count`"),
    ),
    Metric(
        "operator_records_out_total",
        Kind.COUNTER,
        "records",
        _PORT,
        "Tuples that an operator emitted at a port, in committed windows.",
        "Compare it with the records in: what an operator drops or multiplies.",
        aliases=("Apex `totalTuplesEmitted`", "Flink `numRecordsOut`", "Bytewax `item_out_count`"),
    ),
    Metric(
        "operator_records_rejected_total",
        Kind.COUNTER,
        "records",
        OPERATOR,
        "Tuples that an operator emitted on its error ports, connected or not.",
        "Alert on any rate; with `error_tuples_kept` some of them are shown.",
        aliases=("Kafka Streams `dropped-records-total`",),
    ),
    Metric(
        "operator_windows_dropped_total",
        Kind.COUNTER,
        "windows",
        OPERATOR,
        "Windows that an operator with `AT_MOST_ONCE` lost since it had failed in them.",
        "Alert on any rate; the reason is in the driver's log.",
    ),
    Metric(
        "operator_failures_total",
        Kind.COUNTER,
        "",
        OPERATOR,
        "How often an operator's failure made a window start again.",
        "Look for its exception in the driver's log.",
        aliases=("Apex `failureCount`",),
    ),
    Metric(
        "operator_windows_behind",
        Kind.GAUGE,
        "windows",
        OPERATOR,
        "How many windows an operator is behind the newest one that it could work on.",
        "If it grows, its container hangs: ask for its stack.",
    ),
    Metric(
        "operator_state_bytes",
        Kind.GAUGE,
        "bytes",
        OPERATOR,
        "Size of an operator's state in the last checkpoint.",
        "If it grows without end, keys are never forgotten.",
        aliases=("Flink `lastCheckpointSize`", "Spark `memoryUsedBytes`"),
    ),
    Metric(
        "operator_held_bytes", Kind.GAUGE, "bytes", OPERATOR, "What a slider keeps.", "Aggregate before it."
    ),
    Metric(
        "operator_queue_records",
        Kind.GAUGE,
        "records",
        OPERATOR,
        "Tuples that waited for an operator when its turn came, averaged over the last windows.",
        "It grows with the input; compare it among partitions.",
        aliases=("Apex `queueSizeMA`",),
    ),
)
