"""Metrics of the ages of records, and of event time."""

from __future__ import annotations

from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS, kip_613_name
from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.registry.labels import OPERATOR

_STAGE = (*OPERATOR, "stage")
_RECENT = (*_STAGE, "level")

RECORDS = (
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

WATERMARKS = (
    Metric(
        "watermark_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        OPERATOR,
        "The watermark of an operator: no older record is to come. Absent before the first record and at the "
        "end.",
        "If it stands still, `ridgeline watermarks` names the input that holds it back.",
        aliases=("Flink `currentInputWatermark`",),
    ),
    Metric(
        "watermark_lag_seconds",
        Kind.GAUGE,
        "seconds",
        OPERATOR,
        "How far the watermark of an operator is behind the clock.",
        "It is how late results of event time are. If it grows without end, an input is silent: give it "
        "`idle_after`.",
        aliases=("Dataflow `data_watermark_age`",),
    ),
    Metric(
        "watermark_idle",
        Kind.GAUGE,
        "",
        OPERATOR,
        "1 of an operator whose inputs, or that itself as an input, had no record for `idle_after`.",
        "It holds no watermark up; its next records may be late.",
    ),
    Metric(
        "records_late_total",
        Kind.COUNTER,
        "records",
        OPERATOR,
        "Records that came too late for their windows.",
        "If it rises, give the input a greater `lateness`, or the operator one of its own.",
        aliases=("Flink `numLateRecordsDropped`", "Spark `numRowsDroppedByWatermark`"),
    ),
    Metric(
        "records_ahead_total",
        Kind.COUNTER,
        "records",
        OPERATOR,
        "Records of an input that are ahead of the clock by more than `time_ahead_limit`: they move no "
        "watermark.",
        "Look for wrong clocks or units where these records are made.",
    ),
)
