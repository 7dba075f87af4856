"""Reports the events of a run to its subscribers, in the thread and the order in which they happen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ridgeline.api.clock import Clock, Timeline
from ridgeline.api.errors import Failure
from ridgeline.engine.driver.checkpoint.manifest import SourceOffsets
from ridgeline.engine.driver.inputs import Read
from ridgeline.engine.driver.run.changes import Asked, changed_event
from ridgeline.measure.events import (
    OutputAsked,
    OutputPublished,
    RunEvent,
    SourceAsked,
    SourceTaken,
    StateWarning,
    WindowCommitted,
)
from ridgeline.observe.control_log import ControlLog
from ridgeline.observe.reporting import ClockSteps, MetricAggregation, report_events, taken_events
from ridgeline.plan.execution import Plan
from ridgeline.plan.protocol import WindowReport

# A window under way, as the driver sees it.


@dataclass(slots=True)
class Window:
    """A window under way: the trigger's input, what inputs read in it, and the times (wall clock)."""

    source: Any
    offsets: SourceOffsets | None
    due: float | None
    timeline: Timeline
    read: Read = field(default_factory=dict)
    began: float = field(init=False)
    planned: float = field(init=False)
    launched: float = 0.0
    returned: float = 0.0
    staged: float = 0.0
    committed: float = 0.0
    closing: bool = False
    """It runs again to be closed, since all inputs have ended in it: nothing has failed."""
    held_seconds: float = 0.0
    """How long it waited for its commit since nothing had moved in it."""
    reports: tuple[WindowReport, ...] = ()
    """Of the attempt that counts, once the window is committed."""

    def __post_init__(self) -> None:
        self.began = self.planned = self.timeline.now()

    def event(self, window_id: int, published: float) -> WindowCommitted:
        """The event that reports it once it is published. Times are without that in which it was held."""
        tasks: dict[str, int] = {}
        for report in self.reports:
            task = report.window.task
            tasks[task] = max(tasks.get(task, 0), report.task_attempt)
        return WindowCommitted(
            at=published,
            window_id=window_id,
            attempts=max(report.window.attempt for report in self.reports) + 1,
            began=self.began,
            planned=self.planned,
            launched=self.launched,
            returned=self.returned,
            staged=self.staged - self.held_seconds,
            committed=self.committed - self.held_seconds,
            published=published - self.held_seconds,
            tasks_retried=sum(tasks.values()),
            held_seconds=self.held_seconds,
            closing=self.closing,
        )


_MOMENT_SECONDS = 0.2
Observe = Callable[[RunEvent], None]
"""Takes the events of a run, in the thread in which they happen. Must be quick and raise nothing."""


class Reporter:
    """The events of one run. `report` takes any of them."""

    def __init__(self, plan: Plan, clock: Clock, observe: Observe | None) -> None:
        self.report: Observe = observe or (lambda _event: None)
        self.planned_event: Callable[[Plan], RunEvent] | None = None
        """Makes the event of a plan that follows."""
        self.control_log = ControlLog(clock.wall)
        self._clock = clock
        self._steps = ClockSteps(clock.wall(), clock.monotonic())
        self._early: list[StateWarning] | None = []
        self._taken: deque[tuple[float, SourceTaken]] = deque()
        """The progress of inputs, until it is reported or their window is committed."""
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """The run has another plan from now on."""
        self._plan = plan
        self._metrics = MetricAggregation(plan.physical.operators)

    def planned(self, plan: Plan) -> None:
        """The next windows are those of another plan."""
        if self.planned_event is not None:
            self.report(self.planned_event(plan))

    @property
    def begun(self) -> bool:
        """True once the first window has begun: subscribers know the run then."""
        return self._early is None

    def begin(self) -> None:
        """The first window begins: report what was held back before."""
        early, self._early = self._early, None
        for warning in early or ():
            self.report(warning)

    def window(
        self, window_id: int, window: Window, published: Iterable[OutputPublished | OutputAsked]
    ) -> None:
        """A window is published: its containers and operators, what outputs show now, then its times."""
        at = window.timeline.now()
        for event in report_events(window.reports, at, self._metrics):
            self.report(event)
        self.published(published)
        self.report(window.event(window_id, at))

    def reported(self, report: WindowReport) -> None:
        """A container has run its part of a window."""
        now = self._clock.monotonic()
        self._taken.extend((now, event) for event in taken_events(report))

    def report_taken(self, under_way: Container[int]) -> None:
        """Report what inputs have taken into windows that take longer than a moment."""
        now = self._clock.monotonic()
        while self._taken and now - self._taken[0][0] >= _MOMENT_SECONDS:
            _, event = self._taken.popleft()
            if event.window_id in under_way:
                self.report(replace(event, at=self._clock.wall()))

    def look_at_clock(self) -> None:
        """Warn if the clock was set."""
        if text := self._steps.look(self._clock.wall(), self._clock.monotonic()):
            self.warn(-1, text)

    def published(self, events: Iterable[OutputPublished | OutputAsked]) -> None:
        """Report windows that readers have come to see, and what hinders others."""
        for event in events:
            self.report(event)

    def change(self, asked: Asked, held_seconds: float = 0.0) -> None:
        """A change was asked for, or has come to its end."""
        self.report(changed_event(asked, self._clock.wall(), self._plan.version, held_seconds))

    def warn_now(self, text: str) -> None:
        """Warn of something that concerns the application as a whole, also before the first window."""
        self.report(StateWarning(self._clock.wall(), -1, text))

    def source_problem(self, operator: int, problem: str) -> None:
        """A source does not answer, or answers again.

        `operator`: its first partition. `problem`: why; empty once it answers.
        """
        self.report(SourceAsked(self._clock.wall(), -1, operator, problem=problem))

    def warn(self, operator: int, text: str) -> None:
        """A fault in the checkpoint was put right. `operator`: physical id of the one concerned.

        Warnings from before the first window are held back until it begins.
        """
        warning = StateWarning(self._clock.wall(), operator, text)
        if self._early is None:
            self.report(warning)
        else:
            self._early.append(warning)

    def teardown_failed(self, failure: Failure) -> None:
        """`deactivate` or `teardown` of an operator has failed at the end."""
        operators = self._plan.physical.operators
        ids = [one.id for one in operators if failure.operator in (one.name, one.title)]
        operator = ids[min(failure.partition, len(ids) - 1)] if ids else -1
        where = f"operator `{failure.operator}` (partition {failure.partition})"
        text = f"{where}: `{failure.callback}` failed: {failure.error}; no result is lost"
        self.report(StateWarning(self._clock.wall(), operator, text))
