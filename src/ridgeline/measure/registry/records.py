"""Metrics of the ages of records, and of event time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from ridgeline.measure.age.record_age import AGE_BOUNDS_SECONDS, kip_613_name
from ridgeline.measure.answers.operators import RecordAgeAnswer
from ridgeline.measure.answers.watermarks import WatermarkAnswer
from ridgeline.measure.metric import Kind
from ridgeline.measure.registry.labels import OPERATOR
from ridgeline.measure.registry.scrape import Distribution, Labelled, Labels, Scrape, ScrapedMetric, seconds

_STAGE = (*OPERATOR, "stage")
_RECENT = (*_STAGE, "level")


def _ages(scrape: Scrape) -> Labelled:
    """Record ages since the start."""
    for whose, place, total in scrape.ages:
        yield (*whose.labels, place), Distribution(total.counts, total.sum_seconds)


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


def _counted(scrape: Scrape, field: Literal["lateRecords", "recordsAhead"]) -> Labelled:
    """A count of records beside the watermarks."""
    for labels, mark in _marks(scrape):
        yield labels, mark[field]


_STATISTICS: tuple[tuple[str, Literal["minMs", "maxMs", "avgMs"], str], ...] = (
    ("minimum", "minMs", "Below 0: a clock is ahead, or timestamps lie in the future."),
    ("maximum", "maxMs", "How stale the stalest result is: alert on it at the stage `commit`."),
    ("average", "avgMs", "Its rise from stage to stage shows where records wait."),
)
RECORDS = (
    ScrapedMetric(
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
        read=_ages,
    ),
    *(
        ScrapedMetric(
            f"record_latency_{statistic}_seconds",
            Kind.GAUGE,
            "seconds",
            _RECENT,
            f"The {statistic} age of records over the last minute; absent after a minute without records. "
            "`level`: KIP-613's.",
            advice,
            aliases=(f"KIP-613 `{kip_613_name(statistic)}` (there in milliseconds)",),
            read=partial(_recent, field=field),
        )
        for statistic, field, advice in _STATISTICS
    ),
    ScrapedMetric(
        "record_latency_negative_records",
        Kind.GAUGE,
        "records",
        _STAGE,
        "Records of the last minute whose age was negative.",
        "Mend the clocks of the hosts that write the timestamps; see `clock_skew_seconds`.",
        read=lambda scrape: [(labels, row["negative"]) for labels, row in _last_minute(scrape)],
    ),
)

WATERMARKS = (
    ScrapedMetric(
        "watermark_timestamp_seconds",
        Kind.GAUGE,
        "seconds",
        OPERATOR,
        "The watermark of an operator: no older record is to come. Absent before the first record and at the "
        "end.",
        "If it stands still, `ridgeline watermarks` names the input that holds it back.",
        aliases=("Flink `currentInputWatermark`",),
        read=lambda scrape: [(labels, mark["watermark"]) for labels, mark in _marks(scrape)],
    ),
    ScrapedMetric(
        "watermark_lag_seconds",
        Kind.GAUGE,
        "seconds",
        OPERATOR,
        "How far the watermark of an operator is behind the clock.",
        "It is how late results of event time are. If it grows without end, an input is silent: give it "
        "`idle_after`.",
        aliases=("Dataflow `data_watermark_age`",),
        read=lambda scrape: [(labels, mark["lagSeconds"]) for labels, mark in _marks(scrape)],
    ),
    ScrapedMetric(
        "watermark_idle",
        Kind.GAUGE,
        "",
        OPERATOR,
        "1 of an operator whose inputs, or that itself as an input, had no record for `idle_after`.",
        "It holds no watermark up; its next records may be late.",
        read=lambda scrape: [(labels, float(mark["state"] == "idle")) for labels, mark in _marks(scrape)],
    ),
    ScrapedMetric(
        "records_late_total",
        Kind.COUNTER,
        "records",
        OPERATOR,
        "Records that came too late for their windows.",
        "If it rises, give the input a greater `lateness`, or the operator one of its own.",
        aliases=("Flink `numLateRecordsDropped`", "Spark `numRowsDroppedByWatermark`"),
        read=partial(_counted, field="lateRecords"),
    ),
    ScrapedMetric(
        "records_ahead_total",
        Kind.COUNTER,
        "records",
        OPERATOR,
        "Records of an input that are ahead of the clock by more than `time_ahead_limit`: they move no "
        "watermark.",
        "Look for wrong clocks or units where these records are made.",
        read=partial(_counted, field="recordsAhead"),
    ),
)
