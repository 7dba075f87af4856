"""Answers about the application as a whole: who it is, its figures in sum, and all of one moment."""

from __future__ import annotations

from typing import Annotated, Any, final

from typing_extensions import TypedDict

from ridgeline.measure.answers.changes import ChangeFiguresAnswer, PromiseAnswer
from ridgeline.measure.answers.operators import OperatorAnswer, RecordAgesAnswer
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer, LatencyAnswer, WindowSummaryAnswer


class StatsAnswer(TypedDict):
    """The figures of an application, under Apex's names where it has them.

    `...PSMA` is per second, averaged.
    """

    allocatedContainers: Annotated[int, "Containers whose process is known."]
    plannedContainers: Annotated[int, "Containers of the plan."]
    failedContainers: Annotated[int, "Failures of containers so far."]
    numOperators: Annotated[int, "Physical operators."]
    latency: Annotated[float | None, "Milliseconds of the critical path of the averages."]
    criticalPath: Annotated[list[str], "Titles of the operators on the critical path of the averages."]
    windowLatency: Annotated[float | None, "Milliseconds that the last window took."]
    windowStartMillis: Annotated[int | None, "When the first window was due, milliseconds since 1970."]
    currentWindowId: Annotated[int | None, "The window that runs, or the last one."]
    recoveryWindowId: Annotated[int | None, "The last committed window."]
    windowsCommitted: Annotated[int, "Windows that this run has committed."]
    windowsRetried: Annotated[int, "Attempts that did not count and were made again."]
    tasksRetried: Annotated[int, "Tasks that Spark began again in committed windows."]
    slots: Annotated[int | None, "Slots that host containers now; null where there are none."]
    slotsWanted: Annotated[int | None, "As many slots as there would be if Spark had the cores."]
    slotsLost: Annotated[int, "Slots that were lost: their process died, or is out of reach."]
    slotsSilent: Annotated[int, "How often the host of a slot did not answer for a while."]
    slotsRestarted: Annotated[int, "Processes that took the place of a slot that was lost."]
    slotsReduced: Annotated[int, "How often containers moved to fewer slots: Spark had too few cores."]
    slotsMisplaced: Annotated[int, "Slots that stay on a host that their streams' locality does not want."]
    slotsSpeculated: Annotated[int, "Slots that were late, so that the spare one ran their containers."]
    tuplesProcessedPSMA: Annotated[float, "Tuples into operators, per second."]
    totalTuplesProcessed: Annotated[int, "Tuples into operators, since the start."]
    tuplesEmittedPSMA: Annotated[float, "Tuples out of operators, per second."]
    totalTuplesEmitted: Annotated[int, "Tuples out of operators, since the start."]
    heartbeatsReceived: Annotated[int, "Heartbeats that counted."]
    messagesRefused: Annotated[int, "Messages and connections that did not count."]
    messagesRefusedByReason: Annotated[dict[str, int], "The same by reason: `unauthenticated`, `late`, ..."]
    clockSkew: Annotated[dict[str, float], "By host, milliseconds that its clock is behind STRAM's."]


@final
class InfoAnswer(TypedDict):
    """The application: who, where, since when, its state and its figures."""

    id: Annotated[str, "Id of the run."]
    name: Annotated[str, "Name of the application."]
    user: Annotated[str | None, "Who started it."]
    version: Annotated[str | None, "Version of Ridgeline."]
    checkpoint: Annotated[str | None, "The checkpoint folder."]
    master: Annotated[str | None, "The Spark master."]
    propertiesKept: Annotated[dict[str, str], "Properties of the run before that it goes on with, by name."]
    startTime: Annotated[float, "When the run began, seconds since 1970."]
    elapsedTime: Annotated[float, "Seconds since then, up to its end."]
    state: Annotated[str, "`RUNNING`, `PAUSED`, `FINISHED`, `STOPPED`, `FAILED`; `PENDING` without a plan."]
    reason: Annotated[str, "Why it failed; empty otherwise."]
    planVersion: Annotated[int, "Version of the plan; it grows when the plan changes."]
    windowSeconds: Annotated[float, "The width of a window."]
    attributes: Annotated[dict[str, Any], "The application's attributes."]
    stats: Annotated[StatsAnswer, "The figures."]


class NoStatsAnswer(TypedDict):
    """No figures yet."""


@final
class PendingInfoAnswer(TypedDict):
    """An application whose run is not planned yet."""

    state: Annotated[str, "`PENDING`."]
    stats: Annotated[NoStatsAnswer, "Nothing yet."]


class LastWindowAnswer(TypedDict):
    """What a run reports of its last committed window."""

    windowId: Annotated[int, "The window."]
    tuplesIn: Annotated[int, "Tuples that the inputs emitted."]
    tuplesOut: Annotated[int, "Tuples that reached operators which nobody reads from."]
    seconds: Annotated[float, "Time from its begin in Ridgeline to its commit."]


class OperatorTotalsAnswer(TypedDict):
    """What a logical operator, or its unifiers, did in a run."""

    operator: Annotated[str, "Name of the operator; of unifiers, their title without a number."]
    partitions: Annotated[int, "Partitions in the present plan."]
    tuplesIn: Annotated[int, "Tuples in, over all partitions."]
    tuplesOut: Annotated[int, "Tuples out, over all partitions."]
    seconds: Annotated[float, "Compute time: of each window, that of the slowest partition."]
    errors: Annotated[int, "Tuples emitted at error ports or left out."]
    windows: Annotated[int, "Windows of the run since it was planned."]
    windowsDropped: Annotated[int, "Windows that a partition lost, with `AT_MOST_ONCE`."]
    lateRecords: Annotated[int, "Records that came too late, by the watermark; they are no errors."]


class ErrorTupleAnswer(TypedDict):
    """A tuple that failed."""

    operator: Annotated[str, "Name of the operator."]
    windowId: Annotated[int, "The window."]
    text: Annotated[str, "The tuple as text."]


class RunAnswer(TypedDict):
    """How far a run is, as of its last window. It costs the same however long the run is."""

    windows: Annotated[int, "Windows that this run has committed."]
    last: Annotated[LastWindowAnswer | None, "The last one; null before the first."]
    committedAt: Annotated[float | None, "When it was committed."]
    fractionDone: Annotated[float | None, "Part of its work that the slowest input has done, if known."]
    remainingSeconds: Annotated[float | None, "How long the inputs still take at this pace."]


class RunSummaryAnswer(RunAnswer):
    """What a run adds up to."""

    retries: Annotated[int, "Attempts that did not count and were made again."]
    tasksRetried: Annotated[int, "Tasks that Spark began again in committed windows."]
    slotsLost: Annotated[int, "Slots that were lost: their process died, or is out of reach."]
    startedAt: Annotated[float | None, "When the first window was planned."]
    firstSeconds: Annotated[float | None, "What the first window took."]
    medianSeconds: Annotated[float | None, "The median of the other windows."]
    p90Seconds: Annotated[float | None, "What 90 % of the other windows stayed within."]
    operators: Annotated[list[OperatorTotalsAnswer], "In topological order."]
    errorTuples: Annotated[list[ErrorTupleAnswer], "The last 10 tuples that failed."]
    promises: Annotated[list[PromiseAnswer], "What the application has promised, as of the run's end."]
    drops: Annotated[list[str], "The last 5 failures that made `AT_MOST_ONCE` operators lose a window."]


class OverviewAnswer(TypedDict):
    """All that a view shows, of one moment."""

    windowId: Annotated[int | None, "The last committed window."]
    at: Annotated[float, "The moment."]
    window: Annotated[WindowSummaryAnswer | None, "The last committed window in short; null if not kept."]
    info: Annotated[InfoAnswer | PendingInfoAnswer, "The application as a whole."]
    latency: Annotated[LatencyAnswer, "The latencies in the last window."]
    criticalPath: Annotated[CriticalPathAnswer, "The critical path of the last window."]
    change: Annotated[ChangeFiguresAnswer | None, "The change to which something happened last."]
    promises: Annotated[list[PromiseAnswer], "What the application promises, and whether it is kept."]
    recordAge: Annotated[RecordAgesAnswer, "The record ages of the last minute."]
    progress: Annotated[ProgressAnswer, "How far the running window and the sources are."]
    operators: Annotated[list[OperatorAnswer], "All physical operators."]


class SentencePartAnswer(TypedDict):
    """A piece of a sentence."""

    text: Annotated[str, "The piece; all pieces joined are the sentence."]
    about: Annotated[dict[str, str] | None, "The page's `view` of it, with parameters; null for other words."]


class SentenceAnswer(TypedDict):
    """How an application does, in a sentence."""

    text: Annotated[str, "The sentence, such as `keeping up: a window takes 97 ms, 42% of it parse`."]
    state: Annotated[str, "`starting`, `ok`, `behind`, `stuck`, `failed` or `ended`."]
    parts: Annotated[list[SentencePartAnswer], "The pieces of the sentence."]


class ControlInstructionAnswer(TypedDict):
    """An instruction that STRAM answered with."""

    instruction: Annotated[str, "Its type, such as `RunWindow`."]
    details: Annotated[dict[str, Any], "Numbers and short texts of it."]


class ControlEventAnswer(TypedDict):
    """An event that STRAM received, and its answer."""

    at: Annotated[float, "When it was received, in seconds since 1970."]
    event: Annotated[str, "Its type, such as `ContainerReported`."]
    details: Annotated[dict[str, Any], "Numbers and short texts of it; no tuples, and secrets are masked."]
    instructions: Annotated[
        list[ControlInstructionAnswer] | None,
        "The instructions that followed, at most 20; null if STRAM failed on the event or has not answered.",
    ]


class InFlightWindowAnswer(TypedDict):
    """A window in flight."""

    window: Annotated[int, "Its id."]
    attempt: Annotated[int, "Its last attempt, counted from 0; -1 before the first."]
    phase: Annotated[str, "`due`, `running`, `complete`, `held`, `void` or `committing`."]
    reports: Annotated[int, "How many containers have reported the attempt."]


class DebugDumpAnswer(TypedDict):
    """The windows in flight, and the last events and instructions of STRAM."""

    application: Annotated[str, "Name of the application."]
    version: Annotated[str, "Version of Ridgeline."]
    at: Annotated[float | None, "When this was written, in seconds since 1970; null if there is no run yet."]
    fault: Annotated[str | None, "The error of which the driver died; null while it runs."]
    committed: Annotated[int, "The last committed window, -1 before the first."]
    windows: Annotated[list[InFlightWindowAnswer], "The windows in flight, the oldest first."]
    dropped: Annotated[int, "How many events before the first of `events` are not kept."]
    events: Annotated[list[ControlEventAnswer], "The last events, the oldest first."]
