"""Metrics of the application as a whole."""

from __future__ import annotations

from ridgeline.measure.answers.application import InfoAnswer
from ridgeline.measure.answers.changes import PromiseAnswer
from ridgeline.measure.answers.progress import BacklogAnswer, ProgressAnswer
from ridgeline.measure.metric import STATES, VERDICTS, Labelled, Metric
from ridgeline.measure.registry.scrape import Scrape, of_answers, one, state


def _backlog(scrape: Scrape) -> BacklogAnswer:
    """The backlog of the application as a whole."""
    return scrape.overview["progress"]["application"]


def _run(scrape: Scrape) -> Labelled:
    """The run's id, user and master."""
    info = scrape.info
    yield (info["id"], info["user"] or "", info["master"] or ""), 1


def _remaining_seconds(progress: ProgressAnswer) -> float | None:
    """The time that the running window will still take."""
    return progress["window"]["remainingSeconds"] if progress["running"] else None


_of_run = of_answers(InfoAnswer, lambda scrape: (((), scrape.info),))
_of_backlog = of_answers(BacklogAnswer, lambda scrape: (((), _backlog(scrape)),))
_of_promise = of_answers(
    PromiseAnswer,
    lambda scrape: (((row["promise"],), row) for row in scrape.overview["promises"]),
    ("promise",),
)
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
    _of_run(
        "application_start_timestamp_seconds",
        "startTime",
        "Subtract it from `time()` for the uptime; a change is a restart.",
        "Apex `startTime`",
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
    _of_backlog(
        "backlog_seconds",
        "backlogSeconds",
        "If it grows, the application is too slow for its input.",
        "Dataflow `backlog_seconds`",
    ),
    _of_backlog(
        "backlog_records",
        "backlogRecords",
        "If it grows, the application is too slow for its input.",
        "Flink `pendingRecords`",
        "Kafka `records-lag`",
    ),
    _of_backlog(
        "oldest_waiting_seconds",
        "oldest",
        "Alert on it: results are at least so old. While it grows, the application falls behind.",
    ),
    Metric(
        "progress_remaining_seconds",
        "Time that the running window will still take, by Beam's progress formulas. Absent while unknown.",
        "If it is much longer than windows take, `/ws/v2/stram/progress` has the operator that takes it.",
        read=one(lambda scrape: _remaining_seconds(scrape.overview["progress"])),
    ),
    _of_backlog(
        "windows_behind",
        "windowsBehind",
        "If it grows, windows take longer than they are wide: widen them, or shorten the critical path.",
    ),
    _of_run(
        "plan_version",
        "planVersion",
        "A step in any other figure at the same time comes from the change: see `ridgeline changes`.",
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
        "From the last window before the last change of the plan to the first with it. Absent before it.",
        "What is above the usual distance of windows is what the change has cost: moving states, new slots.",
        read=one(lambda scrape: scrape.held_seconds),
    ),
    _of_promise(
        "promise_kept",
        "kept",
        "At 0: see `ridgeline promises`. The alert `RidgelinePromiseBroken` looks at it.",
    ),
    _of_promise(
        "promise_broken_seconds_total",
        "brokenSeconds",
        "Its rate is the share of time in which the promise was broken.",
    ),
)
