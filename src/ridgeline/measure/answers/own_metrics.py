"""Answers about the metrics that operators declare."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict


class MetricAnswer(TypedDict):
    """A metric that an operator declares, as of the last application window that has ended."""

    operator: Annotated[str, "Name of the logical operator, or title of its unifiers."]
    metric: Annotated[str, "Name of the metric: of the field or method."]
    kind: Annotated[str, "`gauge` or `counter`."]
    aggregate: Annotated[str, "The function that makes one value of those of the partitions."]
    unit: Annotated[str, "Its unit; empty if it has none."]
    help: Annotated[str, "What it is, in its author's words."]
    windowId: Annotated[
        int | None, "The window with which the application window ended; null before one has."
    ]
    at: Annotated[float | None, "When that was reported, seconds since 1970."]
    value: Annotated[float | None, "The value over all partitions; null if there is none in that window."]
    total: Annotated[float | None, "Of a counter, the sum since the start of the run, or what is cumulative."]
    partitions: Annotated[list[float | None], "The value of each partition, from partition 0 on."]
    partitionTotals: Annotated[list[float | None], "Of a counter, `total` of each partition."]
    problem: Annotated[str, "Why the author's aggregate has made no value; empty if nothing was wrong."]


class MetricsAnswer(TypedDict):
    """The metrics that operators declare."""

    metrics: Annotated[list[MetricAnswer], "In the order of the plan, and of their declaration."]


class MetricWindowAnswer(TypedDict):
    """A metric's value in one window."""

    windowId: Annotated[int, "The window with which the application window ended."]
    at: Annotated[float, "When it was reported, seconds since 1970."]
    value: Annotated[float, "The value over all partitions."]


class MetricPeriodAnswer(TypedDict):
    """A metric over the windows of a minute or an hour."""

    start: Annotated[int, "When the minute or hour began, seconds since 1970."]
    windows: Annotated[int, "How many application windows with a value were reported in it."]
    sum: Annotated[float | None, "Sum of the windows' values; null if it is no finite number."]
    min: Annotated[float, "The least."]
    max: Annotated[float, "The greatest."]
    mean: Annotated[float | None, "The mean."]
    first: Annotated[float, "The first."]
    last: Annotated[float, "The last."]


class MetricHistoryAnswer(MetricAnswer):
    """A metric over time. Periods without a window are missing."""

    windows: Annotated[list[MetricWindowAnswer], "The last windows, at most 1,000, the newest last."]
    minutes: Annotated[list[MetricPeriodAnswer], "The last minutes, at most 180, the newest last."]
    hours: Annotated[list[MetricPeriodAnswer], "The last hours, at most 72, the newest last."]
