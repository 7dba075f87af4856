"""What the Grafana dashboard shows: its panels, row by row, and the queries of each."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.measure.answers.operators import OPERATOR_METRICS
from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.metrics import BY_NAME

ALL = 'application="$application"'
"""Chooses the samples of the application."""
_OPERATOR = f'{ALL}, operator=~"$operator"'


@dataclass(frozen=True, slots=True)
class Query:
    """What a panel shows of one metric. `by` are the labels that are kept, `quantile` is of a histogram."""

    metric: str
    by: tuple[str, ...] = ()
    legend: str = ""
    quantile: float | None = None
    operators: bool = False

    def expression(self) -> str:
        """PromQL: counters as rates, histograms as quantiles or as rates of their buckets."""
        metric = BY_NAME[self.metric]
        chosen = "{" + (_OPERATOR if self.operators else ALL) + "}"
        labels = ", ".join(self.by)
        if metric.kind is Kind.HISTOGRAM:
            grouped = ", ".join(("le", *self.by))
            buckets = f"sum by ({grouped}) (rate({metric.full_name}_bucket{chosen}[$__rate_interval]))"
            return buckets if self.quantile is None else f"histogram_quantile({self.quantile:g}, {buckets})"
        if metric.kind is Kind.COUNTER:
            return f"sum by ({labels}) (rate({metric.full_name}{chosen}[$__rate_interval]))"
        if metric.kind is Kind.STATE:
            return f"{metric.full_name}{chosen} == 1"
        if metric.kind is Kind.INFO:
            return f"{metric.full_name}{chosen}"
        newest = f"max by ({labels}) ({metric.full_name}{chosen})"
        return f"1000 * {newest}" if is_moment(metric) else newest  # Grafana's moments are in milliseconds


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: `kind` is Grafana's type, `width` of 24.

    The help below its title is that of the first query's metric.
    """

    title: str
    kind: str
    width: int
    queries: tuple[Query, ...]
    stacked: bool = False
    height: int = 8


def is_moment(metric: Metric) -> bool:
    """True if it is a time of day."""
    return metric.name.endswith("_timestamp_seconds")


def _quantiles(metric: str, *by: str, legend: str = "") -> tuple[Query, ...]:
    prefix = f"{legend} " if legend else ""
    return tuple(Query(metric, by, f"{prefix}p{round(quantile * 100)}", quantile) for quantile in (0.5, 0.99))


_PARTITION = ("operator", "partition")
_TITLE = "{{operator}}[{{partition}}]"


def _of_table(panel: str, *, operators: bool = False) -> tuple[Query, ...]:
    """The queries that the table of operators' metrics has for a panel."""
    return tuple(
        Query(row.metric.name, _PARTITION, row.graph.legend.format(_TITLE), operators=operators)
        for row in OPERATOR_METRICS
        if row.metric is not None and row.graph is not None and row.graph.panel == panel
    )


_QUEUE = ("operator", "stream")
ROWS: dict[str, tuple[Panel, ...]] = {
    "Verdict": (
        Panel("Verdict", "stat", 4, (Query("verdict", legend="{{verdict}}"),), height=6),
        Panel("State", "stat", 4, (Query("application_state", legend="{{state}}"),), height=6),
        Panel("Backlog", "stat", 4, (Query("backlog_seconds"),), height=6),
        Panel(
            "Worked off in",
            "stat",
            4,
            (Query("source_catch_up_seconds", ("operator",), "{{operator}}"),),
            height=6,
        ),
        Panel("Window latency", "timeseries", 8, _quantiles("window_latency_seconds"), height=6),
    ),
    "Critical path": (
        Panel(
            "Critical path",
            "timeseries",
            12,
            (Query("critical_path_operator_seconds", _PARTITION, _TITLE),),
            stacked=True,
        ),
        Panel(
            "What windows wait for",
            "timeseries",
            12,
            (Query("window_blame_seconds_total", ("what", "operator"), "{{what}} {{operator}}"),),
            stacked=True,
        ),
        Panel(
            "Path and window",
            "timeseries",
            12,
            (
                Query("critical_path_seconds", legend="critical path"),
                *_quantiles("window_latency_seconds", legend="window"),
            ),
        ),
        Panel("Slack", "timeseries", 12, (Query("operator_slack_seconds", _PARTITION, _TITLE),)),
    ),
    "Operators": (
        Panel(
            "Compute, wait and transfer",
            "timeseries",
            12,
            tuple(
                Query(f"operator_{what}_seconds_total", _PARTITION, f"{_TITLE} {what}", operators=True)
                for what in ("compute", "wait", "transfer")
            ),
            stacked=True,
        ),
        Panel(
            "Processor time in compute",
            "timeseries",
            12,
            (Query("operator_cpu_seconds_total", _PARTITION, _TITLE, operators=True),),
        ),
        Panel(
            "Latency",
            "heatmap",
            12,
            (Query("operator_window_latency_seconds", legend="{{le}}", operators=True),),
        ),
        Panel(
            "Records in",
            "timeseries",
            8,
            (
                Query(
                    "operator_records_in_total",
                    (*_PARTITION, "port"),
                    f"{_TITLE} {{{{port}}}}",
                    operators=True,
                ),
            ),
        ),
        Panel(
            "Records out",
            "timeseries",
            8,
            (
                Query(
                    "operator_records_out_total",
                    (*_PARTITION, "port"),
                    f"{_TITLE} {{{{port}}}}",
                    operators=True,
                ),
            ),
        ),
        Panel("Queue", "timeseries", 8, _of_table("Queue", operators=True)),
        Panel(
            "Windows behind",
            "timeseries",
            8,
            (
                *_of_table("Windows behind", operators=True),
                Query("windows_behind", legend="application"),
            ),
        ),
        Panel(
            "Rejected records",
            "timeseries",
            8,
            _of_table("Rejected records", operators=True),
        ),
        Panel(
            "Failures and dropped windows",
            "timeseries",
            8,
            _of_table("Failures and dropped windows", operators=True),
        ),
    ),
    "Record age": (
        Panel(
            "Record age",
            "timeseries",
            8,
            _quantiles("record_latency_seconds", *_PARTITION, "stage", legend=f"{_TITLE} {{{{stage}}}}"),
        ),
        Panel(
            "Last minute",
            "timeseries",
            8,
            tuple(
                Query(
                    f"record_latency_{statistic}_seconds",
                    (*_PARTITION, "stage"),
                    f"{_TITLE} {{{{stage}}}} {statistic}",
                )
                for statistic in ("minimum", "average", "maximum")
            ),
        ),
        Panel(
            "Negative ages",
            "timeseries",
            8,
            (Query("record_latency_negative_records", (*_PARTITION, "stage"), f"{_TITLE} {{{{stage}}}}"),),
        ),
    ),
    "Watermarks": (
        Panel(
            "Behind the clock",
            "timeseries",
            8,
            (Query("watermark_lag_seconds", _PARTITION, _TITLE, operators=True),),
        ),
        Panel(
            "Watermark",
            "timeseries",
            8,
            (
                Query("watermark_timestamp_seconds", _PARTITION, _TITLE, operators=True),
                Query("watermark_idle", _PARTITION, f"{_TITLE} idle", operators=True),
            ),
        ),
        Panel(
            "Late records",
            "timeseries",
            8,
            (
                Query("records_late_total", _PARTITION, f"{_TITLE} late", operators=True),
                Query("records_ahead_total", _PARTITION, f"{_TITLE} ahead", operators=True),
            ),
        ),
    ),
    "Backlog": (
        Panel(
            "Records",
            "timeseries",
            6,
            (
                Query("source_backlog_records", ("operator",), "{{operator}}"),
                Query("backlog_records", legend="application"),
            ),
        ),
        Panel("Bytes", "timeseries", 6, (Query("source_backlog_bytes", ("operator",), "{{operator}}"),)),
        Panel("Seconds", "timeseries", 6, (Query("source_backlog_seconds", ("operator",), "{{operator}}"),)),
        Panel(
            "Oldest that waits",
            "timeseries",
            6,
            (
                Query("source_oldest_seconds", ("operator",), "{{operator}}"),
                Query("oldest_waiting_seconds", legend="application"),
            ),
        ),
        Panel("Sources' verdicts", "table", 6, (Query("source_verdict"),)),
    ),
    "Queues": (
        Panel("Tuples", "timeseries", 6, (Query("queue_backlog_records", _QUEUE, "{{stream}}"),)),
        Panel("Bytes", "timeseries", 6, (Query("queue_backlog_bytes", _QUEUE, "{{stream}}"),)),
        Panel("Oldest", "timeseries", 6, (Query("queue_backlog_seconds", _QUEUE, "{{stream}}"),)),
        Panel("Full", "timeseries", 6, (Query("queue_full", _QUEUE, "{{stream}}"),)),
    ),
    "Checkpoints": (
        Panel(
            "Windows",
            "timeseries",
            6,
            (
                Query("windows_committed_total", legend="committed"),
                Query("windows_retried_total", legend="retried"),
                Query("tasks_retried_total", legend="tasks begun again by Spark"),
                Query("state_compactions_total", legend="compactions"),
                Query("state_warnings_total", legend="warnings of states"),
            ),
        ),
        Panel(
            "Slots",
            "timeseries",
            6,
            (
                Query("slots", legend="slots"),
                Query("slots_wanted", legend="slots wanted"),
                Query("slots_lost_total", legend="lost"),
                Query("slots_silent_total", legend="host did not answer"),
                Query("slots_restarted_total", legend="started again"),
                Query("slots_reduced_total", legend="moves to fewer slots"),
                Query("slots_misplaced_total", legend="on an unwanted host"),
                Query("slots_speculated_total", legend="late, run in the spare"),
            ),
        ),
        Panel("Last commit", "stat", 6, (Query("last_commit_timestamp_seconds"),)),
        Panel(
            "State",
            "timeseries",
            6,
            _of_table("State"),
            stacked=True,
        ),
        Panel(
            "Changes",
            "timeseries",
            6,
            (
                Query("plan_version", legend="version of the plan"),
                Query("changes_total", ("state",), "{{state}}"),
            ),
        ),
        Panel(
            "Promises",
            "timeseries",
            6,
            (
                Query("promise_kept", ("promise",), "{{promise}}"),
                Query("promise_broken_seconds_total", ("promise",), "{{promise}} broken"),
            ),
        ),
        Panel("Gap for a change", "timeseries", 6, (Query("change_held_seconds", legend="between windows"),)),
        Panel(
            "Left of the running window",
            "timeseries",
            6,
            (Query("progress_remaining_seconds", legend="remaining"),),
        ),
    ),
    "Hosts": (
        Panel("Clock skew", "timeseries", 6, (Query("clock_skew_seconds", ("host",), "{{host}}"),)),
        Panel(
            "Last heartbeat",
            "timeseries",
            6,
            (Query("container_heartbeat_age_seconds", ("container", "host"), "{{container}} on {{host}}"),),
        ),
        Panel(
            "Heartbeats",
            "timeseries",
            6,
            (
                Query("messages_refused_total", ("reason",), "refused: {{reason}}"),
                Query("heartbeats_unsent_total", legend="not sent"),
                Query("subscribers_dropped_total", legend="subscribers dropped"),
            ),
        ),
        Panel(
            "Memory of workers",
            "timeseries",
            6,
            (Query("worker_memory_bytes", ("host", "pid"), "{{pid}} on {{host}}"),),
        ),
        Panel(
            "Processors of workers",
            "timeseries",
            6,
            (Query("worker_cpu_seconds_total", ("host", "pid"), "{{pid}} on {{host}}"),),
        ),
        Panel("Run", "table", 6, (Query("application_info"),)),
        Panel("Version", "table", 6, (Query("build_info"),)),
        Panel("Started", "stat", 6, (Query("application_start_timestamp_seconds"),)),
    ),
}
"""The panels of the dashboard, row by row."""
_PLACED = {panel.title for row in ROWS.values() for panel in row}
ROWS["Operators"] += tuple(
    Panel(title, "timeseries", 8, _of_table(title, operators=True))
    for title in dict.fromkeys(row.graph.panel for row in OPERATOR_METRICS if row.graph is not None)
    if title not in _PLACED
)
