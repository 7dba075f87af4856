"""The time of windows by phase: the phases of each one, folded over a run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from ridgeline.api.support.duration import as_ms
from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import (
    ApplicationPlanned,
    ContainerHeartbeat,
    ContainerWindow,
    OperatorWindow,
    RunEvent,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
)
from ridgeline.measure.latency.blame import spark_phases
from ridgeline.measure.latency.critical_path import slot_path
from ridgeline.measure.latency.window import TaskTimes, WindowTimes, assemble, in_slots, tasks_by_stage
from ridgeline.measure.topology import Topology

UNEXPLAINED = "unexplained"
BETWEEN = "between windows"
PHASES: Mapping[str, str] = {
    "trigger": "Spark's micro-batch beside its logs, its planning and our turn: latest offsets, calling us, "
    "what it does not name",
    "offset log": "Spark writes the micro-batch's offsets",
    "planning": "Spark plans the micro-batch; the window's requests are made",
    "earlier attempts": "attempts at the window that failed",
    "job launch": "from the requests until the first container has what it needs",
    "worker start": "a Python process begins for a slot: from its fork, or from its daemon's begin if that "
    "was started too",
    "shuffle": "messages on their way from a container to the next one",
    "queue": "a container whose input is there waits for its slot: for earlier windows, or other containers",
    "restore": "state is brought to the version of the window before",
    "decode": "blocks become batches and tuples; work of the engine around callbacks",
    "user code": "callbacks of operators; of a Spark source, reading its rows",
    "encode": "tuples become blocks, blocks messages; messages are sent",
    "record ages": "the ages of an operator's records are taken, after its end",
    "state write": "what has changed of the state is collected and written",
    "reports": "from the end of the last container until the driver has all reports",
    "staging": "outputs stage",
    "manifest": "the manifest is written: the commit",
    "publish": "outputs publish, operators are notified of the commit, old files go",
    "commit log": "Spark writes that the micro-batch is done",
    BETWEEN: "the driver folds events and draws its view before the next window, which waits for it",
    UNEXPLAINED: "what has no name",
}
"""The phases in the order of a window, and their parts."""


def window_phases(topology: Topology, times: WindowTimes) -> dict[str, float]:
    """The seconds of a window by phase, without phases that took none.

    Their sum is the time from the window's trigger to its end.

    The end is the publication, with Spark sources the end of the micro-batch. Of tasks side by side it is the
    time of each stage's slowest, as in the blame chain. In slots it is that of those that were waited for.
    But it is named by what was done in any process, so it has no waiting for a slot or a sibling. Even if
    clocks disagree, no phase is negative and all of them add up.
    """
    over = max(times.published, times.committed)
    triggered = min(times.triggered, over)
    walk = _Walk(over, triggered)
    if times.trigger is not None:
        ended = times.trigger.triggered + times.trigger.phases.get("triggerExecution", 0.0)
        after = max(0.0, ended - over)
        log = min(after, max(0.0, times.trigger.phases.get("commitOffsets", 0.0)))
        walk.seconds = {"commit log": log, "trigger": after - log}
    walk.back_to(times.committed, "publish")
    walk.back_to(times.staged, "manifest")
    walk.back_to(times.returned, "staging")
    walk.floor = min(max(times.launched, triggered), walk.position)
    (_walk_slots if in_slots(times) else _walk_stages)(topology, times, walk)
    walk.floor = triggered
    walk.back_to(times.planned, "planning")
    walk.back_to(times.began, "earlier attempts")
    for what, seconds in spark_phases(times, walk.position - triggered).items():
        walk.add(_OF_SPARK[what], seconds)
    return {phase: walk.seconds[phase] for phase in PHASES if walk.seconds.get(phase)}


_OF_SPARK = {"offsets": "trigger", "log": "offset log", "planning": "planning", "trigger": "trigger"}


class _Walk:
    """Time taken off a window's end piece by piece; the pieces of a phase are added up."""

    def __init__(self, end: float, floor: float) -> None:
        self.position = end
        self.floor = floor
        self.seconds: dict[str, float] = {}

    def add(self, phase: str, seconds: float) -> None:
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def back_to(self, start: float, phase: str) -> None:
        """Put the time from `start` to where the walk is down to a phase; nothing is taken below `floor`."""
        start = min(max(start, self.floor), self.position)
        self.add(phase, self.position - start)
        self.position = start


def _walk_stages(topology: Topology, times: WindowTimes, walk: _Walk) -> None:
    """From the last report back to the job's launch, over the slowest task of each stage."""
    slowest = [max(tasks, key=lambda task: _ended(times, task)) for tasks in tasks_by_stage(topology, times)]
    ends = [_ended(times, task) for task in slowest]
    if not slowest:
        walk.back_to(times.launched, UNEXPLAINED)
        return
    walk.back_to(ends[-1], "reports")
    for number in reversed(range(len(slowest))):
        before, arriving = (ends[number - 1], "shuffle") if number else (times.launched, "job launch")
        task = slowest[number]
        for container in reversed(task.containers):
            _walk_container(topology, times, container, walk)
        walk.back_to(task.entered, arriving)
        _walk_arrival(times.containers[task.containers[0]], before, arriving, walk)


def _walk_slots(topology: Topology, times: WindowTimes, walk: _Walk) -> None:
    """From the last report back to the launch, over the producers that were waited for."""
    path = slot_path(topology, times)
    walk.back_to(times.containers[path[0]].ended, "reports")
    for container, producer in zip_longest(path, path[1:]):
        found = times.containers[container]
        _walk_container(topology, times, container, walk)
        walk.back_to(found.ready, "queue")
        if producer is None:
            before, arriving = times.launched, "job launch"
        else:
            before, arriving = times.containers[producer].ended, "shuffle"
        for began, ended in reversed(found.busy_times):
            walk.back_to(max(ended, before), arriving)
            walk.back_to(max(began, before), "queue")
        _walk_arrival(found, before, arriving, walk)


def _walk_arrival(process: ContainerWindow, before: float, arriving: str, walk: _Walk) -> None:
    """From a container's begin back to the end `before` it: its input came, its process may have started."""
    born = process.daemon_began if process.daemon_began > before else process.worker_began
    if born > before:
        walk.back_to(born, "worker start")
    walk.back_to(before, arriving)


def _walk_container(topology: Topology, times: WindowTimes, container: int, walk: _Walk) -> None:
    """Name what a container did, from its end back to its begin."""
    found = times.containers[container]
    walk.back_to(found.ended, UNEXPLAINED)
    walk.back_to(found.written, "encode")
    walk.back_to(found.ran, "state write")
    for number in reversed(topology.containers[container]):
        operator = times.operators.get(number)
        if operator is not None:
            walk.back_to(operator.ended, "record ages")
            walk.back_to(operator.ended - operator.state_seconds, "state write")
            walk.back_to(operator.ended - operator.state_seconds - operator.encode_seconds, "encode")
            walk.back_to(operator.began + operator.compute_seconds, "decode")
            walk.back_to(operator.began, "user code")
    walk.back_to(found.restored, "decode")
    walk.back_to(found.began, "restore")


def _ended(times: WindowTimes, task: TaskTimes) -> float:
    return max(times.containers[container].ended for container in task.containers)


WARM_UP = 50
"""Windows that a run begins with and that are left out: workers start, the JVM compiles."""
_KEPT = 10_000
_WAITING = 100
"""Windows whose events are kept for Spark's own account of them, which comes late: as many as Spark keeps."""


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """The duration of a phase, in seconds a window.

    Median, mean and 95th percentile are of the warm windows; `first` is the run's first window.

    `share` is its part of the windows' whole time. Means add up to the mean window, medians do not.
    """

    phase: str
    median: float
    mean: float
    p95: float
    share: float
    first: float


@dataclass(frozen=True, slots=True)
class PhaseTable:
    """Where the time of a run's warm windows went.

    `windows` of them were counted after `left_out` ones. `phases` are those that occurred.

    `every_seconds`: from the begin of a window to that of the next one (median; None: there is one window).
    It is less than the whole where windows overlap, and more where the schedule leaves time. `explained`: the
    part of the whole that has a name.
    """

    windows: int
    left_out: int
    every_seconds: float | None
    explained: float
    phases: Sequence[PhaseTime]
    whole: PhaseTime

    def as_dict(self) -> dict[str, object]:
        """As plain data for JSON; times in milliseconds."""
        return {
            "windows": self.windows,
            "leftOut": self.left_out,
            "everyMs": None if self.every_seconds is None else as_ms(self.every_seconds),
            "explained": round(self.explained, 6),
            "phases": [{**_plain(phase), "what": PHASES[phase.phase]} for phase in self.phases],
            "window": _plain(self.whole),
        }


class WindowPhases:
    """Feed it all events of a run in order (`apply`), and ask for the `table`.

    Without an `ApplicationPlanned` among the events it needs the `topology`, the schedule's `window_seconds`
    and the driver's host. Windows count once they are committed; of the last 10,000 all phases are kept. One
    thread at a time.
    """

    def __init__(
        self, topology: Topology | None = None, window_seconds: float = 0.0, own_host: str = ""
    ) -> None:
        self._topology = topology or Topology((), ())
        self._clocks = ClockOffsets(own_host=own_host)
        self._window_seconds = window_seconds
        self._open: list[RunEvent] = []
        self._waiting: dict[int, tuple[Topology, list[RunEvent]]] = {}
        self._found: deque[_Window] = deque(maxlen=_KEPT)
        self._first: _Window | None = None
        self._count = 0

    def apply(self, event: RunEvent) -> None:
        """Take an event in."""
        match event:
            case ApplicationPlanned():
                self._topology, self._window_seconds = event.topology, event.window_seconds
                self._clocks.own_host = self._clocks.own_host or str(event.info.get("host", ""))
            case ContainerHeartbeat():
                self._clocks.add(event.host, event.sent, event.at)
            case WindowPlanned():
                self._plan(event)
            case ContainerWindow() | OperatorWindow():
                self._open.append(event)
            case WindowCommitted():
                self._commit(event)
            case SparkTrigger() if event.window_id in self._waiting:
                self._explain(event)
            case _:
                pass

    def _plan(self, event: WindowPlanned) -> None:
        """A window begins; time before it that waited for the schedule belongs to no phase."""
        last = self._found[-1] if self._found else None
        if (
            last is not None
            and not last.spark
            and last.window_id == event.window_id - 1
            and self._late(event, last)
        ):
            last.seconds[BETWEEN] = max(0.0, event.at - last.over)

    def _late(self, event: WindowPlanned, last: _Window) -> bool:
        return not self._window_seconds or event.due <= last.over

    def _commit(self, event: WindowCommitted) -> None:
        """Fold a window; keep its events for Spark's own account, which comes later."""
        events = [one for one in self._open if getattr(one, "window_id", None) == event.window_id]
        self._open = [one for one in self._open if getattr(one, "window_id", -1) > event.window_id]
        for one in events:
            if isinstance(one, ContainerWindow):
                self._clocks.add(one.host, one.written, one.received)
        events.append(event)
        self._waiting[event.window_id] = self._topology, events
        if len(self._waiting) > _WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._found.append(self._window(self._topology, event, events))
        self._first = self._first or self._found[-1]
        self._count += 1

    def _window(self, topology: Topology, event: WindowCommitted, events: Iterable[RunEvent]) -> _Window:
        times = assemble(topology, events, self._clocks)
        return _Window(
            event.window_id,
            event.began,
            event.published,
            window_phases(topology, times),
            times.trigger is not None,
        )

    def _explain(self, event: SparkTrigger) -> None:
        """Spark's own account of a window that is over."""
        topology, events = self._waiting.pop(event.window_id)
        committed = next(one for one in events if isinstance(one, WindowCommitted))
        explained = self._window(topology, committed, [*events, event])
        for window in reversed(self._found):
            if window.window_id == event.window_id:
                window.seconds, window.spark = explained.seconds, True
                return

    def table(self, warm_up: int = WARM_UP) -> PhaseTable | None:
        """Where the time went; None before the first window.

        The first `warm_up` windows are left out, but at least half of all windows count.
        """
        if self._first is None:
            return None
        left_out = min(warm_up, self._count // 2)
        warm = list(self._found)[max(0, left_out - (self._count - len(self._found))) :]
        occurred = [
            phase for phase in PHASES if any(window.seconds.get(phase) for window in (self._first, *warm))
        ]
        figures = np.array(
            [[window.seconds.get(phase, 0.0) for phase in occurred] for window in warm]
        ).reshape(len(warm), len(occurred))
        whole = figures.sum(axis=1)
        total = float(whole.sum()) or 1.0
        first = self._first.seconds
        begins = np.diff([window.began for window in warm])
        return PhaseTable(
            windows=len(warm),
            left_out=left_out,
            every_seconds=float(np.median(begins)) if len(begins) else None,
            explained=1.0 - math.fsum(window.seconds.get(UNEXPLAINED, 0.0) for window in warm) / total,
            phases=[
                _time(phase, figures[:, column], total, first.get(phase, 0.0))
                for column, phase in enumerate(occurred)
            ],
            whole=_time("window", whole, total, math.fsum(first.values())),
        )


def phase_table(
    events: Iterable[RunEvent], topology: Topology | None = None, warm_up: int = WARM_UP
) -> PhaseTable | None:
    """Where the time of a run's windows went, from all its events, such as those of an event log."""
    fold = WindowPhases(topology)
    for event in events:
        fold.apply(event)
    return fold.table(warm_up)


@dataclass(slots=True)
class _Window:
    """A window.

    When it began and was published, the seconds of its phases, whether Spark's own account is in them.
    """

    window_id: int
    began: float
    over: float
    seconds: dict[str, float]
    spark: bool


def _time(phase: str, seconds: np.ndarray[Any, Any], total: float, first: float) -> PhaseTime:
    median, p95 = np.percentile(seconds, [50, 95]).tolist()
    return PhaseTime(phase, median, float(seconds.mean()), p95, float(seconds.sum()) / total, first)


def _plain(time: PhaseTime) -> Mapping[str, object]:
    return {
        "phase": time.phase,
        "medianMs": as_ms(time.median),
        "meanMs": as_ms(time.mean),
        "p95Ms": as_ms(time.p95),
        "share": round(time.share, 6),
        "firstMs": as_ms(time.first),
    }
