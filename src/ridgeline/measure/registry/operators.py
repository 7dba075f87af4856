"""Metrics of operators, partition by partition.

To add one, fill in a field of `OperatorWindow` and add a field to `OperatorMetricsAnswer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ridgeline.measure.answers.operators import OPERATOR_METRICS
from ridgeline.measure.metric import (
    LATENCY_BOUNDS_SECONDS,
    OPERATOR,
    Labelled,
    Labels,
    Metric,
    operator_labels,
)

if TYPE_CHECKING:
    from ridgeline.measure.registry.scrape import Scrape

_PORT = (*OPERATOR, "port")
_of_operator = partial(Metric, labels=OPERATOR)


def _total(field: str, scrape: Scrape) -> Iterator[tuple[Labels, Any]]:
    """Seconds of operators since the start."""
    for node, total in scrape.latencies:
        yield operator_labels(node.title, node.partition), getattr(total, field)


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


OPERATORS = (
    _of_operator(
        "operator_window_latency_seconds",
        "How much later a window's end leaves an operator than the slowest of those that it reads from; "
        "of inputs, their compute.",
        "A long tail is a straggler or skew: compare the partitions.",
        aliases=("Apex `latencyMA`",),
        bounds=LATENCY_BOUNDS_SECONDS,
        read=partial(_total, "latency"),
    ),
    _of_operator(
        "operator_compute_seconds_total",
        "Time in an operator's own callbacks, that of a running window included as far as heartbeats "
        "report it.",
        "A rate near 1 is an operator that is always busy: partition it.",
        aliases=("Flink `busyTimeMsPerSecond`", "Kafka Streams `process-ratio`"),
        read=_compute,
    ),
    _of_operator(
        "operator_cpu_seconds_total",
        "Processor time of an operator's own callbacks in committed windows.",
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
    *(row.metric for row in OPERATOR_METRICS if row.metric is not None),
)
"""Totals by operator and by port, which are folded apart, and fields of the answer about operators."""
