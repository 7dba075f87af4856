"""The registry of metrics, which `/metrics`, OTLP, `docs/metrics.md` and the dashboard are made of.

Names follow Prometheus' rules: base units, `_total` for counters, one quantity a metric, nothing in a name
that is a label. Every metric has the label `application` and those that it names here; labels are bounded by
the plan, never by data. `operator` is the name of a logical operator, or `NAME.PORT#unifier`; `partition`
counts from 0.
"""

from __future__ import annotations

from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS, kip_613_name
from ridgeline.measure.metric import Kind, Metric

# fmt: off
LATENCY_BOUNDS_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0, 600.0,
)
# fmt: on
"""Upper bounds, inclusive, of the latency histograms: 1 ms to 10 minutes."""
VERDICTS = ("keeping up", "catching up", "holding", "falling behind", "stuck", "unreachable", "unknown")
STATES = ("RUNNING", "FINISHED", "STOPPED", "FAILED")

_OPERATOR = ("operator", "partition")
_PORT = (*_OPERATOR, "port")
_STAGE = (*_OPERATOR, "stage")
_RECENT = (*_STAGE, "level")

_APPLICATION = (
    Metric(
        "build_info",
        Kind.INFO,
        "",
        ("version",),
        "The version of Ridgeline that runs.",
        "Compare it with the changelog when figures change after a deployment.",
    ),
    Metric(
        "application_info",
        Kind.INFO,
        "",
        ("id", "user", "master"),
        "The run: its id, who started it, and on which Spark master.",
        "Join it to other metrics to distinguish runs of one application.",
    ),
    Metric(
        "application_state",
        Kind.STATE,
        "",
        ("state",),
        "1 for the state that the application is in.",
        "Alert on `FAILED`; its reason is in `/ws/v2/stram/info` and in the driver's log.",
        aliases=("Kafka Streams `state`",),
        states=STATES,
    ),
    Metric(
        "application_start_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        (),
        "When the run began, seconds since 1970.",
        "Subtract it from `time()` for the uptime; a change is a restart.",
        aliases=("Apex `startTime`",),
    ),
    Metric(
        "verdict",
        Kind.STATE,
        "",
        ("verdict",),
        "1 for the application's verdict: the worst of its sources'.",
        "Look first here. `falling behind`: speed up or partition the operators on the critical path. "
        "`stuck`: look at the stack of the"
        " container whose heartbeat says where it is.",
        states=VERDICTS,
    ),
    Metric(
        "backlog_seconds",
        Kind.GAUGE,
        "seconds",
        (),
        "How long the sources' backlog would take to be worked off, were nothing to arrive.",
        "If it grows, the application is too slow for its input.",
        aliases=("Dataflow `backlog_seconds`",),
    ),
    Metric(
        "backlog_records",
        Kind.GAUGE,
        "records",
        (),
        "Records that sources have not given to the application yet.",
        "If it grows, the application is too slow for its input.",
        aliases=("Flink `pendingRecords`", "Kafka `records-lag`"),
    ),
    Metric(
        "progress_remaining_seconds",
        Kind.GAUGE,
        "seconds",
        (),
        "Time that the running window will still take, by Beam's progress formulas. Absent while unknown.",
        "If it is much longer than windows take, look at `/ws/v2/stram/progress` for the operator that "
        "takes it.",
    ),
    Metric(
        "windows_behind",
        Kind.GAUGE,
        "windows",
        (),
        "Windows that are due by the schedule and not begun.",
        "If it grows, windows take longer than they are wide: widen them, or shorten the critical path.",
    ),
)

_WINDOWS = (
    Metric(
        "window_latency_seconds",
        Kind.HISTOGRAM,
        "seconds",
        (),
        "Time of a window from its trigger to its commit. A window is counted when the next one is "
        "committed.",
        "Compare it with the critical path; `window_blame_seconds_total` names the rest.",
        aliases=("Spark `batchDuration`", "Flink `lastCheckpointDuration`"),
        bounds=LATENCY_BOUNDS_SECONDS,
    ),
    Metric(
        "window_blame_seconds_total",
        Kind.COUNTER,
        "seconds",
        ("what", "operator"),
        "What windows waited for: the steps of their blame chains, which add up to `window_latency_seconds`."
        " Of `operator`, the physical operator's title, empty for what is Spark's or STRAM's.",
        "The greatest rate is what to speed up next. `barrier`: spread the work; `slot`: more cores; "
        "`launch`, `planning`: longer windows.",
    ),
    Metric(
        "windows_committed_total",
        Kind.COUNTER,
        "windows",
        (),
        "Windows committed.",
        "Alert if its rate is 0 for longer than a few windows.",
        aliases=("Kafka Streams `commit-total`", "Flink `numberOfCompletedCheckpoints`"),
    ),
    Metric(
        "windows_retried_total",
        Kind.COUNTER,
        "windows",
        (),
        "Attempts at windows that did not count and were made again.",
        "Look for the reason in the driver's log: an operator that raised, or an executor that died.",
        aliases=("Flink `numberOfFailedCheckpoints`",),
    ),
    Metric(
        "tasks_retried_total",
        Kind.COUNTER,
        "tasks",
        (),
        "Tasks that Spark began again in windows that were committed.",
        "Processes die: look for the host's out-of-memory killer, lost executors and crashes in native code.",
        aliases=("Spark `numFailedTasks`",),
    ),
    Metric(
        "slots_lost_total",
        Kind.COUNTER,
        "",
        (),
        "Slots that were lost: their process died, or its host is out of reach.",
        "Processes die: look for the host's out-of-memory killer, lost executors and crashes in native code.",
    ),
    Metric(
        "slots_restarted_total",
        Kind.COUNTER,
        "",
        (),
        "Processes that took the place of a slot that was lost.",
        "Less than `slots_lost_total` for long: Spark has no core to start the slot again.",
    ),
    Metric(
        "slots_reduced_total",
        Kind.COUNTER,
        "",
        (),
        "How often all containers moved to fewer slots, since Spark had too few cores for long.",
        "Windows take longer: give Spark the cores again, and restart the application.",
    ),
    Metric(
        "slots_misplaced_total",
        Kind.COUNTER,
        "",
        (),
        "Slots that stay on another host than their streams' locality asks for.",
        "Tuples cross the network: free a core on that host, and restart the application.",
    ),
    Metric(
        "state_compactions_total",
        Kind.COUNTER,
        "",
        (),
        "Compactions of states that were installed.",
        "None while states change: look for `state_warnings_total`, and for compactions that fail in the "
        "driver's log.",
    ),
    Metric(
        "state_warnings_total",
        Kind.COUNTER,
        "",
        (),
        "Faults of state files, of compactions and of `teardown` that were put right without loss.",
        "Alert on any rate; the text is in the driver's log.",
    ),
    Metric(
        "last_commit_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        (),
        "When the last window was committed, seconds since 1970.",
        "`time()` less this is how old the newest visible results are.",
    ),
    Metric(
        "critical_path_seconds",
        Kind.GAUGE,
        "seconds",
        (),
        "The last window's critical path: the longest chain of operators, each with its compute and "
        "transfer.",
        "What a window would take if every operator had a slot of its own. Far below the window's "
        "latency: look at the blame.",
        aliases=("Apex `latency`",),
    ),
    Metric(
        "critical_path_operator_seconds",
        Kind.GAUGE,
        "seconds",
        _OPERATOR,
        "An operator's share of the last window's critical path; absent for operators off it. They add up "
        "to `critical_path_seconds`.",
        "The greatest is what to speed up or to partition.",
    ),
    Metric(
        "critical_path_info",
        Kind.INFO,
        "",
        ("position", *_OPERATOR),
        "The operators on the last window's critical path, by position from 0 on.",
        "If it changes often, several paths are about equally long: see the slack.",
        aliases=("Apex `criticalPath`",),
    ),
    Metric(
        "operator_slack_seconds",
        Kind.GAUGE,
        "seconds",
        _OPERATOR,
        "How much slower an operator off the critical path may become before it matters.",
        "Do not spend time on operators with much of it.",
    ),
)

_OPERATORS = (
    Metric(
        "operator_window_latency_seconds",
        Kind.HISTOGRAM,
        "seconds",
        _OPERATOR,
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
        _OPERATOR,
        "Time in an operator's own callbacks, that of a running window included as far as heartbeats "
        "report it.",
        "A rate near 1 is an operator that is always busy: partition it.",
        aliases=("Apex `cpuPercentageMA`", "Flink `busyTimeMsPerSecond`", "Kafka Streams `process-ratio`"),
    ),
    Metric(
        "operator_wait_seconds_total",
        Kind.COUNTER,
        "seconds",
        _OPERATOR,
        "Time in which an operator waited: for the stage before, a slot, or siblings in its container.",
        "Much of it: more slots, or fewer operators a container.",
        aliases=("Flink `idleTimeMsPerSecond`", "Kafka Streams `blocked-time-ns-total`"),
    ),
    Metric(
        "operator_transfer_seconds_total",
        Kind.COUNTER,
        "seconds",
        _OPERATOR,
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
        _OPERATOR,
        "Tuples that an operator emitted on its error ports, connected or not.",
        "Alert on any rate; with `error_tuples_kept` some of them are shown.",
        aliases=("Kafka Streams `dropped-records-total`",),
    ),
    Metric(
        "operator_windows_dropped_total",
        Kind.COUNTER,
        "windows",
        _OPERATOR,
        "Windows that an operator with `AT_MOST_ONCE` lost since it had failed in them.",
        "Alert on any rate; the reason is in the driver's log.",
    ),
    Metric(
        "operator_failures_total",
        Kind.COUNTER,
        "",
        _OPERATOR,
        "How often an operator's failure made a window start again.",
        "Look for its exception in the driver's log.",
        aliases=("Apex `failureCount`",),
    ),
    Metric(
        "operator_windows_behind",
        Kind.GAUGE,
        "windows",
        _OPERATOR,
        "How many windows an operator is behind the newest one that it could work on.",
        "If it grows, its container hangs: ask for its stack.",
    ),
    Metric(
        "operator_state_bytes",
        Kind.GAUGE,
        "bytes",
        _OPERATOR,
        "Size of an operator's state in the last checkpoint.",
        "If it grows without end, keys are never forgotten.",
        aliases=("Flink `lastCheckpointSize`", "Spark `memoryUsedBytes`"),
    ),
    Metric(
        "operator_held_bytes", Kind.GAUGE, "bytes", _OPERATOR, "What a slider keeps.", "Aggregate before it."
    ),
    Metric(
        "operator_queue_records",
        Kind.GAUGE,
        "records",
        _OPERATOR,
        "Tuples that waited for an operator when its turn came, averaged over the last windows.",
        "It grows with the input; compare it among partitions.",
        aliases=("Apex `queueSizeMA`",),
    ),
)

_RECORDS = (
    Metric(
        "record_latency_seconds",
        Kind.HISTOGRAM,
        "seconds",
        _STAGE,
        "Age of records when an operator was done with them: `source` read, `state` updated, `emit` "
        "written, `commit` visible to readers."
        " Negative ages count in the lowest bucket.",
        "The difference between `commit` and `source` is the application's own; what `source` has is the "
        "backlog.",
        bounds=AGE_BOUNDS_SECONDS,
    ),
    *(
        Metric(
            f"record_latency_{statistic}_seconds",
            Kind.GAUGE,
            "seconds",
            _RECENT,
            f"The {statistic} age of records over the last minute; absent after a minute without records. "
            "`level`: KIP-613's.",
            advice,
            aliases=(f"KIP-613 `{kip_613_name(statistic)}` (there in milliseconds)",),
        )
        for statistic, advice in (
            ("minimum", "Below 0: a clock is ahead, or timestamps lie in the future."),
            ("maximum", "How stale the stalest result is: alert on it at the stage `commit`."),
            ("average", "Its rise from stage to stage shows where records wait."),
        )
    ),
    Metric(
        "record_latency_negative_records",
        Kind.GAUGE,
        "records",
        _STAGE,
        "Records of the last minute whose age was negative.",
        "Mend the clocks of the hosts that write the timestamps; see `clock_skew_seconds`.",
    ),
)

_WATERMARKS = (
    Metric(
        "watermark_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        _OPERATOR,
        "The watermark of an operator: no older record is to come. Absent before the first record and at the "
        "end.",
        "If it stands still, `ridgeline watermarks` names the input that holds it back.",
        aliases=("Flink `currentInputWatermark`",),
    ),
    Metric(
        "watermark_lag_seconds",
        Kind.GAUGE,
        "seconds",
        _OPERATOR,
        "How far the watermark of an operator is behind the clock.",
        "It is how late results of event time are. If it grows without end, an input is silent: give it "
        "`idle_after`.",
        aliases=("Dataflow `data_watermark_age`",),
    ),
    Metric(
        "watermark_idle",
        Kind.GAUGE,
        "",
        _OPERATOR,
        "1 of an operator whose inputs, or that itself as an input, had no record for `idle_after`.",
        "It holds no watermark up; its next records may be late.",
    ),
    Metric(
        "records_late_total",
        Kind.COUNTER,
        "records",
        _OPERATOR,
        "Records that came too late for their windows.",
        "If it rises, give the input a greater `lateness`, or the operator one of its own.",
        aliases=("Flink `numLateRecordsDropped`", "Spark `numRowsDroppedByWatermark`"),
    ),
    Metric(
        "records_ahead_total",
        Kind.COUNTER,
        "records",
        _OPERATOR,
        "Records of an input that are ahead of the clock by more than `time_ahead_limit`: they move no "
        "watermark.",
        "Look for wrong clocks or units where these records are made.",
    ),
)

_SOURCE = ("operator",)
_SOURCES = (
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

_HOSTS = (
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

METRICS: tuple[Metric, ...] = (
    *_APPLICATION,
    *_WINDOWS,
    *_OPERATORS,
    *_RECORDS,
    *_WATERMARKS,
    *_SOURCES,
    *_HOSTS,
)
"""All metrics, in the order in which they are shown."""
GROUPS = {
    "Application": _APPLICATION,
    "Windows": _WINDOWS,
    "Operators": _OPERATORS,
    "Records": _RECORDS,
    "Watermarks": _WATERMARKS,
    "Sources": _SOURCES,
    "Containers and hosts": _HOSTS,
}
"""The metrics by subject."""
BY_NAME = {metric.name: metric for metric in METRICS}
"""The metrics by name, without `PREFIX`."""
