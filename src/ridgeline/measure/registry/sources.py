"""Metrics of sources, and of containers and hosts."""

from __future__ import annotations

from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.registry.labels import VERDICTS

_SOURCE = ("operator",)
SOURCES = (
    Metric(
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
    ),
    Metric(
        "source_backlog_bytes",
        Kind.GAUGE,
        "bytes",
        _SOURCE,
        "Bytes that a source has not given to the application yet. Absent where unknown.",
        "As `source_backlog_records`.",
        aliases=("Databricks `STREAMING_BACKLOG_BYTES`",),
    ),
    Metric(
        "source_backlog_seconds",
        Kind.GAUGE,
        "seconds",
        _SOURCE,
        "How long a source's backlog takes at the current drain rate, were nothing to arrive.",
        "Alert on it: it is how late results are.",
        aliases=("Dataflow `backlog_seconds`", "Databricks `STREAMING_BACKLOG_SECONDS`"),
    ),
    Metric(
        "source_catch_up_seconds",
        Kind.GAUGE,
        "seconds",
        _SOURCE,
        "Time until a source's backlog is worked off: backlog / (drain - arrival). Absent while it does "
        "not fall.",
        "Absent with a backlog: it never catches up; add partitions or cores.",
    ),
    Metric(
        "source_verdict",
        Kind.STATE,
        "",
        (*_SOURCE, "verdict"),
        "1 for a source's verdict.",
        "As `verdict`, for one source.",
        states=VERDICTS,
    ),
)

HOSTS = (
    Metric(
        "container_heartbeat_age_seconds",
        Kind.GAUGE,
        "seconds",
        ("container", "host"),
        "Time since the last heartbeat or report of a container.",
        "Above `heartbeat_timeout` while it works on a window, its worker hangs or is gone: ask for its "
        "stack.",
        aliases=("Apex `lastHeartbeat`",),
    ),
    Metric(
        "clock_skew_seconds",
        Kind.GAUGE,
        "seconds",
        ("host",),
        "How far a host's clock is behind STRAM's, as estimated; figures are corrected by it.",
        "Above 1 s, mend the host's NTP: timestamps that it gives to records are off by as much.",
    ),
    Metric(
        "clock_clamps_total",
        Kind.COUNTER,
        "",
        (),
        "Durations between hosts that came out negative and were counted as 0.",
        "A steady rate says that latencies between hosts are only as good as the skew is estimated.",
    ),
    Metric(
        "heartbeats_received_total",
        Kind.COUNTER,
        "",
        (),
        "Heartbeats that STRAM took. Containers send them in windows that take longer than "
        "`heartbeat_interval`.",
        "None in long windows: the driver's port cannot be reached from the executors.",
    ),
    Metric(
        "messages_refused_total",
        Kind.COUNTER,
        "",
        ("reason",),
        "Messages and connections to STRAM that did not count: `unauthenticated`, `malformed`, `too large`, "
        "`late` or `too many`.",
        "Somebody else talks to STRAM's port, or a worker of an earlier run is still there.",
    ),
    Metric(
        "heartbeats_unsent_total",
        Kind.COUNTER,
        "",
        (),
        "Heartbeats that workers could not send, as they report once they are connected again.",
        "The driver's port cannot always be reached: look at the network, and at how busy the driver is.",
    ),
    Metric(
        "subscribers_dropped_total",
        Kind.COUNTER,
        "",
        (),
        "Subscribers of the run's events, such as the event log, that raised an error and are not called "
        "any more.",
        "Alert on any: what they write is incomplete; the traceback is in the driver's log.",
    ),
)
