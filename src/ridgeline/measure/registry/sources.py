"""Metrics of sources, and of containers and hosts."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.measure.answers.progress import SourceAnswer
from ridgeline.measure.answers.regions import QueueAnswer
from ridgeline.measure.metric import Kind
from ridgeline.measure.registry.labels import VERDICTS
from ridgeline.measure.registry.scrape import Labelled, Labels, Scrape, ScrapedMetric, one, seconds, state


def _sources(scrape: Scrape) -> Sequence[SourceAnswer]:
    """The backlogs of sources."""
    return scrape.overview["progress"]["sources"]


def _queues(scrape: Scrape) -> Sequence[QueueAnswer]:
    """The queues that the region reads; none without regions."""
    return scrape.overview["progress"].get("queues", ())


def _ends(row: QueueAnswer) -> Labels:
    """The labels of a queue."""
    return row["reader"], row["stream"]


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
SOURCES = (
    ScrapedMetric(
        "source_backlog_records",
        Kind.GAUGE,
        "records",
        _SOURCE,
        "Records that a source has not given to the application yet. Absent where unknown.",
        "If it grows, the application is too slow for this source.",
        aliases=(
            "Flink `pendingRecords`",
            "Spark `avgOffsetsBehindLatest`",
            "Databricks `STREAMING_BACKLOG_RECORDS`",
        ),
        read=lambda scrape: [((row["operator"],), row["backlogRecords"]) for row in _sources(scrape)],
    ),
    ScrapedMetric(
        "source_backlog_bytes",
        Kind.GAUGE,
        "bytes",
        _SOURCE,
        "Bytes that a source has not given to the application yet. Absent where unknown.",
        "As `source_backlog_records`.",
        aliases=("Databricks `STREAMING_BACKLOG_BYTES`",),
        read=lambda scrape: [((row["operator"],), row["backlogBytes"]) for row in _sources(scrape)],
    ),
    ScrapedMetric(
        "source_backlog_seconds",
        Kind.GAUGE,
        "seconds",
        _SOURCE,
        "How long a source's backlog takes at the current drain rate, were nothing to arrive.",
        "Alert on it: it is how late results are.",
        aliases=("Dataflow `backlog_seconds`", "Databricks `STREAMING_BACKLOG_SECONDS`"),
        read=lambda scrape: [((row["operator"],), row["backlogSeconds"]) for row in _sources(scrape)],
    ),
    ScrapedMetric(
        "source_catch_up_seconds",
        Kind.GAUGE,
        "seconds",
        _SOURCE,
        "Time until a source's backlog is worked off: backlog / (drain - arrival). Absent while it does "
        "not fall.",
        "Absent with a backlog: it never catches up; add partitions or cores.",
        read=_catch_up,
    ),
    ScrapedMetric(
        "source_verdict",
        Kind.STATE,
        "",
        (*_SOURCE, "verdict"),
        "1 for a source's verdict.",
        "As `verdict`, for one source.",
        states=VERDICTS,
        read=_verdicts,
    ),
)

_QUEUE = ("operator", "stream")
QUEUES = (
    ScrapedMetric(
        "queue_backlog_records",
        Kind.GAUGE,
        "records",
        _QUEUE,
        "Tuples in the durable queue of a decoupled stream that its reader has not committed.",
        "If it grows, the reader's region is too slow, or does not run.",
        read=lambda scrape: [(_ends(row), row["backlogRecords"]) for row in _queues(scrape)],
    ),
    ScrapedMetric(
        "queue_backlog_bytes",
        Kind.GAUGE,
        "bytes",
        _QUEUE,
        "Bytes of these tuples on the disk.",
        "As `queue_backlog_records`.",
        read=lambda scrape: [(_ends(row), row["backlogBytes"]) for row in _queues(scrape)],
    ),
    ScrapedMetric(
        "queue_backlog_seconds",
        Kind.GAUGE,
        "seconds",
        _QUEUE,
        "Age of the oldest of these tuples, since its window was committed.",
        "Alert on it below the queue's `keep`: there the writer's region is held back.",
        read=lambda scrape: [(_ends(row), row["backlogSeconds"]) for row in _queues(scrape)],
    ),
    ScrapedMetric(
        "queue_full",
        Kind.GAUGE,
        "",
        _QUEUE,
        "1 while the writer's region begins no window, since this reader has not read the full queue.",
        "Start the reader's region, or make it faster; more `keep` gives it time.",
        read=lambda scrape: [(_ends(row), float(row["full"])) for row in _queues(scrape)],
    ),
)

HOSTS = (
    ScrapedMetric(
        "container_heartbeat_age_seconds",
        Kind.GAUGE,
        "seconds",
        ("container", "host"),
        "Time since the last heartbeat or report of a container.",
        "Above `heartbeat_timeout` while it works on a window, its worker hangs or is gone: ask for its "
        "stack.",
        aliases=("Apex `lastHeartbeat`",),
        read=lambda scrape: scrape.heartbeat_ages,
    ),
    ScrapedMetric(
        "clock_skew_seconds",
        Kind.GAUGE,
        "seconds",
        ("host",),
        "How far a host's clock is behind STRAM's, as estimated; figures are corrected by it.",
        "Above 1 s, mend the host's NTP: timestamps that it gives to records are off by as much.",
        read=_clock_skew,
    ),
    ScrapedMetric(
        "clock_clamps_total",
        Kind.COUNTER,
        "",
        (),
        "Durations between hosts that came out negative and were counted as 0.",
        "A steady rate says that latencies between hosts are only as good as the skew is estimated.",
        read=one(lambda scrape: scrape.overview["latency"]["clamps"]),
    ),
    ScrapedMetric(
        "heartbeats_received_total",
        Kind.COUNTER,
        "",
        (),
        "Heartbeats that STRAM took. Containers send them in windows that take longer than "
        "`heartbeat_interval`.",
        "None in long windows: the driver's port cannot be reached from the executors.",
        read=one(lambda scrape: scrape.info["stats"]["heartbeatsReceived"]),
    ),
    ScrapedMetric(
        "messages_refused_total",
        Kind.COUNTER,
        "",
        ("reason",),
        "Messages and connections to STRAM that did not count: `unauthenticated`, `malformed`, `too large`, "
        "`late` or `too many`.",
        "Somebody else talks to STRAM's port, or a worker of an earlier run is still there.",
        read=_refused,
    ),
    ScrapedMetric(
        "heartbeats_unsent_total",
        Kind.COUNTER,
        "",
        (),
        "Heartbeats that workers could not send, as they report once they are connected again.",
        "The driver's port cannot always be reached: look at the network, and at how busy the driver is.",
        read=one(lambda scrape: scrape.heartbeats_unsent),
    ),
    ScrapedMetric(
        "subscribers_dropped_total",
        Kind.COUNTER,
        "",
        (),
        "Subscribers of the run's events, such as the event log, that raised an error and are not called "
        "any more.",
        "Alert on any: what they write is incomplete; the traceback is in the driver's log.",
        read=one(lambda scrape: scrape.subscribers_dropped),
    ),
)
