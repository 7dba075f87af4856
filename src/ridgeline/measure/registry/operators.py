"""Metrics of operators, partition by partition.

To add one, fill in a field of `OperatorWindow` and add a row to `OPERATOR_METRICS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, get_type_hints

from ridgeline.measure.answers.windows import LatencyTimesAnswer
from ridgeline.measure.metric import (
    LATENCY_BOUNDS_SECONDS,
    OPERATOR,
    Distribution,
    Labelled,
    Labels,
    Metric,
    operator_labels,
)
from ridgeline.measure.moment import OperatorMoment
from ridgeline.measure.registry.operator_metric import Graph, OperatorMetric, TerminalColumn
from ridgeline.measure.wording.units import count, duration, milliseconds, percent, rate, size, time_of_day

if TYPE_CHECKING:
    from ridgeline.measure.registry.scrape import Scrape

_PORT = (*OPERATOR, "port")
_of_operator = partial(Metric, labels=OPERATOR)


_TIMES = get_type_hints(LatencyTimesAnswer, include_extras=True)


def _total(field: str, scrape: Scrape) -> Iterator[tuple[Labels, float]]:
    """A sum of seconds of operators since the start."""
    for node, total in scrape.latencies:
        yield operator_labels(node.title, node.partition), getattr(total, field)


def _latencies(scrape: Scrape) -> Labelled:
    """The latencies of operators since the start."""
    for node, total in scrape.latencies:
        yield operator_labels(node.title, node.partition), Distribution(total.counts, total.latency)


def _compute(scrape: Scrape) -> Labelled:
    """The compute time of operators since the start, with that in the running window."""
    progress = scrape.overview["progress"]
    rows = progress["operators"] if progress["running"] else ()
    spent = {scrape.labels_of[row["operator"]]: row["secondsSpent"] or 0.0 for row in rows}
    for labels, seconds in _total("compute", scrape):
        yield labels, seconds + spent.get(labels, 0.0)


def _records(kind: str, scrape: Scrape) -> Labelled:
    """The tuples at ports of a kind since the start."""
    for row in scrape.overview["operators"]:
        for port in row["ports"]:
            if port["type"] == kind:
                yield (*scrape.labels_of[row["name"]], port["name"]), port["totalTuples"]


def _of_latency(field: str, seen: OperatorMoment) -> object:
    """A field of the operator's row in `/latency`."""
    return seen.latency.get(field)


_TIMES_AND_RECORDS = (
    _of_operator(
        "operator_window_latency_seconds",
        "How much later a window's end leaves an operator than the slowest of those that it reads from; "
        "of inputs, their compute.",
        "A long tail is a straggler or skew: compare the partitions.",
        aliases=("Apex `latencyMA`",),
        bounds=LATENCY_BOUNDS_SECONDS,
        read=_latencies,
    ),
    _of_operator(
        "operator_compute_seconds_total",
        "Time in an operator's own callbacks, that of a running window included as far as heartbeats "
        "report it. Of expression steps in one query, an estimated share of its time.",
        "A rate near 1 is an operator that is always busy: partition it.",
        aliases=("Flink `busyTimeMsPerSecond`", "Kafka Streams `process-ratio`"),
        read=_compute,
    ),
    _of_operator(
        "operator_cpu_seconds_total",
        "Processor time of an operator's thread in its own callbacks, of windows that are committed. Of "
        "expression steps in one query, an estimated share.",
        "Far below the compute time, it waits for something outside, or others have the processor.",
        aliases=("Apex `cpuPercentageMA`",),
        read=partial(_total, "cpu"),
    ),
    _of_operator(
        "operator_wait_seconds_total",
        "Time in which an operator waited: for the stage before, a slot, or siblings in its container.",
        "Much of it: more slots, or fewer operators a container.",
        aliases=("Flink `idleTimeMsPerSecond`", "Kafka Streams `blocked-time-ns-total`"),
        read=partial(_total, "wait"),
    ),
    _of_operator(
        "operator_transfer_seconds_total",
        "Time in which an operator's tuples or state moved: launch, shuffle, encode and decode, restore.",
        "Much of it: fuse the operator with those that it reads from, or send fewer columns.",
        read=partial(_total, "transfer"),
    ),
    Metric(
        "operator_records_in_total",
        "Tuples that came in at a port, in committed windows.",
        "Its rate is the throughput; compare the partitions for skew.",
        labels=_PORT,
        aliases=("Apex `totalTuplesProcessed`", "Flink `numRecordsIn`", "Bytewax `item_inp_count`"),
        read=partial(_records, "input"),
    ),
    Metric(
        "operator_records_out_total",
        "Tuples that an operator emitted at a port, in committed windows.",
        "Compare it with the records in: what an operator drops or multiplies.",
        labels=_PORT,
        aliases=("Apex `totalTuplesEmitted`", "Flink `numRecordsOut`", "Bytewax `item_out_count`"),
        read=partial(_records, "output"),
    ),
)
"""Totals by operator and by port, which are folded apart from the rows below."""

OPERATOR_METRICS: tuple[OperatorMetric, ...] = (
    OperatorMetric(
        name="currentWindowId",
        type=int | None,
        help="The window that it works on, or its last one.",
        read=lambda seen: seen.current_window,
        column=TerminalColumn("window", str, keep=7),
    ),
    OperatorMetric(
        name="recoveryWindowId",
        type=int | None,
        help="Its last committed window.",
        read=lambda seen: seen.status.last_window,
    ),
    OperatorMetric(
        name="totalTuplesProcessed",
        type=int,
        help="Tuples in, since the start.",
        read=lambda seen: seen.totals.tuples_in,
        column=TerminalColumn("processed", count, keep=5),
    ),
    OperatorMetric(
        name="totalTuplesEmitted",
        type=int,
        help="Tuples out, since the start.",
        read=lambda seen: seen.totals.tuples_out,
        column=TerminalColumn("emitted", count, keep=2),
    ),
    OperatorMetric(
        name="tuplesProcessedPSMA",
        type=float,
        help="Tuples in per second, averaged.",
        read=lambda seen: seen.rates.tuples_in,
        column=TerminalColumn("in/s", rate, keep=9),
    ),
    OperatorMetric(
        name="tuplesEmittedPSMA",
        type=float,
        help="Tuples out per second, averaged.",
        read=lambda seen: seen.rates.tuples_out,
        column=TerminalColumn("out/s", rate, keep=6),
    ),
    OperatorMetric(
        name="latencyMA",
        type=float | None,
        help="Mean latency of the last 10 windows, in milliseconds.",
        read=partial(_of_latency, "averageMs"),
        column=TerminalColumn("latency", milliseconds, keep=10),
    ),
    OperatorMetric(
        name="cpuPercentageMA",
        type=float | None,
        help="Processor time per wall time over the last windows, in percent.",
        read=lambda seen: seen.moment.lately.cpu_percentage(seen.status),
        column=TerminalColumn("cpu", percent, keep=4),
    ),
    OperatorMetric(
        name="estimated",
        type=bool,
        help="True if its times in the last window are estimated: see `/latency`.",
        read=lambda seen: bool(seen.latency.get("estimated")),
    ),
    *(
        OperatorMetric(
            name=name, type=float | None, help=_TIMES[name].__metadata__[0], read=partial(_of_latency, name)
        )
        for name in ("latencyMs", "computeMs", "cpuMs", "waitMs", "transferMs", "p50Ms", "p99Ms")
    ),
    OperatorMetric(
        name="failureCount",
        type=int,
        help="How often an operator's failure made a window start again.",
        read=lambda seen: seen.status.counts["failureCount"],
        exported="operator_failures_total",
        advice="Look for its exception in the driver's log.",
        aliases=("Apex `failureCount`",),
        graph=Graph("Failures and dropped windows", "{} failures"),
        column=TerminalColumn("failures", count, keep=3, warns=True),
    ),
    OperatorMetric(
        name="errors",
        type=int,
        help="Tuples that an operator emitted at its error ports, connected or not, or left out.",
        count="errors",
        exported="operator_records_rejected_total",
        advice="Alert on any rate; with `error_tuples_kept` some of them are shown.",
        aliases=("Kafka Streams `dropped-records-total`",),
        graph=Graph("Rejected records"),
        column=TerminalColumn("errors", count, keep=4, warns=True),
    ),
    OperatorMetric(
        name="errorTuples",
        type=list[str],
        help="The last of them, as text.",
        read=lambda seen: list(seen.status.error_tuples),
    ),
    OperatorMetric(
        name="lateRecords",
        type=int,
        help="Records that came too late, since the start; they are no errors.",
        count="late",
    ),
    OperatorMetric(
        name="droppedWindows",
        type=int,
        help="Windows that an operator with `AT_MOST_ONCE` lost since it had failed in them.",
        read=lambda seen: seen.status.counts["droppedWindows"],
        exported="operator_windows_dropped_total",
        advice="Alert on any rate; the reason is in the driver's log.",
        graph=Graph("Failures and dropped windows", "{} dropped"),
    ),
    OperatorMetric(
        name="windowsBehind",
        type=int,
        help="Windows that are over by the schedule and that an operator has not completed.",
        read=lambda seen: seen.moment.behind.get(seen.status.node.id, 0),
        exported="operator_windows_behind",
        advice="If it grows, its container hangs: ask for its stack.",
        graph=Graph("Windows behind"),
    ),
    OperatorMetric(
        name="lastHeartbeat",
        type=float | None,
        help="When its container's last heartbeat or report came.",
        read=lambda seen: seen.container.last_seen,
    ),
    OperatorMetric(
        name="stateBytes",
        type=int,
        help="Bytes of state that an operator's last window changed.",
        last="state_bytes",
        exported="operator_state_bytes",
        advice="If it grows, each window changes more keys.",
        aliases=("Flink `lastCheckpointSize`", "Spark `memoryUsedBytes`"),
        graph=Graph("State"),
    ),
    OperatorMetric(
        name="lastStateWritten",
        type=float | None,
        help="When an operator's state was last written, in seconds since 1970.",
        read=lambda seen: seen.status.last_state_written,
        exported="operator_state_written_timestamp_seconds",
        advice="It stands still while the state does not change.",
        aliases=("Apex `checkpointStartTime`",),
        graph=Graph("State written"),
        column=TerminalColumn("state written", time_of_day, keep=1, unless_zero=True),
    ),
    OperatorMetric(
        name="lastStateSeconds",
        type=float | None,
        help="How long an operator's state took when it was last written, with the file it is in.",
        read=lambda seen: seen.status.last_state_seconds,
        exported="operator_state_write_seconds",
        advice="If it grows, the disk of the checkpoint is slow, or a window changes much: see "
        "`operator_state_bytes`.",
        aliases=("Apex `checkpointTimeMA`",),
        graph=Graph("Time to write state"),
        column=TerminalColumn("writing", duration, keep=1, unless_zero=True),
    ),
    OperatorMetric(
        name="heldBytes",
        type=int,
        help="Bytes of tuples that an operator keeps for sliding application windows.",
        last="held_bytes",
        exported="operator_held_bytes",
        advice="Aggregate before it.",
        graph=Graph("State", "slides of {}"),
        column=TerminalColumn("held", size, unless_zero=True),
    ),
    OperatorMetric(
        name="queueSizeMA",
        type=float | None,
        help="Tuples that waited for an operator when its turn came, averaged over the last windows.",
        read=lambda seen: seen.moment.lately.queue(seen.status),
        exported="operator_queue_records",
        advice="It grows with the input; compare it among partitions.",
        aliases=("Apex `queueSizeMA`",),
        graph=Graph("Queue"),
    ),
)
"""The metrics of a physical operator, in the order of the REST answer's fields."""

KEPT, SUMMED = ([one for row in OPERATOR_METRICS if (one := getattr(row, how))] for how in ("last", "count"))
"""The columns of reports that rows show as of the last window, and as sums since the start."""
OPERATORS = (
    *_TIMES_AND_RECORDS,
    *(row.metric for row in OPERATOR_METRICS if row.metric is not None),
)
