"""Metrics of windows and of their critical paths."""

from __future__ import annotations

from ridgeline.measure.answers.application import StatsAnswer
from ridgeline.measure.events import StateCompacted, StateWarning
from ridgeline.measure.metric import LATENCY_BOUNDS_SECONDS, OPERATOR, Labelled, Labels, Metric
from ridgeline.measure.registry.scrape import Scrape, of_answers, one, seconds, summed


def _blame(scrape: Scrape) -> Labelled:
    """Seconds by cause and operator, without operators that the plan does not have any more."""
    found: dict[Labels, float] = {}
    for (what, operator), spent in scrape.windows.blame.items():
        if not operator or operator in scrape.labels_of:
            found[what, operator] = found.get((what, operator), 0.0) + spent
    return found.items()


def _path_seconds(scrape: Scrape) -> Labelled:
    """The seconds of the steps of the last critical path. Unifiers of one port may be several of them."""
    path = scrape.overview["criticalPath"]["path"]
    steps = ((scrape.labels_of.get(step["operator"]), seconds(step["latencyMs"])) for step in path)
    return summed((labels, spent) for labels, spent in steps if labels is not None).items()


def _slack(scrape: Scrape) -> Labelled:
    """The slack of the plan's operators."""
    for title, ms in scrape.overview["criticalPath"]["slack"].items():
        if title in scrape.labels_of:
            yield scrape.labels_of[title], seconds(ms)


_SLOTS = {
    "silent": "The network is cut or overloaded, or a host stands still: see the log for which.",
    "lost": "Look for the host's out-of-memory killer, lost executors and crashes in native code.",
    "restarted": "Less than `slots_lost_total` for long: Spark has no core to start the slot again.",
    "reduced": "Give Spark the cores again, and containers spread again by themselves.",
    "misplaced": "Tuples cross the network: free a core on that host, and restart the application.",
    "speculated": "Several a minute: a host is slow or overloaded, or `speculation_multiplier` is too low.",
}
"""What is counted of slots, and what to do about it."""
_of_run = of_answers(StatsAnswer, lambda scrape: (((), scrape.info["stats"]),))
WINDOWS = (
    Metric(
        "window_latency_seconds",
        "Time of a window from trigger to commit. It is counted when the next one is committed.",
        "Compare it with the critical path; `window_blame_seconds_total` names the rest.",
        aliases=("Spark `batchDuration`", "Flink `lastCheckpointDuration`"),
        bounds=LATENCY_BOUNDS_SECONDS,
        read=one(lambda scrape: scrape.windows.latency),
    ),
    Metric(
        "window_blame_seconds_total",
        "What windows waited for: the steps of their blame chains, which add up to `window_latency_seconds`."
        " Of `operator`, the physical operator's title, empty for what is Spark's or STRAM's.",
        "Speed up what has the greatest rate. `slot`: more cores; `launch`, `planning`: longer windows.",
        labels=("what", "operator"),
        read=_blame,
    ),
    _of_run(
        "windows_committed_total",
        "windowsCommitted",
        "Alert if its rate is 0 for longer than a few windows.",
        "Kafka Streams `commit-total`",
        "Flink `numberOfCompletedCheckpoints`",
    ),
    _of_run(
        "windows_retried_total",
        "windowsRetried",
        "Look for the reason in the driver's log: an operator that raised, or an executor that died.",
        "Flink `numberOfFailedCheckpoints`",
    ),
    _of_run(
        "tasks_retried_total",
        "tasksRetried",
        "Processes die: look for the host's out-of-memory killer, lost executors and crashes in native code.",
        "Spark `numFailedTasks`",
    ),
    _of_run(
        "slots",
        "slots",
        "Fewer than `slots_wanted`: Spark has no cores for more, or hosts are out of reach.",
    ),
    _of_run("slots_wanted", "slotsWanted", "Compare with `slots`."),
    *(_of_run(f"slots_{what}_total", f"slots{what.capitalize()}", advice) for what, advice in _SLOTS.items()),
    Metric(
        "state_compactions_total",
        "Compactions of states that were installed.",
        "None while states change: look for `state_warnings_total`, and in the driver's log.",
        read=one(lambda scrape: scrape.counts.kinds[StateCompacted]),
    ),
    Metric(
        "state_warnings_total",
        "Faults of state files, of compactions and of `teardown` that were put right without loss.",
        "Alert on any rate; the text is in the driver's log.",
        read=one(lambda scrape: scrape.counts.kinds[StateWarning]),
    ),
    Metric(
        "last_commit_timestamp_seconds",
        "When the last window was committed, seconds since 1970.",
        "`time()` less this is how old the newest visible results are.",
        read=one(lambda scrape: scrape.overview["window"] and scrape.overview["window"]["committedAt"]),
    ),
    Metric(
        "critical_path_seconds",
        "The last window's critical path: the longest chain of compute and transfer of operators.",
        "What a window takes at least. Far below its latency: look at the blame.",
        aliases=("Apex `latency`",),
        read=one(lambda scrape: seconds(scrape.overview["criticalPath"]["latencyMs"])),
    ),
    Metric(
        "critical_path_operator_seconds",
        "An operator's share of the last critical path, whose sum they are; absent off the path.",
        "The greatest is what to speed up or to partition.",
        labels=OPERATOR,
        read=_path_seconds,
    ),
    Metric(
        "operator_slack_seconds",
        "How much slower an operator off the critical path may become before it matters.",
        "Do not spend time on operators with much of it.",
        labels=OPERATOR,
        read=_slack,
    ),
)
