"""Answers about committed windows: latency, critical path, blame, summaries."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer


class LatencyTimesAnswer(InRegionAnswer, TypedDict):
    """The latency of an operator in one window, with its parts, and over all windows."""

    latencyMs: Annotated[float | None, "Time by which its window ended after the slowest upstream's."]
    computeMs: Annotated[float | None, "The part of `latencyMs` in its own callbacks."]
    cpuMs: Annotated[float | None, "Of `computeMs`, processor time; the rest it slept, or others had it."]
    waitMs: Annotated[float | None, "Time waiting for the stage before, a slot, or others in its container."]
    transferMs: Annotated[float | None, "Time in which its tuples or its state moved."]
    averageMs: Annotated[float | None, "Mean latency of the last 10 windows."]
    p50Ms: Annotated[float | None, "Median latency of all windows."]
    p99Ms: Annotated[float | None, "99th percentile of the latency of all windows."]


class PhysicalNameAnswer(TypedDict):
    """Which physical operator it is."""

    operator: Annotated[str, "Title of the physical operator, such as `book[1]`."]
    id: Annotated[int, "Id of the physical operator."]
    name: Annotated[str, "Name of the logical operator."]


class OperatorLatencyAnswer(PhysicalNameAnswer, LatencyTimesAnswer, TypedDict):
    """The latency of a physical operator, and how far behind it is."""

    windowsBehind: Annotated[int, "Windows that are over by the schedule and that it has not completed."]
    estimated: Annotated[
        bool,
        "True if no upstream had reported: then `windowsBehind` times the window's width.",
    ]


class LogicalNameAnswer(TypedDict):
    """Which logical operator it is."""

    operator: Annotated[str, "Name of the logical operator."]


class LogicalLatencyAnswer(LogicalNameAnswer, LatencyTimesAnswer, TypedDict):
    """The latency of a logical operator: that of its slowest partition with its slowest unifiers.

    Over all windows it is with whatever partitions it had.
    """

    estimated: Annotated[bool, "True if the times of a partition are estimated."]


class LatencyAnswer(TypedDict):
    """The latencies of all operators in one window."""

    windowId: Annotated[int | None, "The window; null before the first commit."]
    operators: Annotated[list[OperatorLatencyAnswer], "The physical operators, in topological order."]
    logical: Annotated[list[LogicalLatencyAnswer], "The logical operators, in topological order."]
    clamps: Annotated[int, "Durations between hosts that were negative and counted as 0, since the start."]
    windows: Annotated[NotRequired[dict[str, int | None]], "The window of each region, if there are several."]


class PathStepAnswer(InRegionAnswer, TypedDict):
    """A step of a critical path."""

    operator: Annotated[str, "Title of the physical operator."]
    id: Annotated[int, "Id of the physical operator."]
    latencyMs: Annotated[float | None, "Its own latency, compute and transfer; the path's is their sum."]
    computeMs: Annotated[float | None, "Time in its own callbacks."]
    cpuMs: Annotated[float | None, "Of `computeMs`, processor time; the rest it slept, or others had it."]
    transferMs: Annotated[float | None, "Time in which its tuples or its state moved."]
    estimated: Annotated[NotRequired[bool], "True if its times are estimated: see `/latency`."]
    kind: Annotated[NotRequired[str], "`queue` where records waited in a queue between regions."]


class BlameStepAnswer(TypedDict):
    """A stretch of a window's time."""

    what: Annotated[str, "What the window waited for: `launch`, `compute`, `slot`, `commit`, ..."]
    operator: Annotated[str, "Title of the operator whose time it is; empty if it is nobody's."]
    ms: Annotated[float, "Its length."]


class AveragePathAnswer(TypedDict):
    """The critical path of the averages over the last 10 windows."""

    latencyMs: Annotated[float | None, "Its length."]
    path: Annotated[list[str], "Titles of its operators, from the input on."]


class CriticalPathAnswer(InRegionAnswer, TypedDict):
    """The critical path of a window, the slack beside it, and what the window waited for."""

    windowId: Annotated[int | None, "The window; null before the first commit."]
    latencyMs: Annotated[float | None, "The path's length: the sum of its steps."]
    path: Annotated[list[PathStepAnswer], "The steps, from an input to a leaf."]
    slack: Annotated[dict[str, float], "By title, by how many ms an operator off the path may get slower."]
    blame: Annotated[list[BlameStepAnswer], "The blame chain from trigger to commit; adds up to the latency."]
    average: Annotated[AveragePathAnswer, "The critical path of the averages."]
    share: Annotated[dict[str, float], "By title, the share of the last 100 windows with it on the path."]
    logicalShare: Annotated[
        dict[str, float],
        "By name of logical operators, the same: any partition or unifier was on it, also before a change.",
    ]
    windowLatencyMs: Annotated[float | None, "The window's latency, from trigger to commit."]
    windows: Annotated[NotRequired[dict[str, int]], "The window of each region on the path, if several."]


class WindowSummaryAnswer(InRegionAnswer, TypedDict):
    """A committed window in short."""

    windowId: Annotated[int, "The window."]
    planVersion: Annotated[int, "Version of the plan that it ran under."]
    attempts: Annotated[int, "Attempts that it took; 1 if the first one counted."]
    triggeredAt: Annotated[float, "When its time began: Spark's trigger, or the tick."]
    committedAt: Annotated[float, "When its record was durable; if nothing moved in it: could have been."]
    latencyMs: Annotated[float, "Time from trigger to commit."]
    lateMs: Annotated[float, "How long after its schedule it began."]
    criticalPathMs: Annotated[float, "The length of its critical path."]
    path: Annotated[list[str], "Titles of the operators on the critical path."]
    tuplesIn: Annotated[int, "Tuples that the inputs emitted."]
    tuplesOut: Annotated[int, "Tuples that reached operators which nobody reads from."]
    phases: Annotated[dict[str, float], "Milliseconds by what the window waited for; add up to `latencyMs`."]


class WindowAnswer(WindowSummaryAnswer):
    """All of one committed window."""

    blame: Annotated[list[BlameStepAnswer], "The blame chain from trigger to commit; adds up to the latency."]
    operators: Annotated[list[OperatorLatencyAnswer], "The latencies of its physical operators."]
