"""The figures of an application of several regions, joined: what its web service and its handle show."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from itertools import chain
from operator import itemgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.answers.application import (
    OverviewAnswer,
)
from ridgeline.measure.answers.operators import StreamAnswer, streams_answer
from ridgeline.measure.answers.progress import (
    ProgressAnswer,
)
from ridgeline.measure.answers.regions import QueueAnswer, RegionAnswer, RegionsAnswer, WaitingAnswer
from ridgeline.measure.answers.watermarks import WatermarksAnswer, watermarks_answer
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
)
from ridgeline.measure.events import ApplicationEnded, ApplicationPlanned, RunEvent
from ridgeline.measure.progress.verdict import Verdict
from ridgeline.measure.registry.scrape import Scrape
from ridgeline.measure.topology import StreamEdge, Topology
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.observe.watch import Subscriber, Watch
from ridgeline.plan.region import IDS
from ridgeline.regions import sums
from ridgeline.regions.paths import joined_path
from ridgeline.regions.queues import GROWS, QueueLog, QueueMeter, queue_of, waiting
from ridgeline.regions.region_run import RegionRun, failure_of, state_of
from ridgeline.regions.verdict import States, because, joined_progress
from ridgeline.regions.view import RegionView

# The answers about regions and queues.


def _queue(meter: QueueMeter, states: States, now: float) -> QueueAnswer:
    """The row of one reader of a queue."""
    edge, found = meter.edge, waiting(meter, now)
    state, sources = states.state[edge.reader_region], states.progress[edge.reader_region]["sources"]
    seen = next((one["verdict"] for one in sources if one["operator"] == edge.reader), "")
    gained = found["readPerSecond"] - found["writtenPerSecond"]
    catches_up = found["backlogRecords"] > 0 and gained > 0 and seen == Verdict.CATCHING_UP
    return {
        "stream": edge.stream,
        "writer": edge.writer,
        "writerRegion": edge.writer_region,
        "reader": edge.reader,
        "readerRegion": edge.reader_region,
        **found,
        "caughtUpAt": now + found["backlogRecords"] / gained if catches_up else None,
        "verdict": _verdict(state, found, seen),
    }


def _verdict(state: str, found: WaitingAnswer, seen: str) -> str:
    """The verdict of the reader; of one that does not run, what follows from what waits.

    One that is not sure yet goes by the rates, which are over a longer time.
    """
    if state in {"RUNNING", "PENDING"}:
        grows = (
            found["backlogRecords"] > 0 and found["readPerSecond"] < (1 - GROWS) * found["writtenPerSecond"]
        )
        return (
            Verdict.FALLING_BEHIND.value
            if grows and seen == Verdict.NOT_CATCHING_UP
            else seen or Verdict.UNKNOWN.value
        )
    if not found["backlogRecords"]:
        return Verdict.KEEPING_UP.value
    if state == "FAILED":
        return Verdict.STUCK.value
    return Verdict.FALLING_BEHIND.value if found["writtenPerSecond"] > 0 else Verdict.NOT_CATCHING_UP.value


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


_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def _every(watch: JoinedWatch, *_given: object) -> Sequence[RegionView]:
    return watch.views


def _by_operator(watch: JoinedWatch, operator: str | None = None, *_given: object) -> Sequence[RegionView]:
    """The region that has an operator, or all of them for None. Raises KeyError."""
    if operator is None:
        return watch.views
    names: dict[str, None] = {}
    for view in watch.views:
        nodes = view.watch.topology.operators
        own = dict.fromkeys(one for node in nodes for one in (node.name, node.label, node.title))
        if operator in own:
            return [view]
        names |= own
    raise KeyError(f"`{operator}` is not an operator of this application; {did_you_mean(operator, names)}")


def _by_id(watch: JoinedWatch, number: int) -> Sequence[RegionView]:
    """The region that an operator or a container is of, by its id. Raises KeyError."""
    found = [view for view in watch.views if view.region.number == number // IDS]
    if not found:
        parts = ", ".join(f"{view.region.number * IDS:,} ({view.name})" for view in watch.views)
        raise KeyError(f"there is no id {number}; ids of the regions begin at {parts}")
    return found


def _most_time_first(values: list[Any]) -> list[Any]:
    return sorted(chain.from_iterable(values), key=lambda one: -one["seconds"])


def _newest(rows: Iterable[Any], at: str) -> Any:
    known = [row for row in rows if row is not None]
    return max(known, key=itemgetter(at), default=None)


def _asked(
    ask: Callable[Concatenate[Watch, _Given], _Answer],
    *,
    of: Callable[..., Sequence[RegionView]] = _every,
    by: str = "",
    join: Callable[..., Any] | None = None,
    of_window: bool = False,
    **rules: sums.Rule,
) -> Callable[Concatenate[JoinedWatch, _Given], _Answer]:
    """A question to `Watch` about several regions.

    `of`: the regions that are asked. Their rows come one after the other, or in the order of the field `by`,
    of which the last are wanted. Other answers are joined by `rules`, see `sums.joined`, or by `join`, which
    gets the watch and the answers. `of_window`: a window is of one region, so none may be asked for.
    """

    @wraps(ask)
    def answer(self: JoinedWatch, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Answer:
        if of_window:
            self.needs_region(next(iter((*args, *kwargs.values())), None))
        found: list[Any] = [
            getattr(view, ask.__name__)(*args, **kwargs) for view in of(self, *args, *kwargs.values())
        ]
        if join is not None:
            joined: _Answer = join(self, found)
            return joined
        if by:
            limit: Any = next(iter((*args, *kwargs.values())), None)
            found = [sums.in_order(found, by)]
            found = [found[0] if limit is None else found[0][-limit:]]
        elif isinstance(found[0], list):
            found = [list(chain.from_iterable(found))]
        made: _Answer = found[0] if len(found) == 1 else sums.joined(found, **rules)
        return made

    return answer


def _joined_latency(watch: JoinedWatch, answers: Sequence[LatencyAnswer]) -> LatencyAnswer:
    """The latencies of all regions, each of a window of its own."""
    found: LatencyAnswer = sums.joined(answers, windowId=sums.greatest)
    windows = {view.name: one["windowId"] for view, one in zip(watch.views, answers, strict=True)}
    return {**found, "windows": windows}


def _joined_progress(watch: JoinedWatch, answers: Sequence[ProgressAnswer]) -> ProgressAnswer:
    """The progress of all regions, with what waits in queues, and who is to blame for it."""
    now, states = watch.now(), States.of(watch.views, answers)
    queues = [_queue(meter, states, now) for meter in watch.meters]
    found = joined_progress(states, queues)
    found["because"] = because(states, queues)
    return found


class JoinedWatch(Watch):
    """The figures of all regions of a running application, each asked for its own. Thread-safe.

    Ids of operators, containers, changes and decisions are those of their region plus its number times
    1,000,000. Windows are of a region: to ask for one without its region raises RegionNeededError. Lists have
    the regions in topological order. The part of an answer that is of a region is of one moment.
    """

    def __init__(self, regions: Sequence[RegionRun], now: Callable[[], float] | None = None) -> None:
        """`regions`: in topological order. `now`: the wall clock; None: that of the regions."""
        super().__init__(now or regions[0].watch.now)
        self.regions = tuple(regions)
        self.views = tuple(map(RegionView, regions))
        self._over: set[str] = set()
        by_name = {region.name: region for region in regions}
        logs: dict[str, QueueLog] = {}
        self.meters: list[QueueMeter] = []
        for edge in dict.fromkeys(chain.from_iterable(region.region.reads for region in regions)):
            writer, reader = by_name[edge.writer_region], by_name[edge.reader_region]
            if edge.writer not in logs:
                logs[edge.writer] = QueueLog(str(queue_of(edge, writer).path))
            self.meters.append(QueueMeter(edge, writer, reader, logs[edge.writer]))

    def replay(self, events: Mapping[str, Iterable[RunEvent]]) -> None:
        """Take in how far readers of queues were in runs that have ended, and read their queues.

        `events`: of each region, those that its `watch` has had before this was made.
        """
        for meter in self.meters:
            for event in events[meter.edge.reader_region]:
                meter.observe(event)
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
        return {
            "sentence": said,
            "regions": [_region(view, progress.get("queues", [])) for view in self.views],
        }

    def needs_region(self, window_id: object) -> None:
        """Raise RegionNeededError for a window, where there are several regions."""
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
        parts = [view.watch.topology for view in self.views]
        streams = chain.from_iterable(one.streams for one in parts)
        return Topology(
            tuple(chain.from_iterable(one.operators for one in parts)),
            (*streams, *self._queue_streams()),
            tuple(chain.from_iterable(one.metrics for one in parts)),
        )

    def _queue_streams(self) -> Iterator[StreamEdge]:
        """The streams through queues: partition `i` of the writer is read by `i` modulo the readers."""
        for meter in self.meters:
            edge = meter.edge
            writer, reader = self.of(edge.writer_region), self.of(edge.reader_region)
            sources = writer.watch.topology.partitions_of(edge.writer)
            sinks = reader.watch.topology.partitions_of(edge.reader)
            for node in sources if sinks else ():
                sink = sinks[node.partition % len(sinks)]
                yield StreamEdge(edge.stream, node.id, QUEUE_PORT, sink.id, QUEUE_PORT)

    operators = _asked(Watch.operators)
    operator = _asked(Watch.operator, of=_by_id)
    containers = _asked(Watch.containers)
    container = _asked(Watch.container, of=_by_id)
    latency = _asked(Watch.latency, of_window=True, join=_joined_latency)
    latencies = _asked(Watch.latencies)
    progress = _asked(Watch.progress, join=_joined_progress)
    source = _asked(Watch.source, of=_by_operator)
    record_age = _asked(Watch.record_age, of=_by_operator)
    lines = _asked(Watch.lines, of=_by_operator, seconds=sums.greatest, operators=_most_time_first)
    own_metrics = _asked(Watch.own_metrics, of=_by_operator)
    metric_history = _asked(Watch.metric_history, of=_by_operator)
    operator_history = _asked(Watch.operator_history, of=_by_operator)
    application_history = _asked(
        Watch.application_history,
        join=lambda watch, answers: sums.histories(answers, [view.name for view in watch.views]),
    )
    changes = _asked(Watch.changes, by="at")
    decisions = _asked(Watch.decisions, by="at")
    promises = _asked(Watch.promises, join=lambda _, answers: sums.promises(answers))
    outputs = _asked(Watch.outputs)
    marks = _asked(Watch.marks, by="at")
    windows = _asked(Watch.windows, by="committedAt")
    window = _asked(Watch.window, of_window=True)
    info = _asked(
        Watch.info, join=lambda watch, answers: sums.info(watch.regions, answers, watch.critical_path())
    )
    run = _asked(Watch.run, join=lambda _, answers: sums.run(answers))
    summary = _asked(Watch.summary, join=lambda _, answers: sums.summary(answers))
    operator_totals = _asked(Watch.operator_totals)
    keep_figures = _asked(Watch.keep_figures, join=lambda *_: None)

    def critical_path(self, window_id: int | None = None) -> CriticalPathAnswer:
        """The critical path to the sink that is latest, through all queues on its way."""
        self.needs_region(window_id)
        return joined_path(self.views, self.meters)

    def streams(self) -> list[StreamAnswer]:
        """The physical streams, and those through queues."""
        own = chain.from_iterable(view.watch.streams() for view in self.views)
        queues = streams_answer(Topology((), tuple(self._queue_streams())))
        for row in queues:
            row["kind"] = "queue"
        return [*own, *queues]

    def watermarks(self) -> WatermarksAnswer:
        """How far event time has come at each operator, and who holds it back, across queues."""
        topology = self.topology
        marks = {number: mark for view in self.views for number, mark in view.watch.watermark_marks().items()}
        ends = [meter.edge for meter in self.meters]
        queues = {node.id: edge.stream for edge in ends for node in topology.partitions_of(edge.reader)}
        found = watermarks_answer(marks, topology, queues)
        names = {view.region.number: view.name for view in self.views}
        for row in found["operators"]:
            row["region"] = names[row["id"] // IDS]
        return found

    def overview(self, *, latencies: bool = True) -> OverviewAnswer:
        """All that a view shows: of each region what it had at one moment."""
        path = self.critical_path()
        overviews = [view.overview(latencies=latencies) for view in self.views]
        found: OverviewAnswer = sums.joined(
            overviews,
            windowId=lambda _: path["windowId"],
            at=lambda _: self.now(),
            window=partial(_newest, at="committedAt"),
            change=partial(_newest, at="since"),
            info=partial(sums.info, self.regions, path=path),
            latency=partial(_joined_latency, self),
            criticalPath=lambda _: path,
            promises=sums.promises,
            recordAge=sums.joined,
            progress=partial(_joined_progress, self),
        )
        return found

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
