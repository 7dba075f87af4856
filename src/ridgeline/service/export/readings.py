"""The values of all metrics of the registry, read off a running application at one moment."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.measure.answers.application import InfoAnswer
from ridgeline.measure.answers.operators import OperatorAnswer
from ridgeline.measure.answers.own_metrics import MetricAnswer
from ridgeline.measure.answers.progress import ProgressAnswer, SourceAnswer
from ridgeline.measure.answers.watermarks import WatermarkAnswer
from ridgeline.measure.answers.windows import CriticalPathAnswer
from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.metrics import BY_NAME, METRICS
from ridgeline.measure.registry.labels import STATES, VERDICTS
from ridgeline.measure.registry.operators import OPERATOR_METRICS
from ridgeline.measure.topology import MetricNode
from ridgeline.observe import identity

if TYPE_CHECKING:
    from ridgeline.observe.watch import Scrape, Watch

Labels = tuple[str, ...]

OWN_PREFIX = "metric_"
"""Their names begin with it, after Ridgeline's own prefix: no name can be one of the registry's."""
_MOST = 2**63

OwnSample = tuple[tuple[str, ...], float]
"""The values of a metric's labels but `application`, and the value."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's values.

    `counts`: up to each of the metric's bounds, cumulative, and last all of them. `total`: their sum.
    """

    counts: tuple[int, ...]
    total: float


Sample = tuple[Labels, float | Distribution]
"""The values of a metric's labels, `application` first, and the value."""

_PARTITION = re.compile(r"\[\d+\]$")
_OF_OPERATORS = [(row.metric.name, row.name) for row in OPERATOR_METRICS if row.metric is not None]
"""Metrics whose value is a field of an operator's answer, and the field."""


class Readings:
    """Reads an application's metrics. Thread-safe."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._version = identity.version()
        self._lock = threading.Lock()
        self._compute: dict[Labels, float] = {}

    def read(self) -> tuple[float, list[tuple[Metric, list[Sample]]]]:
        """The time, and all metrics of the registry in its order, with their samples as of then.

        Those that operators declare follow. The time is STRAM's wall clock. All values are finite.
        """
        with self._lock:
            scrape = self._watch.scrape()
            found: dict[str, list[Sample]] = {metric.name: [] for metric in METRICS}
            info = scrape.overview["info"]
            application = info["name"] if "id" in info else ""
            for name, labels, value in self._samples(scrape):
                if value is not None and (isinstance(value, Distribution) or math.isfinite(value)):
                    found[name].append(((application, *labels), value))
            own: list[tuple[Metric, list[Sample]]] = [
                (metric, [((application, *labels), value) for labels, value in samples])
                for metric, samples in own_metrics(scrape.own_nodes, scrape.own_metrics)
            ]
        return scrape.overview["at"], [*((BY_NAME[name], samples) for name, samples in found.items()), *own]

    def _samples(self, scrape: Scrape) -> Iterator[tuple[str, Labels, float | Distribution | None]]:
        """All values by metric, labels without the application's name; None where nothing is known."""
        overview = scrape.overview
        info = overview["info"]
        yield "build_info", (self._version,), 1
        if "id" not in info:
            return  # nothing is planned yet
        titles = {row["name"]: _of_row(row) for row in overview["operators"]}
        yield from _application(info, overview["progress"])
        yield from _windows(scrape, titles)
        yield from _critical_path(overview["criticalPath"], titles)
        yield from self._latencies(scrape)
        for row in overview["operators"]:
            yield from _operator(row, _of_row(row))
        yield from _records(scrape, titles)
        for mark in scrape.watermarks["operators"]:
            yield from _watermark(mark, titles[mark["operator"]])
        for source in overview["progress"]["sources"]:
            yield from _source(source, overview["at"])
        yield from _hosts(scrape, info["stats"]["clockSkew"])
        yield "slots_lost_total", (), scrape.slots.lost
        yield "slots_silent_total", (), scrape.slots.silent
        if scrape.slots.present is not None and scrape.slots.wanted is not None:
            yield "slots", (), scrape.slots.present
            yield "slots_wanted", (), scrape.slots.wanted
        yield "slots_restarted_total", (), scrape.slots.restarted
        yield "slots_reduced_total", (), scrape.slots.reduced
        yield "slots_misplaced_total", (), scrape.slots.misplaced
        yield "slots_speculated_total", (), scrape.slots.speculated
        yield "plan_version", (), info["planVersion"]
        for state, count in scrape.changes.items():
            yield "changes_total", (state,), count
        yield "change_held_seconds", (), scrape.held_seconds
        for promise in scrape.promises:
            if promise["kept"] is not None:
                yield "promise_kept", (promise["promise"],), float(promise["kept"])
            yield "promise_broken_seconds_total", (promise["promise"],), promise["brokenSeconds"]
        yield "state_compactions_total", (), scrape.compactions
        yield "state_warnings_total", (), scrape.state_warnings
        yield "heartbeats_unsent_total", (), scrape.heartbeats_unsent
        yield "subscribers_dropped_total", (), scrape.subscribers_dropped

    def _latencies(self, scrape: Scrape) -> Iterator[tuple[str, Labels, float | Distribution]]:
        """Latencies and times of operators since the start. Counters never fall."""
        spent = {row["id"]: row["secondsSpent"] or 0.0 for row in scrape.overview["progress"]["operators"]}
        running = scrape.overview["progress"]["running"]
        seen: dict[Labels, float] = {}
        for node, total in scrape.latencies:
            labels = _PARTITION.sub("", node.title), str(node.partition)
            # What an attempt that is made again had taken is taken back; a counter must not be.
            seen[labels] = max(
                total.compute + (spent.get(node.id, 0.0) if running else 0.0), self._compute.get(labels, 0.0)
            )
            yield "operator_window_latency_seconds", labels, Distribution(total.counts, total.latency)
            yield "operator_compute_seconds_total", labels, seen[labels]
            yield "operator_cpu_seconds_total", labels, total.cpu
            yield "operator_wait_seconds_total", labels, total.wait
            yield "operator_transfer_seconds_total", labels, total.transfer
        self._compute = seen


def _of_row(row: OperatorAnswer) -> Labels:
    """The labels `operator` and `partition` of a physical operator."""
    return _PARTITION.sub("", row["name"]), str(row["partition"])


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _states(
    name: str, labels: Labels, states: Sequence[str], actual: str
) -> Iterator[tuple[str, Labels, float]]:
    for state in states:
        yield name, (*labels, state), float(state == actual)


def _application(info: InfoAnswer, progress: ProgressAnswer) -> Iterator[tuple[str, Labels, float | None]]:
    """The values of the application as a whole."""
    stats, whole = info["stats"], progress["application"]
    yield "application_info", (info["id"], info["user"] or "", info["master"] or ""), 1
    yield from _states("application_state", (), STATES, info["state"])
    yield "application_start_timestamp_seconds", (), info["startTime"]
    yield from _states("verdict", (), VERDICTS, whole["verdict"])
    yield "backlog_seconds", (), whole["backlogSeconds"]
    yield "backlog_records", (), whole["backlogRecords"]
    yield "windows_behind", (), whole["windowsBehind"]
    yield (
        "progress_remaining_seconds",
        (),
        progress["window"]["remainingSeconds"] if progress["running"] else None,
    )
    yield "windows_committed_total", (), stats["windowsCommitted"]
    yield "windows_retried_total", (), stats["windowsRetried"]
    yield "tasks_retried_total", (), stats["tasksRetried"]
    yield "heartbeats_received_total", (), stats["heartbeatsReceived"]
    for reason, count in stats["messagesRefusedByReason"].items():
        yield "messages_refused_total", (reason,), count


def _windows(scrape: Scrape, titles: Collection[str]) -> Iterator[tuple[str, Labels, float | Distribution]]:
    """The times of windows. Operators that the plan has no more are left out of the blame."""
    yield "window_latency_seconds", (), Distribution(scrape.windows.counts, scrape.windows.latency)
    for (what, operator), seconds in scrape.windows.blame.items():
        if not operator or operator in titles:
            yield "window_blame_seconds_total", (what, operator), seconds
    if scrape.last_window is not None:
        yield "last_commit_timestamp_seconds", (), scrape.last_window["committedAt"]


def _critical_path(
    path: CriticalPathAnswer, titles: Mapping[str, Labels]
) -> Iterator[tuple[str, Labels, float | None]]:
    """The last window's critical path; `titles`: labels by operator title."""
    yield "critical_path_seconds", (), _seconds(path["latencyMs"])
    for position, step in enumerate(path["path"]):
        labels = titles.get(step["operator"])
        if labels is not None:
            yield "critical_path_operator_seconds", labels, _seconds(step["latencyMs"])
            yield "critical_path_info", (str(position), *labels), 1
    for title, ms in path["slack"].items():
        if title in titles:
            yield "operator_slack_seconds", titles[title], _seconds(ms)


def _operator(row: OperatorAnswer, labels: Labels) -> Iterator[tuple[str, Labels, float | None]]:
    for port in row["ports"]:
        kind = "in" if port["type"] == "input" else "out"
        yield f"operator_records_{kind}_total", (*labels, port["name"]), port["totalTuples"]
    values: Mapping[str, Any] = row
    for metric, name in _OF_OPERATORS:
        yield metric, labels, values[name]


def _records(
    scrape: Scrape, titles: Mapping[str, Labels]
) -> Iterator[tuple[str, Labels, float | Distribution | None]]:
    """Record ages, since the start and of the last minute."""
    for node, place, total in scrape.ages:
        yield (
            "record_latency_seconds",
            (*titles[node.title], place),
            Distribution(total.counts, total.sum_seconds),
        )
    for row in scrape.overview["recordAge"]["operators"]:
        labels = (*titles[row["operator"]], row["at"])
        for statistic, found in (
            ("minimum", row["minMs"]),
            ("maximum", row["maxMs"]),
            ("average", row["avgMs"]),
        ):
            yield f"record_latency_{statistic}_seconds", (*labels, row["level"]), _seconds(found)
        yield "record_latency_negative_records", labels, row["negative"]


def _watermark(row: WatermarkAnswer, labels: Labels) -> Iterator[tuple[str, Labels, float | None]]:
    yield "watermark_timestamp_seconds", labels, row["watermark"]
    yield "watermark_lag_seconds", labels, row["lagSeconds"]
    yield "watermark_idle", labels, float(row["state"] == "idle")
    yield "records_late_total", labels, row["lateRecords"]
    yield "records_ahead_total", labels, row["recordsAhead"]


def _source(row: SourceAnswer, now: float) -> Iterator[tuple[str, Labels, float | None]]:
    labels = (row["operator"],)
    yield "source_backlog_records", labels, row["backlogRecords"]
    yield "source_backlog_bytes", labels, row["backlogBytes"]
    yield "source_backlog_seconds", labels, row["backlogSeconds"]
    caught_up = row["caughtUpAt"]
    yield "source_catch_up_seconds", labels, None if caught_up is None else max(0.0, caught_up - now)
    yield from _states("source_verdict", labels, VERDICTS, row["verdict"])


def _hosts(scrape: Scrape, skew: Mapping[str, float]) -> Iterator[tuple[str, Labels, float | None]]:
    for container in scrape.containers:
        yield (
            "container_heartbeat_age_seconds",
            (str(container["id"]), str(container["host"])),
            container["heartbeatAgeSeconds"],
        )
    for host, ms in skew.items():
        yield "clock_skew_seconds", (host,), _seconds(ms)
    yield "clock_clamps_total", (), scrape.overview["latency"]["clamps"]


def own_metrics(
    nodes: Sequence[MetricNode], rows: Sequence[MetricAnswer]
) -> Iterator[tuple[Metric, list[OwnSample]]]:
    """The declared metrics with their values; those of the same name of several operators are one metric.

    Where one of them is shown by partition all have the label `partition`, which is empty for an aggregate.
    """
    families: dict[str, list[tuple[MetricNode, MetricAnswer]]] = {}
    for node, row in zip(nodes, rows, strict=True):
        families.setdefault(node.exported_name, []).append((node, row))
    for name, members in families.items():
        first = members[0][0]
        divided = any(node.by_partition for node, _ in members)
        labels = ("operator", "partition") if divided else ("operator",)
        text = first.help or f"The metric `{first.name}` of operators."
        kind = Kind.COUNTER if first.kind == "counter" else Kind.GAUGE
        metric = Metric(OWN_PREFIX + name, kind, first.unit, labels, text, "")
        found: list[OwnSample] = []
        for node, row in members:
            for partition, value in _values(node, row):
                if value is not None:
                    known = value if abs(value) < _MOST else float(value)
                    found.append((((node.operator, partition) if divided else (node.operator,)), known))
        yield metric, found


def _values(node: MetricNode, row: MetricAnswer) -> Iterator[tuple[str, float | None]]:
    """The label `partition` and the value: of a counter the total, of a gauge that of the last window."""
    counter = node.kind == "counter"
    if node.by_partition:
        values = row["partitionTotals"] if counter else row["partitions"]
        yield from ((str(number), value) for number, value in enumerate(values))
    else:
        yield "", row["total"] if counter else row["value"]
