"""The figures of an application of several regions, joined: what its web service and its handle show."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any, cast

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.answers.application import (
    InfoAnswer,
    OperatorTotalsAnswer,
    OverviewAnswer,
    PendingInfoAnswer,
    RunAnswer,
    RunSummaryAnswer,
)
from ridgeline.measure.answers.changes import ChangeFiguresAnswer, DecisionAnswer, MarkAnswer, PromiseAnswer
from ridgeline.measure.answers.history import ApplicationHistoryAnswer, OperatorHistoryAnswer
from ridgeline.measure.answers.operators import (
    ContainerAnswer,
    LinesAnswer,
    MetricHistoryAnswer,
    MetricsAnswer,
    OperatorAnswer,
    RecordAgesAnswer,
    StreamAnswer,
)
from ridgeline.measure.answers.progress import (
    OutputAnswer,
    ProgressAnswer,
    SourceDetailAnswer,
    SourcePartitionAnswer,
)
from ridgeline.measure.answers.regions import QueueAnswer, RegionAnswer, RegionsAnswer
from ridgeline.measure.answers.watermarks import WatermarkAnswer, WatermarksAnswer
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned, RunEvent
from ridgeline.measure.progress.verdict import Verdict
from ridgeline.measure.registry.scrape import Scrape
from ridgeline.measure.topology import MetricNode, OperatorNode, StreamEdge, Topology
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.observe.watch import Subscriber
from ridgeline.plan.region import QueueEdge
from ridgeline.regions import sums
from ridgeline.regions.paths import joined_path
from ridgeline.regions.queues import GROWS, QueueLog, QueueMeter, Waiting, queue_path, waiting
from ridgeline.regions.region_run import RegionRun
from ridgeline.regions.sums import failure_of, state_of
from ridgeline.regions.verdict import because, joined_progress
from ridgeline.regions.view import IDS, RegionView

# Watermarks of an application of several regions: who holds back whom, across queues.

_NAMED = 8


def joined_watermarks(views: Sequence[RegionView], edges: Sequence[QueueEdge]) -> WatermarksAnswer:
    """The rows of all regions. Where the reader of a queue holds back, the inputs are named that do so there.

    These are what the writer of the queue waits for. A reader that is behind what was written is named too.
    """
    rows: dict[str, list[WatermarkAnswer]] = {}
    found: list[WatermarkAnswer] = []
    readers: dict[str, tuple[QueueEdge, list[WatermarkAnswer]]] = {}
    for view in views:
        names = {node.title: node.name for node in view.watch.topology.operators}
        for edge in edges:
            if edge.reader_region == view.name:
                titles = [title for title, name in names.items() if name == edge.reader]
                readers |= dict.fromkeys(titles, (edge, rows.get(edge.writer, [])))
        marks: WatermarksAnswer = view.watermarks()
        for row in marks["operators"]:
            made: WatermarkAnswer = {
                **row,
                "heldBackBy": _through(row["heldBackBy"], readers, row["watermark"]),
                "idleInputs": _idle(row["idleInputs"], readers),
            }
            if row["operator"] in readers and row["state"] != "finished":
                made["heldBackBy"] = _through([row["operator"]], readers, row["watermark"])
            rows.setdefault(names.get(row["operator"], row["operator"]), []).append(made)
            found.append(made)
    return {"operators": found}


def _through(
    titles: Sequence[str],
    readers: dict[str, tuple[QueueEdge, list[WatermarkAnswer]]],
    watermark: float | None,
) -> list[str]:
    """The holders, with what is behind a queue in the place of its reader."""
    found: dict[str, None] = {}
    for title in titles:
        if title not in readers:
            found[title] = None
            continue
        edge, written = readers[title]
        marks = [row["watermark"] for row in written if row["watermark"] is not None]
        if marks and (watermark is None or min(marks) > watermark):
            found[f"queue {edge.stream}"] = None  # what is in it moves the watermark once it is read
            continue
        least = min(marks, default=None)
        holders = [one for row in written if row["watermark"] == least for one in row["heldBackBy"]]
        found |= dict.fromkeys(holders or [title])
    return list(found)[:_NAMED]


def _idle(titles: Sequence[str], readers: dict[str, tuple[QueueEdge, list[WatermarkAnswer]]]) -> list[str]:
    """The idle inputs, with those behind a queue in the place of its reader."""
    found: dict[str, None] = {}
    for title in titles:
        behind = [one for row in readers[title][1] for one in row["idleInputs"]] if title in readers else []
        found |= dict.fromkeys(behind or [title])
    return list(found)[:_NAMED]


# The answers about regions and queues.


def queue_rows(
    meters: Sequence[QueueMeter], progress: Mapping[str, ProgressAnswer], now: float
) -> list[QueueAnswer]:
    """The queues, a row for each reader. `progress`: that of each region."""
    return [_queue(meter, progress[meter.edge.reader_region], now) for meter in meters]


def _queue(meter: QueueMeter, progress: ProgressAnswer, now: float) -> QueueAnswer:
    """The row of one reader; `progress`: of its region."""
    edge, found = meter.edge, waiting(meter, now)
    state = state_of(meter.reader)
    seen = next((one["verdict"] for one in progress["sources"] if one["operator"] == edge.reader), "")
    gained = found.read - found.written
    catches_up = found.tuples > 0 and gained > 0 and seen == Verdict.CATCHING_UP
    return {
        "stream": edge.stream,
        "writer": edge.writer,
        "writerRegion": edge.writer_region,
        "reader": edge.reader,
        "readerRegion": edge.reader_region,
        "backlogRecords": found.tuples,
        "backlogBytes": found.bytes,
        "backlogSeconds": found.seconds,
        "writtenPerSecond": found.written,
        "readPerSecond": found.read,
        "caughtUpAt": now + found.tuples / gained if catches_up else None,
        "verdict": _verdict(state, found, seen),
        "full": found.full,
        "fullAt": found.full_at,
        "fullInSeconds": None if found.full_at is None else max(0.0, found.full_at - now),
        "keepSeconds": meter.keep_seconds,
        "keepBytes": meter.keep_bytes,
    }


def _verdict(state: str, found: Waiting, seen: str) -> str:
    """The verdict of the reader; of one that does not run, what follows from what waits.

    One that is not sure yet goes by the rates, which are over a longer time.
    """
    if state in {"RUNNING", "PENDING"}:
        grows = found.tuples > 0 and found.read < (1 - GROWS) * found.written
        return (
            Verdict.FALLING_BEHIND.value
            if grows and seen == Verdict.HOLDING
            else seen or Verdict.UNKNOWN.value
        )
    if not found.tuples:
        return Verdict.KEEPING_UP.value
    if state == "FAILED":
        return Verdict.STUCK.value
    return Verdict.FALLING_BEHIND.value if found.written > 0 else Verdict.HOLDING.value


def region_rows(views: Sequence[RegionView], queues: Sequence[QueueAnswer]) -> list[RegionAnswer]:
    """The regions, in topological order."""
    return [_region(view, queues) for view in views]


def _region(view: RegionView, queues: Sequence[QueueAnswer]) -> RegionAnswer:
    """The row of one region, with those of `queues` that it has an end of."""
    region, info = view.region, view.watch.info()
    last = next(iter(view.watch.windows(1)), None)
    return {
        "name": view.name,
        "number": region.number,
        "state": state_of(region),
        "error": failure_of(region),
        "operators": [one.name for one in region.plan.logical.operators],
        "windowSeconds": region.plan.logical.window_seconds,
        "committedWindow": info["stats"]["recoveryWindowId"] if "id" in info else None,
        "latencyMs": None if last is None else last["latencyMs"],
        "reads": [row for row in queues if row["readerRegion"] == view.name],
        "writes": [row for row in queues if row["writerRegion"] == view.name],
    }


_log = logging.getLogger(__name__)
QUEUE_PORT = "queue"
"""The port by which the ends of a queue are joined in the topology."""


class RegionNeededError(Exception):
    """A window was asked for without its region, where there are several."""


class JoinedWatch:
    """The figures of all regions of a running application, with the answers of `Watch`. Thread-safe.

    Ids of operators, containers, changes and decisions are those of their region plus its number times
    1,000,000. Windows are of a region: to ask for one without its region raises RegionNeededError. Lists have
    the regions in topological order. The part of an answer that is of a region is of one moment.
    """

    def __init__(self, regions: Sequence[RegionRun], now: Callable[[], float] | None = None) -> None:
        """`regions`: in topological order. `now`: the wall clock; None: that of the regions."""
        self.regions = tuple(regions)
        self.views = tuple(map(RegionView, regions))
        self.subscribers_dropped = 0
        self._now = now or regions[0].watch.now
        self._order = threading.Lock()
        self._over: set[str] = set()
        by_name = {region.name: region for region in regions}
        logs: dict[str, QueueLog | None] = {}
        self.meters: list[QueueMeter] = []
        for edge in dict.fromkeys(chain.from_iterable(region.region.reads for region in regions)):
            writer, reader = by_name[edge.writer_region], by_name[edge.reader_region]
            if edge.writer not in logs:
                path = queue_path(edge, writer)
                readers = [one.reader for one in writer.region.writes if one.writer == edge.writer]
                logs[edge.writer] = QueueLog(path, readers) if path else None
            self.meters.append(QueueMeter(edge, writer, reader, logs[edge.writer]))

    def replay(self, events: Mapping[str, Iterable[RunEvent]]) -> None:
        """Take in how far readers of queues were in runs that have ended, and read their queues.

        `events`: of each region, those that its `watch` has had before this was made.
        """
        for meter in self.meters:
            for event in events[meter.edge.reader_region]:
                meter.observe(event)
            if meter.log is not None:
                meter.log.read()

    # Regions ------------------------------------------------------------------------------------------------

    def of(self, region: str) -> RegionView:
        """One region. Raises KeyError naming those there are."""
        for view in self.views:
            if view.name == region:
                return view
        names = [view.name for view in self.views]
        raise KeyError(f"there is no region `{region}`; {did_you_mean(region, names)}")

    def region_answers(self) -> RegionsAnswer:
        """The regions: how each is, its windows, and its queues."""
        overview = self.overview()
        progress = overview["progress"]
        blame = "; ".join(progress.get("because", ()))
        said = f"{progress['application']['verdict']}: {blame}" if blame else sentence_of(overview)["text"]
        return {"sentence": said, "regions": region_rows(self.views, progress.get("queues", []))}

    def _needs_region(self, window_id: int | None) -> None:
        if window_id is not None and len(self.regions) > 1:
            names = ", ".join(f"`{region.name}`" for region in self.regions)
            raise RegionNeededError(
                f"window {window_id} may be one of each region; name one of them with `region`: {names}"
            )

    # Events -------------------------------------------------------------------------------------------------

    def subscribe(
        self, callback: Subscriber, kinds: Collection[type[RunEvent]] | None = None
    ) -> Callable[[], None]:
        """Call `callback` with the events of all regions from now on, never in two threads at once.

        `kinds`: the events that it wants; None: all of them.

        Ids in them are those of their region. The application ends once all of its regions have: the event of
        the last one is passed on, as that of the application. Returns a function that ends the subscription.
        """
        wanted = None if kinds is None else {ApplicationPlanned, ApplicationEnded, *kinds}
        ends = [
            region.watch.subscribe(self._passing(region, callback, kinds), wanted) for region in self.regions
        ]

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe

    def _passing(
        self, region: RegionRun, callback: Subscriber, kinds: Collection[type[RunEvent]] | None
    ) -> Subscriber:
        """Passes on the events of a region, one at a time over all regions."""

        def take(event: RunEvent) -> None:
            with self._order:
                if isinstance(event, ApplicationPlanned):
                    self._over.discard(region.name)
                elif isinstance(event, ApplicationEnded):
                    self._over.add(region.name)
                    if len(self._over) < len(self.regions):
                        return
                if kinds is None or type(event) in kinds:
                    callback(event)

        return take

    # Answers ------------------------------------------------------------------------------------------------

    @property
    def topology(self) -> Topology:
        """The operators and streams of all regions; the ends of each queue are joined by a stream."""
        nodes: list[OperatorNode] = []
        streams: list[StreamEdge] = []
        metrics: list[MetricNode] = []
        for view in self.views:
            topology = view.watch.topology
            nodes += [
                replace(node, id=view.id(node.id), container=view.id(node.container))
                for node in topology.operators
            ]
            streams += [
                replace(edge, source=view.id(edge.source), sink=view.id(edge.sink))
                for edge in topology.streams
            ]
            metrics += topology.metrics
        return Topology(tuple(nodes), (*streams, *self._queue_streams()), tuple(metrics))

    def _queue_streams(self) -> Iterator[StreamEdge]:
        """The streams through queues: partition `i` of the writer is read by `i` modulo the readers."""
        for meter in self.meters:
            edge = meter.edge
            writer, reader = self.of(edge.writer_region), self.of(edge.reader_region)
            sources = writer.watch.topology.partitions_of(edge.writer)
            sinks = reader.watch.topology.partitions_of(edge.reader)
            for node in sources if sinks else ():
                sink = sinks[node.partition % len(sinks)]
                yield StreamEdge(edge.stream, writer.id(node.id), QUEUE_PORT, reader.id(sink.id), QUEUE_PORT)

    def info(self) -> InfoAnswer | PendingInfoAnswer:
        """The application as a whole: who, since when, state, `stats`."""
        return self._info(self.critical_path())

    def _info(self, path: CriticalPathAnswer) -> InfoAnswer | PendingInfoAnswer:
        infos = [view.watch.info() for view in self.views]
        return sums.info(self.regions, infos, path)

    def run(self) -> RunAnswer:
        """How far the run is: all windows of all regions."""
        return sums.run([view.watch.run() for view in self.views])

    def summary(self) -> RunSummaryAnswer:
        """The run in sum: its windows, its operators, what failed."""
        return sums.summary([view.watch.summary() for view in self.views], self.promises())

    def operators(self) -> list[OperatorAnswer]:
        """All physical operators."""
        return self._each("operators")

    def operator(self, operator_id: int) -> OperatorAnswer:
        """One physical operator."""
        return self._view_of(operator_id, "operator").operator(operator_id)

    def containers(self) -> list[ContainerAnswer]:
        """All containers."""
        return self._each("containers")

    def container(self, container_id: int) -> ContainerAnswer:
        """One container."""
        return self._view_of(container_id, "container").container(container_id)

    def _view_of(self, number: int, kind: str) -> RegionView:
        for view in self.views:
            if view.region.number == number // IDS:
                return view
        parts = ", ".join(f"{view.region.number * IDS:,} ({view.name})" for view in self.views)
        raise KeyError(f"there is no {kind} {number}; ids of the regions begin at {parts}")

    def streams(self) -> list[StreamAnswer]:
        """The physical streams, and those through queues."""
        return [*self._each("streams"), *sums.stream_rows(self._queue_streams())]

    def latency(self, window_id: int | None = None) -> LatencyAnswer:
        """The latencies of all operators in the last window of each region."""
        self._needs_region(window_id)
        return sums.latency([(view.name, view.latency(window_id)) for view in self.views])

    def latencies(self, limit: int) -> list[LatencyAnswer]:
        """The latencies of the operators of each region in each of its last windows."""
        return self._each("latencies", limit)

    def critical_path(self, window_id: int | None = None) -> CriticalPathAnswer:
        """The critical path to the sink that is latest, through all queues on its way."""
        self._needs_region(window_id)
        return joined_path(self.views, self.meters)

    def record_age(self, operator: str | None = None) -> RecordAgesAnswer:
        """The record ages of the last minute, of all operators or of one."""
        found = [view.record_age(operator) for view in self._views_with(operator)]
        return {
            "operators": list(chain.from_iterable(one["operators"] for one in found)),
            "fromNewestRecord": any(one["fromNewestRecord"] for one in found),
        }

    def _views_with(self, operator: str | None) -> Sequence[RegionView]:
        """The region that has an operator, or all of them for None. Raises KeyError."""
        if operator is None:
            return self.views
        names: dict[str, None] = {}
        for view in self.views:
            nodes = view.watch.topology.operators
            own = dict.fromkeys(one for node in nodes for one in (node.name, node.label, node.title))
            if operator in own:
                return [view]
            names |= own
        raise KeyError(
            f"`{operator}` is not an operator of this application; {did_you_mean(operator, names)}"
        )

    def _each(self, question: str, *given: Any) -> list[Any]:
        """The rows that the regions answer, one region after the other."""
        return [row for view in self.views for row in getattr(view, question)(*given)]

    def _by_time(self, question: str, limit: int | None, at: str = "at") -> list[Any]:
        """The last rows of all regions, by time."""
        return sums.last(sorted(self._each(question, limit), key=itemgetter(at)), limit)

    def progress(self) -> ProgressAnswer:
        """The progress of the running windows, of the sources, and of what waits in queues."""
        now = self._now()
        each = {view.name: view.progress() for view in self.views}
        queues = queue_rows(self.meters, each, now)
        found = joined_progress(self.views, each, queues)
        found["because"] = because(self.views, queues, now)
        return found

    def source(self, name: str) -> SourceDetailAnswer:
        """One source with its partitions."""
        known = [source["operator"] for source in self.progress()["sources"]]
        for view in self.views:
            if name in known and any(node.name == name for node in view.watch.topology.operators):
                found = view.watch.source(name)
                rows = [{**row, "id": view.id(row["id"]), "region": view.name} for row in found["partitions"]]
                return {**found, "partitions": cast("list[SourcePartitionAnswer]", rows)}
        raise KeyError(f"there is no source `{name}`; {did_you_mean(name, known)}")

    def watermarks(self) -> WatermarksAnswer:
        """How far event time has come at each operator, and who holds it back, across queues."""
        return joined_watermarks(self.views, [meter.edge for meter in self.meters])

    def lines(self, operator: str | None = None) -> LinesAnswer:
        """Where the Python time of operators goes, by line; `ofPath` is of the path of their region."""
        found = [view.lines(operator) for view in self._views_with(operator)]
        rows = sorted(chain.from_iterable(one["operators"] for one in found), key=lambda one: -one["seconds"])
        return {"seconds": found[0]["seconds"], "operators": rows}

    def own_metrics(self, operator: str | None = None) -> MetricsAnswer:
        """The metrics that operators declare, of all operators or of one."""
        found = [view.watch.own_metrics(operator) for view in self._views_with(operator)]
        return {"metrics": list(chain.from_iterable(one["metrics"] for one in found))}

    def metric_history(self, operator: str, metric: str, limit: int | None = None) -> MetricHistoryAnswer:
        """A metric that an operator declares, over the last windows, minutes and hours."""
        [view] = self._views_with(operator)
        return view.watch.metric_history(operator, metric, limit)

    def changes(self, limit: int | None = None) -> list[ChangeFiguresAnswer]:
        """The last changes that were requested, by when they were."""
        return self._by_time("changes", limit)

    def decisions(self, limit: int | None = None) -> list[DecisionAnswer]:
        """The last decisions of policies and listeners, by when they were made."""
        return self._by_time("decisions", limit)

    def outputs(self) -> list[OutputAnswer]:
        """The results of output operators that readers may see."""
        return [{**row, "region": view.name} for view in self.views for row in view.watch.outputs()]

    def marks(self, limit: int | None = None) -> list[MarkAnswer]:
        """The last things that happened, by time."""
        return self._by_time("marks", limit)

    def promises(self) -> list[PromiseAnswer]:
        """The promises: kept or broken. One of the application is broken if one region breaks it."""
        return sums.promises([view.watch.promises() for view in self.views])

    def operator_totals(self) -> dict[str, OperatorTotalsAnswer]:
        """The totals of logical operators and unifiers so far, whatever partitions they had."""
        return {title: row for view in self.views for title, row in view.watch.operator_totals().items()}

    def keep_figures(self) -> None:
        """Keep figures over periods from now on."""
        for view in self.views:
            view.watch.keep_figures()

    def operator_history(
        self, operator: str, begin: float | None = None, step: float | None = None
    ) -> OperatorHistoryAnswer:
        """The last hours of a logical operator, in steps. Raises KeyError."""
        [view] = self._views_with(operator)
        return view.watch.operator_history(operator, begin, step)

    def application_history(
        self, begin: float | None = None, step: float | None = None
    ) -> ApplicationHistoryAnswer:
        """The last hours of the windows of all regions, by time."""
        return sums.histories(
            [(view.name, view.watch.application_history(begin, step)) for view in self.views]
        )

    def windows(self, limit: int | None = None) -> list[WindowSummaryAnswer]:
        """Summaries of the last windows of all regions, by their commits, the newest last."""
        return self._by_time("windows", limit, "committedAt")

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window."""
        self._needs_region(window_id)
        return self.views[0].window(window_id)

    def overview(self) -> OverviewAnswer:
        """All that a view shows."""
        overviews = [view.overview() for view in self.views]
        path = self.critical_path()
        latencies = [(view.name, one["latency"]) for view, one in zip(self.views, overviews, strict=True)]
        windows = [one["window"] for one in overviews if one["window"] is not None]
        changes = [one["change"] for one in overviews if one["change"] is not None]
        return {
            "windowId": path["windowId"],
            "at": self._now(),
            "window": max(windows, key=lambda one: one["committedAt"], default=None),
            "info": self._info(path),
            "latency": sums.latency(latencies),
            "criticalPath": path,
            "change": max(changes, key=lambda one: one["since"], default=None),
            "promises": self.promises(),
            "recordAge": self.record_age(),
            "progress": self.progress(),
            "operators": list(chain.from_iterable(one["operators"] for one in overviews)),
        }

    def trace_of(self, operator: str, window_id: int) -> str | None:
        """The id of the trace of a window of the operator's region, None if windows have none."""
        for region in self.regions:
            watch = region.watch
            if watch.traced and any(operator in {one.label, one.name} for one in watch.topology.operators):
                return watch.trace_of(operator, window_id)
        return None

    def scrapes(self) -> list[tuple[str, Scrape]]:
        """The name of each region and its figures for metrics systems, with ids of its own."""
        queues = self.progress().get("queues", [])
        found = []
        for view in self.views:
            scrape = view.watch.scrape()
            own = [row for row in queues if row["readerRegion"] == view.name]
            scrape.overview["progress"]["queues"] = own
            found.append((view.name, scrape))
        return found
