"""Metrics of sources, and of containers and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS, KIP_613_NAMES
from ridgeline.measure.answers.operators import ContainerAnswer, RecordAgeAnswer
from ridgeline.measure.answers.progress import SourceAnswer
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.answers.watermarks import WatermarkAnswer
from ridgeline.measure.metric import (
    OPERATOR,
    VERDICTS,
    Labelled,
    Labels,
    Metric,
    operator_labels,
)
from ridgeline.measure.registry.scrape import Scrape, of_answers, one, seconds, state


def _sources(scrape: Scrape) -> Sequence[SourceAnswer]:
    """The backlogs of sources."""
    return scrape.overview["progress"]["sources"]


def _queues(scrape: Scrape) -> Sequence[QueueAnswer]:
    """The queues that the region reads; none without regions."""
    return scrape.overview["progress"].get("queues", ())


def _catch_up(scrape: Scrape) -> Labelled:
    """The time until each source has caught up."""
    for row in _sources(scrape):
        at = row["caughtUpAt"]
        yield (row["operator"],), None if at is None else max(0.0, at - scrape.overview["at"])


def _verdicts(scrape: Scrape) -> Labelled:
    """The verdicts of sources."""
    for row in _sources(scrape):
        yield from state(VERDICTS, row["verdict"], (row["operator"],))


def _clock_skew(scrape: Scrape) -> Labelled:
    """The clock skew of each host."""
    for host, ms in scrape.info["stats"]["clockSkew"].items():
        yield (host,), seconds(ms)


def _refused(scrape: Scrape) -> Labelled:
    """Refused messages by reason."""
    for reason, count in scrape.info["stats"]["messagesRefusedByReason"].items():
        yield (reason,), count


_SOURCE = ("operator",)
_of_source = of_answers(
    SourceAnswer, lambda scrape: (((row["operator"],), row) for row in _sources(scrape)), _SOURCE
)
SOURCES = (
    _of_source(
        "source_backlog_records",
        "backlogRecords",
        "If it grows, the application is too slow for this source.",
        "Flink `pendingRecords`",
        "Spark `avgOffsetsBehindLatest`",
        "Databricks `STREAMING_BACKLOG_RECORDS`",
    ),
    _of_source(
        "source_backlog_bytes",
        "backlogBytes",
        "As `source_backlog_records`.",
        "Databricks `STREAMING_BACKLOG_BYTES`",
    ),
    _of_source(
        "source_backlog_seconds",
        "backlogSeconds",
        "Alert on it: it is how late results are.",
        "Dataflow `backlog_seconds`",
        "Databricks `STREAMING_BACKLOG_SECONDS`",
    ),
    _of_source("source_oldest_seconds", "oldest", "Alert on it: results are at least so old."),
    Metric(
        "source_catch_up_seconds",
        "Time until a source's backlog is processed. Absent while it does not fall.",
        "Absent with a backlog: it never catches up; add partitions or cores.",
        labels=_SOURCE,
        read=_catch_up,
    ),
    Metric(
        "source_verdict",
        "1 for a source's verdict.",
        "As `verdict`, for one source.",
        labels=(*_SOURCE, "verdict"),
        states=VERDICTS,
        read=_verdicts,
    ),
)

_of_queue = of_answers(
    QueueAnswer,
    lambda scrape: (((row["reader"], row["stream"]), row) for row in _queues(scrape)),
    ("operator", "stream"),
)
QUEUES = (
    _of_queue(
        "queue_backlog_records",
        "backlogRecords",
        "If it grows, the reader's region is too slow, or does not run.",
    ),
    _of_queue("queue_backlog_bytes", "backlogBytes", "As `queue_backlog_records`."),
    _of_queue(
        "queue_backlog_seconds",
        "backlogSeconds",
        "Alert on it below the queue's `keep`: there the writer's region is held back.",
    ),
    _of_queue(
        "queue_full",
        "full",
        "Start the reader's region, or make it faster; more `keep` gives it time.",
    ),
)


def _workers(scrape: Scrape) -> Iterable[tuple[Labels, ContainerAnswer]]:
    """The first container of each process that has said what it uses, with its host and process id."""
    found: dict[Labels, ContainerAnswer] = {}
    for row in scrape.containers:
        if row["memoryBytes"] is not None:
            found.setdefault((str(row["host"]), str(row["pid"])), row)
    return found.items()


_of_container = of_answers(
    ContainerAnswer,
    lambda scrape: (((str(row["id"]), str(row["host"])), row) for row in scrape.containers),
    ("container", "host"),
)
_of_worker = of_answers(ContainerAnswer, _workers, ("host", "pid"))
HOSTS = (
    _of_container(
        "container_heartbeat_age_seconds",
        "heartbeatAgeSeconds",
        "Above `heartbeat_timeout` while it works, its worker hangs or is gone: ask for its stack.",
        "Apex `lastHeartbeat`",
    ),
    _of_worker(
        "worker_memory_bytes",
        "memoryBytes",
        "If it grows without end, keys are never forgotten, or an operator holds what is no state.",
        "Apex `memoryMBFree`",
    ),
    _of_worker(
        "worker_cpu_seconds_total",
        "processCpuSeconds",
        "A rate above 1 is native code in several threads: give the slot as many cores.",
    ),
    Metric(
        "clock_skew_seconds",
        "How far a host's clock is behind STRAM's, as estimated; figures are corrected by it.",
        "Above 1 s, fix the host's NTP: timestamps that it gives to records are off by as much.",
        labels=("host",),
        read=_clock_skew,
    ),
    Metric(
        "messages_refused_total",
        "Messages and connections to STRAM that did not count: `unauthenticated`, `malformed`, `too large`, "
        "`late` or `too many`.",
        "Somebody else talks to STRAM's port, or a worker of an earlier run is still there.",
        labels=("reason",),
        read=_refused,
    ),
    Metric(
        "heartbeats_unsent_total",
        "Heartbeats that workers could not send, as they report once they are connected again.",
        "The driver's port cannot always be reached: look at the network, and at how busy the driver is.",
        read=one(lambda scrape: scrape.counts.heartbeats_unsent),
    ),
    Metric(
        "subscribers_dropped_total",
        "Subscribers of events, such as the event log, that raised an error and are called no more.",
        "Alert on any: what they write is incomplete; the traceback is in the driver's log.",
        read=one(lambda scrape: scrape.subscribers_dropped),
    ),
)


_STAGE = (*OPERATOR, "stage")
_RECENT = (*_STAGE, "level")


def _ages(scrape: Scrape) -> Labelled:
    """Record ages since the start."""
    for node, place, total in scrape.ages:
        labels = operator_labels(node.title, node.partition)
        yield (*labels, place), total


def _last_minute(scrape: Scrape) -> Iterator[tuple[Labels, RecordAgeAnswer]]:
    """Record ages of the last minute, with the labels of operator and place."""
    for row in scrape.overview["recordAge"]["operators"]:
        yield (*scrape.labels_of[row["operator"]], row["at"]), row


def _recent(scrape: Scrape, field: Literal["minMs", "maxMs", "avgMs"]) -> Labelled:
    """One of the statistics of the last minute."""
    for labels, row in _last_minute(scrape):
        yield (*labels, row["level"]), seconds(row[field])


def _marks(scrape: Scrape) -> Iterator[tuple[Labels, WatermarkAnswer]]:
    """The watermarks of operators."""
    for mark in scrape.watermarks["operators"]:
        yield scrape.labels_of[mark["operator"]], mark


_STATISTICS: tuple[tuple[str, Literal["minMs", "maxMs", "avgMs"], str], ...] = (
    ("minimum", "minMs", "Below 0: a clock is ahead, or timestamps lie in the future."),
    ("maximum", "maxMs", "How stale the stalest result is: alert on it at the stage `commit`."),
    ("average", "avgMs", "Its rise from stage to stage shows where records wait."),
)
RECORDS = (
    Metric(
        "record_latency_seconds",
        "Age of records when an operator was done with them: `source` read, `state` updated, `emit` "
        "written, `commit` visible to readers."
        " Negative ages count in the lowest bucket.",
        "`commit` less `source` is the application's own; what `source` has is the backlog.",
        labels=_STAGE,
        bounds=AGE_BOUNDS_SECONDS,
        read=_ages,
    ),
    *(
        Metric(
            f"record_latency_{statistic}_seconds",
            f"The {statistic} age of records over the last minute; absent after a minute without records. "
            "`level`: KIP-613's.",
            advice,
            labels=_RECENT,
            aliases=(f"KIP-613 `{KIP_613_NAMES[statistic]}` (there in milliseconds)",),
            read=partial(_recent, field=field),
        )
        for statistic, field, advice in _STATISTICS
    ),
    Metric(
        "record_latency_negative_records",
        "Records of the last minute whose age was negative.",
        "Fix the clocks of the hosts that write the timestamps; see `clock_skew_seconds`.",
        labels=_STAGE,
        read=lambda scrape: [(labels, row["negative"]) for labels, row in _last_minute(scrape)],
    ),
)

_of_mark = of_answers(WatermarkAnswer, _marks, OPERATOR)
WATERMARKS = (
    _of_mark(
        "watermark_timestamp_seconds",
        "watermark",
        "If it stands still, `ridgeline record-age --watermarks` names the input that holds it back.",
        "Flink `currentInputWatermark`",
    ),
    _of_mark(
        "watermark_lag_seconds",
        "lagSeconds",
        "So late are results of event time. Without an end an input is silent: give it `idle_after`.",
        "Dataflow `data_watermark_age`",
    ),
    Metric(
        "watermark_idle",
        "1 of an operator whose inputs, or that itself as an input, had no record for `idle_after`.",
        "It holds no watermark up; its next records may be late.",
        labels=OPERATOR,
        read=lambda scrape: [(labels, float(mark["state"] == "idle")) for labels, mark in _marks(scrape)],
    ),
    _of_mark(
        "records_late_total",
        "lateRecords",
        "If it rises, give the input a greater `lateness`, or the operator one of its own.",
        "Flink `numLateRecordsDropped`",
        "Spark `numRowsDroppedByWatermark`",
    ),
    _of_mark(
        "records_ahead_total",
        "recordsAhead",
        "Look for wrong clocks or units where these records are made.",
    ),
)
