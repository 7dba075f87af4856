"""The windows under way: their attempts, their heartbeats, and how late they began."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ridgeline.measure.events import (
    ContainerHeartbeat,
    RunEvent,
    RunningOperator,
    WindowCommitted,
    WindowPlanned,
    WindowReported,
    WindowStarted,
)
from ridgeline.measure.progress.backlog import BacklogState, SourceBacklog
from ridgeline.measure.progress.columns import WindowProgress
from ridgeline.measure.progress.estimate import Basis, Estimate
from ridgeline.measure.progress.verdict import KEEPS_UP_WINDOWS, LEAVES_WINDOWS, Verdict

LATE_SHARE = 1.2
"""Of its width: a window that takes longer is late."""
_USUAL_WINDOWS = 10


@dataclass(slots=True)
class WindowInFlight:
    """The reports of the present attempt at a window.

    `id`: -1 before the first. `began`: when it was planned, then when its attempt began, if one has
    `started`. `first_heartbeat_at`, `last_heartbeat_at`: of this attempt. `reported`: operators as in
    heartbeats. `ended`: what they did, once they are done. `heartbeats`: the times of the last ones, by
    container. `processes`: the container that each process works for. `finished`: containers that have ended
    their part. `figures`: the progress once it is committed and does not change any more.
    """

    id: int
    began: float
    attempt: int = 0
    started: bool = False
    planned: float = 0.0
    committed_at: float | None = None
    first_heartbeat_at: float | None = None
    last_heartbeat_at: float = -math.inf
    reported: dict[int, RunningOperator] = field(default_factory=dict)
    ended: WindowReported | None = None
    heartbeats: dict[int, float] = field(default_factory=dict)
    processes: dict[tuple[str, int], int] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    figures: WindowProgress | None = None

    @property
    def running(self) -> bool:
        """True until it is committed."""
        return self.committed_at is None

    def elapsed(self, now: float) -> float | None:
        """For how long it has run, or did; None before the first."""
        end = now if self.committed_at is None else self.committed_at
        return None if self.id < 0 else max(0.0, end - self.began)

    @property
    def operators(self) -> dict[int, RunningOperator]:
        """The last reports of operators, at last that they are done."""
        return self.reported | ({} if self.ended is None else _done(self.ended))

    def clear(self) -> None:
        """A new attempt begins, or a new plan: reports of the one before do not count."""
        self.ended = self.first_heartbeat_at = None
        self.last_heartbeat_at = -math.inf
        self.figures = None
        for reports in (self.reported, self.heartbeats, self.processes, self.finished):
            reports.clear()

    def add_heartbeat(self, event: ContainerHeartbeat, operators: Sequence[int] | None) -> bool | None:
        """Take in a heartbeat of a container with these operators, None for one that the plan does not have.

        Returns None if it does not count, else whether an operator has progressed.
        """
        if not self.running or event.at < self.began:
            return None
        process = (event.host, event.pid)
        earlier = self.processes.get(process)
        if earlier is not None and earlier != event.container:  # a process works for one container at a time
            self.finished.add(earlier)
            del self.processes[process]
        if operators is None or (event.window_id, event.attempt) != (self.id, self.attempt):
            return None
        if event.at < self.heartbeats.get(event.container, -math.inf):
            return None
        if self.first_heartbeat_at is None:
            self.first_heartbeat_at = event.at
        self.processes[process] = event.container
        self.finished.discard(event.container)
        self.heartbeats[event.container] = event.at
        self.last_heartbeat_at = max(self.last_heartbeat_at, event.at)
        reports = {operator.id: operator for operator in event.operators if operator.id in operators}
        progressed = any(_progressed(report, self.reported.get(report.id)) for report in reports.values())
        self.reported.update(reports)
        return progressed


def _done(event: WindowReported) -> dict[int, RunningOperator]:
    """The operators of a window that is over, as their heartbeats would be."""
    came, sent = defaultdict[int, dict[str, int]](dict), defaultdict[int, dict[str, int]](dict)
    for (operator, kind, port), count in zip(event.ports, event.tuples, strict=True):
        (came if kind == "input" else sent)[operator][port] = count
    spent = zip(*(event.operators[name].tolist() for name in ("operator", "compute_seconds")), strict=True)
    return {
        one: RunningOperator(one, "done", seconds, came[one], produced=sent[one]) for one, seconds in spent
    }


class WindowsInFlight:
    """The windows of a run from trigger to commit: those under way, and the last one that is committed.

    `window_seconds`: the application's window width.
    """

    def __init__(self, window_seconds: float) -> None:
        self.by_id: dict[int, WindowInFlight] = {}
        """The oldest first."""
        self.oldest = self.last = WindowInFlight(-1, 0.0, committed_at=0.0)
        """Of those under way, else the last one that was; the last one that is committed."""
        self.committed_at: float | None = None
        self.committed_id: int | None = None
        """The last window that is committed, or was when the run began."""
        self._events: defaultdict[int, list[RunEvent]] = defaultdict(list)
        """What is folded of each window once it is committed."""
        self.last_late = self.last_had_heartbeats = False
        """Of the last one: it took longer than its width; it took long enough for heartbeats."""
        self._window_seconds = window_seconds
        self._took: deque[float] = deque(maxlen=_USUAL_WINDOWS)
        """Seconds of the last windows, trigger to commit."""

    @property
    def running(self) -> bool:
        """True while a window is under way."""
        return self.oldest.running

    @property
    def attempted(self) -> list[int]:
        """The windows that have an attempt under way, the oldest first."""
        return [number for number, one in self.by_id.items() if one.started]

    @property
    def current(self) -> int | None:
        """The oldest window that has an attempt under way, else the last one that is committed."""
        return next(iter(self.attempted), self.committed_id)

    def is_present(self, window_id: int, attempt: int) -> bool:
        """True if this attempt at a window is under way."""
        window = self.by_id.get(window_id)
        return window is not None and window.started and window.attempt == attempt

    def keep(self, event: Any) -> None:
        """Keep an event until its window is committed."""
        self._events[event.window_id].append(event)

    def events_of(self, event: WindowCommitted) -> list[RunEvent]:
        """The events of a window, its commit the last."""
        return [*self._events.get(event.window_id, ()), event]

    def planned(self, event: WindowPlanned) -> None:
        """A window's trigger has fired."""
        if not self.attempted:  # the run begins here, or all before is committed or void
            self.committed_id = event.window_id - 1 if event.window_id else None
            self._events.clear()
        self.keep(event)
        self._add(WindowInFlight(event.window_id, event.at, planned=event.at))

    def started(self, event: WindowStarted) -> bool:
        """An attempt at a window begins. True if the window is new, as its trigger was not seen."""
        window = self.by_id.get(event.window_id)
        new = window is None
        if window is None:
            window = self._add(WindowInFlight(event.window_id, event.at))
        window.clear()
        window.started, window.attempt, window.began = True, event.attempt, event.at
        return new

    def _add(self, window: WindowInFlight) -> WindowInFlight:
        """Add a window; later ones, which an earlier run has left under way, are not any more."""
        self.by_id = {number: one for number, one in self.by_id.items() if number < window.id}
        self.by_id[window.id] = window
        self.oldest = next(iter(self.by_id.values()))
        return window

    def committed(self, event: WindowCommitted) -> None:
        """A window is committed: it no longer runs."""
        window = self.by_id.pop(event.window_id, None)
        if window is None:
            window = WindowInFlight(event.window_id, event.began, planned=event.began)
        window.committed_at = self.committed_at = event.at
        self.committed_id = event.window_id
        for number in [one for one in self._events if one <= event.window_id]:
            del self._events[number]
        self.last_had_heartbeats = bool(window.heartbeats)
        took = event.at - window.planned
        self._took.append(took)
        self.last_late = took > LATE_SHARE * self._window_seconds
        self.last, self.oldest = window, next(iter(self.by_id.values()), window)

    def ended(self, *, failed: bool) -> None:
        """The run is over: windows under way count for nothing, unless the run failed in one."""
        self.by_id.clear()
        if not failed and self.committed_at is not None:
            self.oldest = self.last

    def clear(self) -> None:
        """The plan has changed: reports of the one before do not count."""
        for window in (self.oldest, *self.by_id.values()):
            window.clear()

    @property
    def usual_seconds(self) -> float:
        """How long windows took lately, at least their width."""
        return max(self._window_seconds, median(self._took) if self._took else 0.0)

    @property
    def longest_seconds(self) -> float:
        """How long the longest of the last windows took; 0 before the first."""
        return max(self._took, default=0.0)


class WindowSchedule:
    """When windows were due, and how late their triggers fired: windows that begin late are a backlog.

    For applications whose sources do not know their backlog. It is a source whose work is time: a second of
    it arrives every second, and what remains is how late the last window began.

    Args:
        window_seconds: The application's window width.
        interval_seconds: Over how long the trend of the lateness is taken.
    """

    def __init__(self, window_seconds: float, interval_seconds: float = 10.0) -> None:
        self.forgiven_seconds = 0.0
        """Lateness that the trigger has forgiven itself: its schedule less the one that it began with."""
        self.windows = 0
        """Windows that have begun."""
        self._window_seconds = window_seconds
        self._source = SourceBacklog(window_seconds=window_seconds, interval_seconds=interval_seconds)
        self.first: WindowPlanned | None = None
        """The run's first window."""
        self._newest: WindowPlanned | None = None
        self._late = 0.0
        """How late the last window began."""

    def planned(self, event: WindowPlanned) -> None:
        """A window's trigger has fired: how late it fired is a sample."""
        before = self._newest
        self.windows += before is None or before.window_id != event.window_id
        late = max(0.0, event.at - event.due)
        if late <= self._window_seconds or before is None:
            self.forgiven_seconds = 0.0
        else:  # a driver that is too late lets its schedule slip
            usual = (event.window_id - before.window_id) * self._window_seconds
            self.forgiven_seconds += max(0.0, event.due - before.due - usual)
        self.first, self._newest = self.first or event, event
        self._late = late + self.forgiven_seconds
        # Of seconds since 1970 a window's width is less than a rounding.
        self._source.add(event.at, max(0.0, event.at - self.first.at), Estimate(self._late, Basis.ESTIMATED))

    @property
    def in_first_window(self) -> bool:
        """True until the run's second window begins.

        The first one starts processes and connections, so it says nothing of the next.
        """
        return self.windows < 2  # noqa: PLR2004  the second window

    def late_seconds(self, now: float) -> float:
        """How late the next window is: it should have begun a width after the last one."""
        if self._newest is None:
            return 0.0
        return max(0.0, now - self._newest.due - self._window_seconds) + self.forgiven_seconds

    def over(self, now: float, width: float) -> tuple[int, int] | None:
        """The last window that is over by the schedule, and the one before the run's first.

        A window is over when the next one is due. `width`: of a window, seconds; without one there is no
        schedule: None.
        """
        first, last = self.first, self._newest
        if first is None or last is None or width <= 0:
            return None
        over = last.window_id + math.floor((now - last.due + self.forgiven_seconds) / width) - 1
        return over, first.window_id - 1

    def state(self, now: float, late_seconds: float) -> BacklogState:
        """The lateness as a backlog in seconds at `now`, at which the next window is so late.

        It is never `stuck`: a window that does not end falls behind. In the first one it is `unknown`.
        """
        if self._newest is None:
            return self._source.state(now)
        late, state = self._late, self._source.state(self._newest.at)
        verdict, caught_up_at, current = state.verdict, state.caught_up_at, max(late, late_seconds)
        if verdict is Verdict.UNKNOWN and late <= KEEPS_UP_WINDOWS * self._window_seconds:
            verdict = Verdict.KEEPING_UP
        if current - late > LEAVES_WINDOWS * self._window_seconds:
            verdict, caught_up_at = Verdict.FALLING_BEHIND, None
        if self.in_first_window:
            verdict = Verdict.UNKNOWN
        seconds = Estimate(current, Basis.ESTIMATED)
        end = None if caught_up_at is None else max(now, caught_up_at)
        return BacklogState(seconds, seconds, None, None, end, verdict, seconds)


def _progressed(report: RunningOperator, before: RunningOperator | None) -> bool:
    """True if an operator has progressed since its last heartbeat, or is in a callback without counts."""
    if before is None or report.state != before.state:
        return True
    if report.state != "running":
        return False
    uncountable = report.active > 1 or (report.active == 0 and not any(report.queued.values()))
    return uncountable or (report.consumed, report.produced, report.active_produced, report.work) != (
        before.consumed,
        before.produced,
        before.active_produced,
        before.work,
    )


_LEAST_SECONDS, _LEAST_WINDOWS = 2.0, 2
_MOST_SECONDS = 5.0


class Settling:
    """Settled is what has committed two windows and worked for two seconds, or has worked for five.

    It counts from the first window that is committed, or of which a heartbeat shows that it gets on.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self, window_id: int | None = None) -> None:
        """A run or a plan begins with this window, or all is done once more; None: with the next one."""
        self._first = window_id
        """The first window that counts; None before it is planned."""
        self._works_since = math.inf
        self._windows = 0

    def planned(self, window_id: int) -> None:
        """A window begins."""
        if self._first is None:
            self._first = window_id

    def worked(self, window_id: int, at: float) -> bool:
        """A window gets on. True if it is the first to do so: earlier samples count no more."""
        if self._first is None or window_id < self._first or self._works_since < math.inf:
            return False
        self._works_since = at
        return True

    def committed(self, window_id: int, at: float) -> bool:
        """A window is committed. True as `worked`."""
        first = self.worked(window_id, at)
        self._windows += self._first is not None and window_id >= self._first
        return first

    @property
    def committed_any(self) -> bool:
        """True once a window of it is committed."""
        return self._windows > 0

    def settles(self, now: float) -> bool:
        """True as long as it is too early to say anything."""
        worked = now - self._works_since
        return worked < (_LEAST_SECONDS if self._windows >= _LEAST_WINDOWS else _MOST_SECONDS)
