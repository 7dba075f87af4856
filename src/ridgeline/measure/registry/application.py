"""Metrics of the application as a whole."""

from __future__ import annotations

from ridgeline.measure.answers.progress import BacklogAnswer, ProgressAnswer
from ridgeline.measure.metric import STATES, VERDICTS, Labelled, Metric
from ridgeline.measure.registry.scrape import Scrape, one, state


def _backlog(scrape: Scrape) -> BacklogAnswer:
    """The backlog of the application as a whole."""
    return scrape.overview["progress"]["application"]


def _run(scrape: Scrape) -> Labelled:
    """The run's id, user and master."""
    info = scrape.info
    yield (info["id"], info["user"] or "", info["master"] or ""), 1


def _kept(scrape: Scrape) -> Labelled:
    """Whether promises are kept."""
    for promise in scrape.promises:
        kept = promise["kept"]
        yield (promise["promise"],), None if kept is None else float(kept)


def _remaining_seconds(progress: ProgressAnswer) -> float | None:
    """The time that the running window will still take."""
    return progress["window"]["remainingSeconds"] if progress["running"] else None


APPLICATION = (
    Metric(
        "build_info",
        "The version of Ridgeline that runs.",
        "Compare it with the changelog when figures change after a deployment.",
        labels=("version",),
    ),
    Metric(
        "application_info",
        "The run: its id, who started it, and on which Spark master.",
        "Join it to other metrics to distinguish runs of one application.",
        labels=("id", "user", "master"),
        read=_run,
    ),
    Metric(
        "application_state",
        "1 for the state that the application is in.",
        "Alert on `FAILED`; its reason is in `/ws/v2/stram/info` and in the driver's log.",
        labels=("state",),
        aliases=("Kafka Streams `state`",),
        states=STATES,
        read=lambda scrape: state(STATES, scrape.info["state"]),
    ),
    Metric(
        "application_start_timestamp_seconds",
        "When the run began, seconds since 1970.",
        "Subtract it from `time()` for the uptime; a change is a restart.",
        aliases=("Apex `startTime`",),
        read=one(lambda scrape: scrape.info["startTime"]),
    ),
    Metric(
        "verdict",
        "1 for the application's verdict: the worst of its sources'.",
        "Look first here. `falling behind`: speed up or partition the operators on the critical path. "
        "`stuck`: look at the stack of the"
        " container whose heartbeat says where it is.",
        labels=("verdict",),
        states=VERDICTS,
        read=lambda scrape: state(VERDICTS, _backlog(scrape)["verdict"]),
    ),
    Metric(
        "backlog_seconds",
        "How long the sources' backlog would take to be processed, were nothing to arrive.",
        "If it grows, the application is too slow for its input.",
        aliases=("Dataflow `backlog_seconds`",),
        read=one(lambda scrape: _backlog(scrape)["backlogSeconds"]),
    ),
    Metric(
        "backlog_records",
        "Records that sources have not given to the application yet.",
        "If it grows, the application is too slow for its input.",
        aliases=("Flink `pendingRecords`", "Kafka `records-lag`"),
        read=one(lambda scrape: _backlog(scrape)["backlogRecords"]),
    ),
    Metric(
        "oldest_waiting_seconds",
        "Age of the oldest record that waits at a source or in windows under way; by the schedule, how late "
        "windows are.",
        "Alert on it: results are at least so old. While it grows, the application falls behind.",
        read=one(lambda scrape: _backlog(scrape)["oldest"]["value"]),
    ),
    Metric(
        "progress_remaining_seconds",
        "Time that the running window will still take, by Beam's progress formulas. Absent while unknown.",
        "If it is much longer than windows take, look at `/ws/v2/stram/progress` for the operator that "
        "takes it.",
        read=one(lambda scrape: _remaining_seconds(scrape.overview["progress"])),
    ),
    Metric(
        "windows_behind",
        "Windows that are due by the schedule and not begun.",
        "If it grows, windows take longer than they are wide: widen them, or shorten the critical path.",
        read=one(lambda scrape: _backlog(scrape)["windowsBehind"]),
    ),
    Metric(
        "plan_version",
        "Version of the plan; it grows with each change of it.",
        "A step in any other figure at the same time comes from the change: see `ridgeline changes`.",
        read=one(lambda scrape: scrape.info["planVersion"]),
    ),
    Metric(
        "changes_total",
        "Changes that were asked for while the application ran, by the states that they have come to.",
        "`REFUSED`: its reason is in `ridgeline changes`. `QUEUED` above the sum of the others: some wait.",
        labels=("state",),
        read=lambda scrape: [((name,), count) for name, count in scrape.changes.items()],
    ),
    Metric(
        "change_held_seconds",
        "Time from the last window before the last change of the plan to the first one with it, as they are "
        "published. Absent before the first.",
        "What is above the usual distance of windows is what the change has cost: moving states, new slots.",
        read=one(lambda scrape: scrape.held_seconds),
    ),
    Metric(
        "promise_kept",
        "1 while a promise of the application is kept, 0 while it is broken. Absent while it cannot "
        "be judged.",
        "At 0: see `ridgeline promises`. The alert `RidgelinePromiseBroken` looks at it.",
        labels=("promise",),
        read=_kept,
    ),
    Metric(
        "promise_broken_seconds_total",
        "How long a promise of the application was broken, in sum.",
        "Its rate is the share of time in which the promise was broken.",
        labels=("promise",),
        read=lambda scrape: [((each["promise"],), each["brokenSeconds"]) for each in scrape.promises],
    ),
)
