"""All figures of one application: the fold over its events, and the answers to every question about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.age.fold import AgeFold
from ridgeline.measure.age.histogram import Distribution, Integers, Seconds
from ridgeline.measure.answers.application import (
    InfoAnswer,
    OperatorTotalsAnswer,
    OverviewAnswer,
    PendingInfoAnswer,
    RunAnswer,
    RunSummaryAnswer,
    StatsAnswer,
)
from ridgeline.measure.answers.history import ApplicationHistoryAnswer, OperatorHistoryAnswer
from ridgeline.measure.answers.operators import (
    KEPT,
    SUMMED,
    ContainerAnswer,
    LinesAnswer,
    OperatorAnswer,
    RecordAgesAnswer,
    StreamAnswer,
    container_answer,
    no_such,
    operator_answer,
    streams_answer,
)
from ridgeline.measure.answers.progress import BacklogAnswer, ProgressAnswer, SourceAnswer, SourceDetailAnswer
from ridgeline.measure.answers.watermarks import (
    Mark,
    WatermarksAnswer,
    watermarks_answer,
)
from ridgeline.measure.answers.windows import (
    CriticalPathAnswer,
    LatencyAnswer,
    WindowAnswer,
    WindowSummaryAnswer,
)
from ridgeline.measure.changes import ChangeFold, DecisionFold
from ridgeline.measure.clocks import ClockOffsets, Line, on_our_clock
from ridgeline.measure.deciding.period import bottleneck_answer
from ridgeline.measure.events import (
    AgeSample,
    ApplicationChanged,
    ApplicationEnded,
    ApplicationPlanned,
    ContainerHeartbeat,
    MessagesRefused,
    OperatorMetrics,
    OutputAsked,
    OutputPublished,
    PolicyDecided,
    PromiseChanged,
    RunEvent,
    SourceAsked,
    SourceProgress,
    SourceTaken,
    SparkTrigger,
    StateCompacted,
    StateWarning,
    WindowCommitted,
    WindowPlanned,
    WindowReported,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.history.fold import (
    KEPT_SECONDS,
    Aged,
    HistoryFold,
    application_history,
    operator_history,
)
from ridgeline.measure.latency.fold import LatencyFold
from ridgeline.measure.latency.line_times import LineTimes
from ridgeline.measure.latency.since_start import LatencyTotal, WindowTotal
from ridgeline.measure.latency.window import Windows, WindowTimes, assemble
from ridgeline.measure.marks import MarkFold
from ridgeline.measure.moment import Moment, OperatorMoment
from ridgeline.measure.notices import MARKED
from ridgeline.measure.own_metrics import OwnMetrics
from ridgeline.measure.progress.averages import AVERAGE_WINDOWS
from ridgeline.measure.progress.columns import Doing
from ridgeline.measure.progress.fold import ProgressFold
from ridgeline.measure.progress.throughput import Throughput
from ridgeline.measure.progress.verdict import BEHIND
from ridgeline.measure.progress.windows import WindowsInFlight
from ridgeline.measure.run_counts import RunCounts
from ridgeline.measure.run_state import RunState
from ridgeline.measure.slot_events import SlotEvent, StoreSilent
from ridgeline.measure.status import OperatorStatus, Statuses
from ridgeline.measure.summary import RunTotals
from ridgeline.measure.topology import OperatorNode, Topology

_NOTHING = Doing({}, frozenset())
_MOST_FIGURES, _MOST_COUNTED = 1024, 256
"""Windows are folded together that have so many operators in sum, of a window so many at most.

Neither a reader nor the next commit waits longer: 10 ms with 20 operators, 30 ms with 2,000. Fewer at once
cost more in all: of 20 operators 0.2 ms a window, and 0.35 ms where a quarter is folded together.
"""
_NO_WIDTH = 1.0  # seconds that windows are taken to be wide that follow each other as fast as they get


class _Waiting(NamedTuple):
    """A window that is to be folded, the windows that it was behind, and ages that came after it."""

    times: WindowTimes
    behind: int
    ages: list[Aged]


class Measurement:
    """Feed it all events of one application in order (`apply`), and ask.

    Answers are plain data for JSON: camelCase names with units, times of day in seconds since 1970, null for
    what is not known. Those that depend on the time take `now`, STRAM's wall clock; those of an application
    that is over are as of its end. Windows count once they are committed, all at once: no answer holds half
    of one.

    `own_host` is where STRAM runs, whose clock needs no correction; default: `info["host"]` of the plan's
    event.

    A window is only kept when it comes. Several are folded together, in one pass over their arrays: once
    it is worth it, or when something is asked. Which windows that are changes no figure.

    Memory is bounded: single windows are kept for `stats_max_allowable_windows_lag` windows (1,000). With
    `metrics_recording_level` OFF only tuples, errors and states are folded. One thread at a time
    (`ridgeline.observe.watch` is for several).
    """

    def __init__(self, own_host: str = "") -> None:
        self.at = 0.0
        """When the last event was, STRAM's wall clock: `now` for a run that is over."""
        self._run = RunState()
        self._clocks = ClockOffsets(own_host=own_host)
        self._statuses = Statuses(KEPT, SUMMED)
        self.counts = RunCounts()
        self.changes = ChangeFold()
        """The changes that were requested."""
        self.decisions = DecisionFold()
        """The decisions of policies and listeners."""
        self.own_metrics = OwnMetrics()
        """Those that operators declare."""
        self.marks = MarkFold(self._title)
        """The marks on charts: things that happened."""
        self._lines = LineTimes()
        self._run_totals = RunTotals()
        self._waiting: list[_Waiting] = []
        self._triggers: dict[int, SparkTrigger] = {}
        """By window that waits, what Spark reported of it after its commit and before the next one."""
        self._begin({}, 0.0)

    def _begin(self, attributes: Mapping[str, Any], window_seconds: float) -> None:
        """Make the folds, whose settings are a run's."""
        interval = float(attributes.get("throughput_calculation_interval", 10.0))
        kept = max(AVERAGE_WINDOWS, int(attributes.get("stats_max_allowable_windows_lag", 1000)))
        self._latencies = LatencyFold(AVERAGE_WINDOWS, kept)
        self._ages = AgeFold(
            self._clocks,
            self._age,
            from_newest=str(attributes.get("ages_from_newest_record", False)).lower() == "true",
        )
        width = window_seconds or _NO_WIDTH
        self._throughput = Throughput(interval, window_seconds=width)
        self._progress = ProgressFold(width, interval, float(attributes.get("heartbeat_timeout", 30.0)))
        self._handlers: Mapping[type, Sequence[Callable[[Any], None]]] = {
            ApplicationPlanned: (self._plan,),
            ApplicationEnded: (self._end,),
            ApplicationChanged: (self.changes.add,),
            PolicyDecided: (self.decisions.add, self.counts.promises.decided),
            PromiseChanged: (self.counts.promises.add,),
            WindowPlanned: (self._plan_window,),
            WindowStarted: (self._start,),
            WindowRetried: (self._retry, self._statuses.retried),
            WindowCommitted: (self._commit,),
            **dict.fromkeys((WindowReported, OperatorMetrics), (self._windows.keep,)),
            SourceProgress: (self._source,),
            SourceTaken: (self._progress.source_taken,),
            SourceAsked: (self._progress.source_asked,),
            SparkTrigger: (self._trigger,),
            ContainerHeartbeat: (self._heartbeat,),
            MessagesRefused: (self.counts.refuse,),
            OutputPublished: (self._ages.published, self.counts.outputs.published),
            OutputAsked: (self.counts.outputs.asked,),
            SlotEvent: (self.counts.slot, self._statuses.slot),
            StoreSilent: (self._progress.store,),
            **dict.fromkeys((StateCompacted, StateWarning), ()),
        }

    @property
    def _windows(self) -> WindowsInFlight:
        return self._progress.windows

    @property
    def plan(self) -> ApplicationPlanned | None:
        """The event of the present plan; None before the first."""
        return self._run.plan

    @property
    def topology(self) -> Topology:
        """The topology of the present plan; empty before the first."""
        return self._run.topology

    def _title(self, operator: int) -> str:
        node = self.topology.by_id.get(operator)
        return f"operator {operator}" if node is None else node.title

    @property
    def _latency(self) -> LatencyFold:
        """Latencies, critical paths and blame, as of all windows."""
        self._fold()
        return self._latencies

    @property
    def _totals(self) -> RunTotals:
        """The run in sum, as of all windows."""
        self._fold()
        return self._run_totals

    @property
    def deciding(self) -> HistoryFold:
        """Metrics over periods."""
        return self._latency.history

    # Events in ----------------------------------------------------------------------------------------------

    def apply(self, event: RunEvent) -> None:
        """Take an event in. Windows of another plan are left out."""
        self.at = max(self.at, event.at)
        kind = type(event)
        self.counts.kinds[kind] += 1
        for handler in self._handlers[kind]:
            handler(event)
        if kind in MARKED:
            self.marks.add(event)

    def _plan(self, event: ApplicationPlanned) -> None:
        """Take a plan in. The first one begins the run; a later one is the plan from the next window on."""
        if self.plan is None:
            self._begin(event.attributes, event.window_seconds)
            self._clocks.own_host = self._clocks.own_host or str(event.info.get("host", ""))
        self._fold()
        event = self._run.planned(event)
        self._statuses.planned(event.topology, self._windows.committed_id)
        self._throughput.planned(event.topology)
        self._ages.planned(event.topology)
        self._latency.planned(event.topology, event.window_seconds)
        self._progress.planned(event.topology)
        self._totals.planned(event.topology)
        self.own_metrics.planned(event.topology)

    def _end(self, event: ApplicationEnded) -> None:
        self._run.ended = event
        self._progress.ended(event)
        self.counts.promises.ended = event.at
        self._statuses.attempt()
        self._statuses.failed(event.reason)

    def _plan_window(self, event: WindowPlanned) -> None:
        if self._progress.schedule.first is None:
            self._run_totals.started = event.at
        self._progress.window_planned(event)

    def _start(self, event: WindowStarted) -> None:
        if self._progress.window_started(event):
            self._statuses.attempt()

    def _retry(self, event: WindowRetried) -> None:
        self._run_totals.retries += not event.final

    def _source(self, event: SourceProgress) -> None:
        committed = self._windows.committed_id
        if committed is not None and event.window_id <= committed:
            self._progress.source(event)
        else:
            self._windows.keep(event)

    def _heartbeat(self, event: ContainerHeartbeat) -> None:
        self.counts.heartbeat(event)
        self._clocks.add(event.host, event.sent, event.at)
        self._statuses.process_usage(event)
        self._progress.heartbeat(event)
        self._lines.add(event.at, event.lines, self.topology)
        if self._windows.is_present(event.window_id, event.attempt):
            self._statuses.heartbeat(event)

    def _commit(self, event: WindowCommitted) -> None:
        """Fold a window, whose events have all come just before."""
        events = self._windows.events_of(event)
        times = assemble(self.topology, events)
        reported = times.reported
        self._clocks.add_reports(reported)
        times = replace(times, reported=on_our_clock(reported, self._clocks.lines()))
        self._statuses.window(times.reported)
        if reported.dropped:
            self.marks.add(reported)
        for one in events:
            if isinstance(one, OperatorMetrics):
                self.own_metrics.add(one)
            elif isinstance(one, SourceProgress):
                self._progress.source(one)
                self._run_totals.source(one)
        self._run_totals.note(reported)
        self._throughput.add(reported)
        self._progress.operators_ended(reported)
        # Last: samples of its sources count the window as in flight, and the totals need what is left there.
        self._progress.window_committed(event)
        self._run_totals.window_committed(event)
        over, _ = self._due(event.published) or (0, 0)
        self._waiting.append(_Waiting(times, max(0, over - event.window_id), []))
        if self._run.measures:
            self._ages.window(reported, event)
        if len(self._waiting) * min(len(self.topology.operators), _MOST_COUNTED) >= _MOST_FIGURES:
            self._fold()

    def _fold(self) -> None:
        """Fold the windows that wait."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            times, behind, ages = zip(*waiting, strict=True)
            windows = Windows(self.topology, times)
            self._run_totals.add(windows)
            if self._run.measures:
                self._latencies.add(windows, behind, ages, self._triggers)
            self._triggers = {}

    def _age(self, operator: str, sample: AgeSample, shift: float) -> None:
        """Take ages in, which belong to the step of the last window."""
        if self._waiting:
            self._waiting[-1].ages.append((operator, sample, shift))
        else:
            self._latencies.history.age(operator, sample, shift)

    def _trigger(self, event: SparkTrigger) -> None:
        """Spark's report comes before or after the commit of its window."""
        if self._waiting and self._waiting[-1].times.commit.window_id == event.window_id:
            self._triggers[event.window_id] = event  # no reason to fold it alone
        elif not self._latency.add_trigger(event):
            self._windows.keep(event)

    def keep_figures(self) -> None:
        """Keep metrics over periods for 15 minutes from now on, for policies; else it is a minute."""
        self.deciding.kept_seconds = KEPT_SECONDS

    def _working(self, now: float) -> float:
        """The time while windows are due: it stands still while the application is paused."""
        paused = self.changes.paused_at
        return self._run.as_of(now) if paused is None else min(now, paused)

    # Answers out: windows -----------------------------------------------------------------------------------

    def latency(self, now: float, window_id: int | None = None) -> LatencyAnswer:
        """Latencies of all operators in a window (default: the last).

        Raises KeyError for a window that is not kept.
        """
        return self._latency.latency(window_id, self.windows_behind(self._run.as_of(now)))

    def latencies(self, now: float, limit: int) -> list[LatencyAnswer]:
        """The latencies of all operators in each of the last windows."""
        return [self.latency(now, window["windowId"]) for window in self.windows(limit)]

    def critical_path(self, window_id: int | None = None) -> CriticalPathAnswer:
        """Critical path, slack and blame chain of a window (default: the last).

        Raises KeyError for a window that is not kept.
        """
        return self._latency.critical_path(window_id)

    def window_latencies(self, window_id: int) -> dict[str, float]:
        """Seconds by logical operator in a window. Raises KeyError if it is not kept."""
        return self._latency.by_name(window_id)

    def windows(self, limit: int | None = None) -> list[WindowSummaryAnswer]:
        """Summaries of the last windows, the newest last."""
        return self._latency.windows(limit)

    def window(self, window_id: int) -> WindowAnswer:
        """All of one window. Raises KeyError if it is not kept."""
        return self._latency.window(window_id)

    def clocks(self) -> Mapping[str, Line]:
        """The lines of the clocks of all hosts as they are now."""
        return self._clocks.lines()

    def windows_behind(self, now: float) -> dict[int, int]:
        """By operator, the windows that are over by the schedule and that it has not completed.

        0 once the application is over.

        A window is over when the next one is due. Windows without a width have no schedule.
        """
        due = self._due(now)
        over, before = due or (0, 0)
        return {
            number: 0 if due is None else max(0, over - (before if status.done is None else status.done))
            for number, status in self._statuses.operators.items()
        }

    def _due(self, now: float) -> tuple[int, int] | None:
        """As `WindowSchedule.over`; None once the application is over."""
        if self._run.ended is not None:
            return None
        return self._progress.schedule.over(self._working(now), self._run.window_seconds)

    # Answers out: records, progress -------------------------------------------------------------------------

    def record_age(self, now: float, operator: str | None = None) -> RecordAgesAnswer:
        """Record ages of all operators or of one (name or title) over the last minute.

        Raises KeyError naming the operators there are.
        """
        now = self._run.as_of(now)
        if operator is not None:
            self._check_name(operator)
        return self._ages.answer(now, operator)

    def age_totals(self) -> list[tuple[OperatorNode, str, Distribution]]:
        """All record ages since the start, by operator and place, for systems that fold them themselves."""
        return self._ages.totals()

    def latency_totals(self) -> list[tuple[OperatorNode, LatencyTotal]]:
        """All latencies of operators since the start, for systems that fold them themselves."""
        return self._latency.totals()

    def window_totals(self) -> WindowTotal:
        """The latencies of all windows since the start."""
        return self._latency.window_totals()

    def take_ages(self, operators: Iterable[str]) -> dict[str, tuple[Seconds, Integers]]:
        """The ages of records at outputs since they were taken before; see `AgeFold.take`."""
        return self._ages.take(operators)

    def progress(self, now: float) -> ProgressAnswer:
        """How far the running window and the sources are."""
        now = self._working(now)
        found = self._progress.progress(now)
        application = found["application"]
        application["stuckOutputs"] = self.counts.outputs.stuck(self.topology.names)
        if application["verdict"] in BEHIND:
            application["bottleneck"] = bottleneck_answer(self, now, found["sources"], application)
        return found

    def seconds_running(self) -> dict[int, float]:
        """Seconds that physical operators have spent in the windows under way, as heartbeats say."""
        return self._progress.seconds_running()

    def backlog(self, now: float) -> tuple[list[SourceAnswer], BacklogAnswer]:
        """The sources and the application of `progress`: with many operators much less work."""
        return self._progress.backlog(self._working(now))

    def source(self, name: str) -> SourceDetailAnswer:
        """One source with its partitions. Raises KeyError naming those there are."""
        return self._progress.source_detail(name)

    def watermarks(self, now: float) -> WatermarksAnswer:
        """How far event time has come at each operator, and who holds it back."""
        return watermarks_answer(self.watermark_marks(now), self.topology)

    def watermark_marks(self, now: float) -> dict[int, Mark]:
        """What the answer about watermarks is made of, by operator."""
        now = self._run.as_of(now)
        return {
            number: Mark(one.watermark, int(one.row["late"]), one.counts["recordsAhead"], now)
            for number, one in self._statuses.operators.items()
            if one.watermark is not None
        }

    def lines(self, now: float, operator: str | None = None) -> LinesAnswer:
        """Where the Python time of operators goes, by line, over the last minute.

        Raises KeyError naming the operators there are.
        """
        if operator is not None:
            self._check_name(operator, titles=False)
        parts = self._latency.parts_of_path()
        return self._lines.answer(self._run.as_of(now), parts, operator)

    def operator_history(
        self, now: float, operator: str, begin: float | None = None, step: float | None = None
    ) -> OperatorHistoryAnswer:
        """The last hours of a logical operator.

        `begin`: seconds since 1970, or before `now` if it is below 0; default: 15 minutes. `step`: the least
        seconds of a step; by default as short as steps are kept that far back. Raises KeyError for a name
        that the plan has not.
        """
        self._check_name(operator, titles=False)
        return operator_history(self._latency.history, operator, self._run.as_of(now), begin, step)

    def application_history(
        self, now: float, begin: float | None = None, step: float | None = None
    ) -> ApplicationHistoryAnswer:
        """The last hours of all windows, with the record ages of outputs; as `operator_history`."""
        return application_history(self._latency.history, self._run.as_of(now), begin, step)

    def _check_name(self, operator: str, *, titles: bool = True) -> None:
        """Raise KeyError for what is no logical operator; with `titles`, no physical one either."""
        nodes = self.topology.operators
        names = dict.fromkeys(name for one in nodes for name in (one.name, *([one.title] if titles else ())))
        if operator not in names:
            raise KeyError(
                f"`{operator}` is not an operator of this application; {did_you_mean(operator, names)}"
            )

    # Answers out: application, operators, containers --------------------------------------------------------

    def info(self, now: float) -> InfoAnswer | PendingInfoAnswer:
        """The application: who, where, since when, its state and its figures as a whole."""
        return self._info(self._moment(now))

    def _info(self, moment: Moment) -> InfoAnswer | PendingInfoAnswer:
        """The application, with the figures of a moment."""
        plan = self.plan
        if plan is None:
            return {"state": "PENDING", "stats": {}}
        return self._run.info(
            plan, moment.now, self._stats(moment), paused=self.changes.paused_at is not None
        )

    def _stats(self, moment: Moment) -> StatsAnswer:
        """The application's figures in sum, under Apex's names where it has them."""
        path, last = self._latency.average_path(), self._latency.windows(1)
        containers = self._statuses.containers
        rates = [self._throughput.rates(number, moment.now) for number in self._statuses.operators]
        rows, first = self._totals.operators().values(), self._progress.schedule.first
        slots, sized = self.counts.slots, self.counts.sized
        return {
            "allocatedContainers": sum(container.pid is not None for container in containers.values()),
            "plannedContainers": len(containers),
            "failedContainers": self._statuses.failed_containers,
            "numOperators": len(self._statuses.operators),
            "latency": path["latencyMs"],
            "criticalPath": path["path"],
            "windowLatency": last[-1]["latencyMs"] if last else None,
            "windowStartMillis": round(1000 * first.due) if first is not None else None,
            "currentWindowId": moment.current_window,
            "recoveryWindowId": self._windows.committed_id,
            "windowsCommitted": self._totals.windows,
            "windowsRetried": self._totals.retries,
            "tasksRetried": self._totals.tasks_retried,
            "slots": None if sized is None else sized.slots,
            "slotsWanted": None if sized is None else sized.wanted,
            "slotsLost": slots["lost"],
            "slotsSilent": slots["silent"],
            "slotsRestarted": slots["restarted"],
            "slotsReduced": slots["reduced"],
            "slotsMisplaced": slots["misplaced"],
            "slotsSpeculated": slots["speculated"],
            "tuplesProcessedPSMA": sum((one.tuples_in for one in rates), 0.0),
            "totalTuplesProcessed": sum(row["tuplesIn"] for row in rows),
            "tuplesEmittedPSMA": sum((one.tuples_out for one in rates), 0.0),
            "totalTuplesEmitted": sum(row["tuplesOut"] for row in rows),
            "heartbeatsReceived": self.counts.kinds[ContainerHeartbeat],
            "messagesRefused": self.counts.refused.total(),
            "messagesRefusedByReason": dict(self.counts.refused),
            "clockSkew": self._clocks.skew_ms(),
        }

    def run(self) -> RunAnswer:
        """How far the run is, as of its last window."""
        return self._totals.run()

    def summary(self) -> RunSummaryAnswer:
        """The run in sum: its windows, its operators, what failed."""
        return self._totals.summary(self.counts)

    def operator_totals(self) -> dict[str, OperatorTotalsAnswer]:
        """The totals of logical operators and unifiers so far, by title without a number.

        All partitions that they ever had are in it.
        """
        return {title: row.copy() for title, row in self._totals.operators().items()}

    def operators(self, now: float) -> list[OperatorAnswer]:
        """All physical operators."""
        moment = self._moment(now, self.latency(now), self._doing(now))
        return [self._operator(status, moment) for status in self._statuses.operators.values()]

    def operator(self, now: float, operator_id: int) -> OperatorAnswer:
        """One physical operator. Raises KeyError naming the ids there are."""
        status = self._statuses.operators.get(operator_id)
        if status is None:
            raise KeyError(no_such("operator", operator_id, self._statuses.operators))
        moment = self._moment(now, self.latency(now), self._doing(now))
        return self._operator(status, moment)

    def _operator(self, status: OperatorStatus, moment: Moment) -> OperatorAnswer:
        container = self._statuses.containers[status.node.container]
        return operator_answer(OperatorMoment(status, container, moment))

    def containers(self, now: float) -> list[ContainerAnswer]:
        """All containers."""
        moment = self._moment(now, doing=self._doing(now))
        return [
            container_answer(container, self.topology, moment)
            for container in self._statuses.containers.values()
        ]

    def processes(self) -> dict[int, tuple[str | None, int | None]]:
        """The host and the process of each container, None where they are not known."""
        return {number: (one.host, one.pid) for number, one in self._statuses.containers.items()}

    def container(self, now: float, container_id: int) -> ContainerAnswer:
        """One container. Raises KeyError naming the ids there are."""
        container = self._statuses.containers.get(container_id)
        if container is None:
            raise KeyError(no_such("container", container_id, self._statuses.containers))
        return container_answer(container, self.topology, self._moment(now, doing=self._doing(now)))

    def streams(self) -> list[StreamAnswer]:
        """The physical streams: each output port, and who reads from it."""
        return streams_answer(self.topology)

    def _doing(self, now: float) -> Doing:
        """The states of operators; none where no window runs."""
        return self._progress.doing(self._working(now)) if self._windows.attempted else _NOTHING

    def _moment(self, now: float, latency: LatencyAnswer | None = None, doing: Doing = _NOTHING) -> Moment:
        """State that the answers of one moment share, as far as they need it."""
        now = self._run.as_of(now)
        return Moment(
            now=now,
            over=self._run.ended is not None,
            current_window=self._windows.current,
            latencies={row["id"]: row for row in latency["operators"]} if latency is not None else {},
            behind=self.windows_behind(now) if latency is not None else {},
            throughput=self._throughput,
            lately=self._progress.lately,
            doing=doing,
        )

    def overview(self, now: float, *, latencies: bool = True) -> OverviewAnswer:
        """All that a view shows, as of one moment. `window`: the last one's summary, as in `windows`.

        Without `latencies` those of operators are left out, the most of the work.
        """
        latency = self.latency(now) if latencies else self._latency.no_latency
        progress = self.progress(now)
        states = {row["id"]: row["state"] for row in progress["operators"]}
        doing = Doing.of(states, progress["containers"]) if self._windows.attempted else _NOTHING
        moment = self._moment(now, latency, doing)
        return {
            "windowId": self._windows.committed_id,
            "at": now,
            "window": self._newest(),
            "info": self._info(moment),
            "latency": latency,
            "criticalPath": self.critical_path(),
            "change": self.changes.newest,
            "promises": self.counts.promises.rows(now),
            "recordAge": self.record_age(now),
            "progress": progress,
            "operators": [self._operator(status, moment) for status in self._statuses.operators.values()],
        }

    def _newest(self) -> WindowSummaryAnswer | None:
        """The row of the window that was committed last; None without one, or once it is not kept."""
        last = next(iter(self.windows(1)), None)
        return last if last is not None and last["windowId"] == self._windows.committed_id else None
