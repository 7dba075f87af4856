"""Answers about the running window and the sources: progress, backlog, verdict."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from ridgeline.measure.answers.regions import InRegionAnswer, QueueAnswer


class InfiniteAnswer(TypedDict):
    """Marks a number without an end, which JSON has no word for."""

    infinite: Annotated[NotRequired[bool], "True if it is unbounded; the number itself is null then."]


class EstimateAnswer(InfiniteAnswer):
    """A number and what it is based on."""

    value: Annotated[float | None, "The number; null if it is unknown or infinite."]
    basis: Annotated[str, "`exact`, `estimated`, `lower bound` or `unknown`."]


class OperatorProgressAnswer(InRegionAnswer, TypedDict):
    """How far a physical operator is in the running window, or was in the last one.

    Counts are null if it has begun, or may have, and nothing has come from it yet.
    """

    operator: Annotated[str, "Title of the physical operator."]
    id: Annotated[int, "Id of the physical operator."]
    state: Annotated[str, "`waiting`, `running` or `done`."]
    consumed: Annotated[int | None, "Tuples consumed; 0 for an input operator."]
    queued: Annotated[float | None, "Tuples delivered and not consumed."]
    active: Annotated[int | None, "Tuples being processed."]
    produced: Annotated[int | None, "Tuples emitted, over all ports."]
    producedByPort: Annotated[dict[str, int], "Tuples emitted by output port."]
    activeProducedByPort: Annotated[dict[str, int], "Of these, those of tuples being processed, by port."]
    secondsSpent: Annotated[float | None, "Seconds in its own callbacks."]
    averageSecondsPerElement: Annotated[float | None, "Seconds a tuple; of an input, seconds a window."]
    inputRemaining: Annotated[EstimateAnswer, "Tuples that it still has to consume."]
    outputRemaining: Annotated[EstimateAnswer, "Tuples that it will still emit."]
    remainingSeconds: Annotated[EstimateAnswer, "Seconds that its callbacks will still take."]
    oldestInFlight: Annotated[
        dict[str, float],
        "The tentative watermark by output port: the oldest time of the records in flight in the window.",
    ]


class ContainerProgressAnswer(InRegionAnswer, TypedDict):
    """How far a container is in the running window."""

    id: Annotated[int, "Id of the container."]
    remainingSeconds: Annotated[EstimateAnswer, "Seconds that it will still work."]
    lastHeartbeatAgeSeconds: Annotated[float | None, "Seconds since its last heartbeat in this window."]
    silent: Annotated[bool, "True if it works and has sent nothing for `heartbeat_timeout`."]


class WindowProgressAnswer(InfiniteAnswer):
    """How far the running window is."""

    remainingSeconds: Annotated[float | None, "Wall time that it will still take, without Spark's own work."]
    cpuRemainingSeconds: Annotated[float | None, "The sum of the operators' remaining seconds."]
    fractionDone: Annotated[float | None, "Part of the window that is done, from 0 to 1."]
    basis: Annotated[str, "What `remainingSeconds` is based on."]
    expectedEndAt: Annotated[float | None, "When it will end; null if no window runs."]


class SourceAnswer(InfiniteAnswer, InRegionAnswer):
    """The backlog of one source; `infinite` is about `backlogSeconds`."""

    operator: Annotated[str, "Name of the input operator."]
    unit: Annotated[str | None, "What the source counts: `records`, `bytes` or its own unit."]
    backlog: Annotated[EstimateAnswer, "What waits, in `unit`."]
    backlogRecords: Annotated[float | None, "Records of the source that wait; null if unknown."]
    backlogBytes: Annotated[float | None, "Bytes of the source that wait; null if unknown."]
    backlogSeconds: Annotated[float | None, "Seconds to work the backlog off, were nothing to arrive."]
    drainPerSecond: Annotated[float | None, "Units consumed per second."]
    arrivalPerSecond: Annotated[float | None, "Units that arrive per second."]
    basis: Annotated[str, "What the backlog is based on."]
    caughtUpAt: Annotated[float | None, "When the backlog will be processed; null unless it catches up."]
    oldest: Annotated[EstimateAnswer, "Age of the oldest record that waits, in seconds."]
    asOf: Annotated[float | None, "When the source last reported."]
    problem: Annotated[str | None, "Why the source could not be asked; null if it answers."]
    verdict: Annotated[str, "Whether the application keeps up with it: `keeping up`, `falling behind`, ..."]


FULL = 0.9
"""An operator that is busier than this is full: what is missing went into commits and borders of windows."""


class BottleneckAnswer(TypedDict):
    """The operator that limits the application: it is busy all the time, or its slot is, mostly with it."""

    operator: Annotated[str, "Name of the operator."]
    busy: Annotated[float, "Share of the last seconds in which it worked, in its busiest slot; 1: all."]
    slotBusy: Annotated[float, "The same of all operators of that slot."]
    perSecond: Annotated[float, "Tuples that it does per second; of an input, that it emits."]
    wantedPerSecond: Annotated[float | None, "Tuples that arrive for it per second; null if not known."]
    partitions: Annotated[int, "Its partitions."]
    enough: Annotated[int | None, "The fewest partitions that keep up, each in a slot; null if unknown."]
    slots: Annotated[int | None, "How many slots the application needs with these."]


class BacklogAnswer(InfiniteAnswer):
    """The backlog of the application: the worst of its sources; `infinite` is about `backlogSeconds`."""

    backlogRecords: Annotated[float | None, "Records that wait, over all sources."]
    backlogSeconds: Annotated[float | None, "The longest time that a source's backlog takes."]
    basis: Annotated[str, "What `backlogSeconds` is based on; `schedule`: on how late windows are."]
    caughtUpAt: Annotated[float | None, "When all backlogs will be processed."]
    oldest: Annotated[EstimateAnswer, "Age of the oldest record; by the schedule, how late windows are."]
    asOf: Annotated[float | None, "When the source whose report is the oldest reported."]
    unreachable: Annotated[list[str], "Names of sources that do not answer."]
    stuckOutputs: Annotated[list[str], "Outputs whose committed results do not get through, and why."]
    stuckStores: Annotated[list[str], "Why nothing can be committed or published: a store does not answer."]
    verdict: Annotated[str, "The worst verdict of the sources, or what the schedule says."]
    windowsBehind: Annotated[int | None, "Windows that are due by the schedule and not begun."]
    bottleneck: Annotated[BottleneckAnswer | None, "What limits the application while behind, if known."]


class ProgressAnswer(TypedDict):
    """How far the running window and the sources are."""

    windowId: Annotated[int | None, "The window that runs, or the last one."]
    running: Annotated[bool, "True while the window runs."]
    elapsedSeconds: Annotated[float | None, "Seconds since its attempt began, or that it took."]
    operators: Annotated[list[OperatorProgressAnswer], "The physical operators, in topological order."]
    containers: Annotated[list[ContainerProgressAnswer], "The containers."]
    window: Annotated[WindowProgressAnswer, "The window as a whole."]
    sources: Annotated[list[SourceAnswer], "The sources."]
    application: Annotated[BacklogAnswer, "The backlog and verdict of the application."]
    because: Annotated[NotRequired[list[str]], "What is to blame for the verdict, of several regions."]
    queues: Annotated[NotRequired[list[QueueAnswer]], "The queues between regions, if there are several."]


class SourcePartitionAnswer(InfiniteAnswer, InRegionAnswer, TypedDict):
    """How far a partition of an input operator is; `infinite` is about `remaining`."""

    id: Annotated[int, "Id of the physical operator."]
    operator: Annotated[str, "Its title."]
    consumed: Annotated[float | None, "Units consumed since the start; null if unknown."]
    remaining: Annotated[float | None, "Units that wait; null if unknown or unbounded."]
    remainingBytes: Annotated[float | None, "Bytes that wait; null if unknown."]
    windowId: Annotated[int, "The last committed window of which it has said so."]


class SourceDetailAnswer(TypedDict):
    """One source, with its partitions."""

    operator: Annotated[str, "Name of the input operator."]
    unit: Annotated[str | None, "The unit that it counts in: `records`, `bytes` or its own."]
    partitions: Annotated[list[SourcePartitionAnswer], "Those that have reported; one row of a whole source."]
    position: Annotated[Any, "Its position after the last commit, as its class writes it; null if unknown."]


class OutputAnswer(InRegionAnswer, TypedDict):
    """The results of an output operator that readers may see."""

    operator: Annotated[str, "Name of the output operator."]
    visibleWindow: Annotated[int | None, "Readers see results up to this window; null before the first."]
    visibleAt: Annotated[float | None, "Since when."]
    timesPublished: Annotated[int, "How often results became visible in this run."]
    problem: Annotated[str, "Why committed results do not get through; empty if they do."]
