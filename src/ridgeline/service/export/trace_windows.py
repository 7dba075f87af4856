"""Which windows are traced: some by chance, and all that are slow, break a promise or fail."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    ContainerHeartbeat,
    ContainerWindow,
    OperatorWindow,
    PromiseChanged,
    RunEvent,
    SparkTrigger,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.tracing.ids import is_sampled, run_of, trace_id
from ridgeline.service.export.trace_settings import TraceSettings

_RECENT = 100
_FEWEST = 10
"""Windows without which no window is slow: the first ones start processes and import code."""
_MEDIAN_WINDOWS = 10
_MOST_UNDER_WAY = 256
_MOST_FAILED = 16
_MOST_SLOW = 5
"""Slow windows that are traced in a second: on a busy machine many small ones take several medians."""
_PROMISE_SECONDS = 1.0
"""While a promise is broken, one window in this time is traced."""


@dataclass(frozen=True, slots=True)
class ChosenWindow:
    """A window that is traced: its events, and what is known to read them.

    `why`: `ratio`, `slow`, `promise` or `failed`. `median`: seconds that the last windows took, 0 if that is
    not known. `failure`: why it was never committed; empty if it was. `at`: when it was chosen. `clocks`: the
    offsets of hosts as of then.
    """

    plan: ApplicationPlanned
    window_id: int
    events: tuple[RunEvent, ...]
    clocks: ClockOffsets
    why: str
    median: float
    at: float
    failure: str = ""

    @property
    def trace(self) -> int:
        """The id of its trace."""
        return trace_id(run_of(self.plan.application_id), self.window_id)


class WindowTraces:
    """Subscribed to a `Watch`: keeps the events of windows until it is known whether they are traced.

    An event costs the thread that reports it a look into a dictionary. A window that is chosen goes to
    `take`, which must be as quick.
    """

    def __init__(self, settings: TraceSettings, own_host: str, take: Callable[[ChosenWindow], None]) -> None:
        self._settings = settings
        self._take = take
        self._plan: ApplicationPlanned | None = None
        self._run = ""
        self._clocks = ClockOffsets(own_host=own_host)
        self._windows: dict[int, list[RunEvent]] = {}
        self._faulty: set[int] = set()
        """Windows under way of which an attempt failed, or that an operator lost."""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._median, self._until = 0.0, _FEWEST
        """The median of these, and how many windows there are until it is computed again."""
        self._broken: set[str] = set()
        self._limits: dict[str, float] = {}
        self._promised = 0.0
        self._second, self._slow = 0, 0
        """Slow windows of a second."""
        self._waiting: ChosenWindow | None = None
        """The last one that was chosen, where Spark's own account of it is to come."""
        self._triggers = False
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            ApplicationPlanned: self._planned,
            WindowPlanned: self._keep,
            WindowStarted: self._keep,
            WindowRetried: self._retried,
            OperatorWindow: self._operator,
            ContainerWindow: self._container,
            ContainerHeartbeat: self._heartbeat,
            SparkTrigger: self._triggered,
            PromiseChanged: self._promise,
            WindowCommitted: self._committed,
            ApplicationEnded: self._ended,
        }

    def apply(self, event: RunEvent) -> None:
        """Take an event in; calls come one at a time."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def _planned(self, event: ApplicationPlanned) -> None:
        self._plan = event
        self._run = run_of(event.application_id)

    def _operator(self, event: OperatorWindow) -> None:
        kept = self._windows.get(event.window_id)
        if kept is not None:
            kept.append(event)
        if event.dropped:
            self._faulty.add(event.window_id)

    def _retried(self, event: WindowRetried) -> None:
        self._keep(event)
        if not event.final:
            self._faulty.add(event.window_id)

    def _keep(self, event: WindowPlanned | WindowStarted | WindowRetried) -> None:
        kept = self._windows.get(event.window_id)
        if kept is None:
            kept = self._windows[event.window_id] = []
            if len(self._windows) > _MOST_UNDER_WAY:
                del self._windows[next(iter(self._windows))]
        kept.append(event)

    def _container(self, event: ContainerWindow) -> None:
        self._clocks.add(event.host, event.written, event.received)
        kept = self._windows.get(event.window_id)
        if kept is not None:
            kept.append(event)

    def _heartbeat(self, event: ContainerHeartbeat) -> None:
        self._clocks.add(event.host, event.sent, event.at)

    def _triggered(self, event: SparkTrigger) -> None:
        """Spark's account of a window comes before or after its commit."""
        self._triggers = True
        waiting = self._waiting
        if waiting is not None and waiting.window_id == event.window_id:
            self._waiting = None
            self._take(_with(waiting, event))
        elif event.window_id in self._windows:
            self._windows[event.window_id].append(event)

    def _promise(self, event: PromiseChanged) -> None:
        (self._broken.add if event.kept is False else self._broken.discard)(event.promise)
        if event.kind == "window_latency":
            self._limits[event.promise] = event.limit

    def _committed(self, event: WindowCommitted) -> None:
        """Decide on a window, and let it go."""
        events = self._windows.pop(event.window_id, [])
        self._release()
        if self._plan is None:
            return
        latency = max(0.0, event.committed - event.began)
        median = self._median
        self._recent.append(latency)
        self._until -= 1
        if self._until <= 0:
            self._median, self._until = statistics.median(self._recent), _MEDIAN_WINDOWS
        why = self._why(event, latency, median)
        if not why:
            return
        chosen = ChosenWindow(
            self._plan,
            event.window_id,
            (*events, event),
            self._clocks.as_of_now(),
            why,
            median,
            event.at,
        )
        if self._triggers and not any(isinstance(one, SparkTrigger) for one in events):
            self._waiting = chosen
        else:
            self._take(chosen)

    def _why(self, event: WindowCommitted, latency: float, median: float) -> str:
        """Why a window is traced, empty if it is not."""
        if event.window_id in self._faulty:
            self._faulty = {window for window in self._faulty if window > event.window_id}
            return "failed"
        if any(latency > limit for limit in self._limits.values()):
            return "promise"
        if median and latency > self._settings.slow * median and self._has_room(event.at):
            return "slow"
        if self._broken and event.at - self._promised >= _PROMISE_SECONDS:
            self._promised = event.at
            return "promise"
        sampled = is_sampled(trace_id(self._run, event.window_id), self._settings.ratio)
        return "ratio" if sampled else ""

    def _has_room(self, at: float) -> bool:
        """Whether one more slow window is traced in this second."""
        if int(at) != self._second:
            self._second, self._slow = int(at), 0
        self._slow += 1
        return self._slow <= _MOST_SLOW

    def _ended(self, event: ApplicationEnded) -> None:
        """Windows that a failure has left under way are traced as far as they came."""
        self._release()
        if self._plan is None or event.outcome != "failed":
            return
        left = [
            (window, events)
            for window, events in sorted(self._windows.items())
            if any(isinstance(one, WindowStarted) for one in events)
        ]
        self._windows.clear()
        for window, events in left[:_MOST_FAILED]:
            reason = event.reason or "the run failed"
            clocks = self._clocks.as_of_now()
            self._take(
                ChosenWindow(self._plan, window, tuple(events), clocks, "failed", 0.0, event.at, reason)
            )

    def _release(self) -> None:
        """Let go of a window for whose account by Spark there was time enough."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._take(waiting)


def _with(chosen: ChosenWindow, event: RunEvent) -> ChosenWindow:
    """A chosen window with one event more, before its commit."""
    return replace(chosen, events=(*chosen.events[:-1], event, chosen.events[-1]))
