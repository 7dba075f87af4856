"""A window under way, as the driver sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.clock import Timeline
from ridgeline.engine.driver.checkpoint.manifest import SourceOffsets
from ridgeline.engine.driver.inputs import Read
from ridgeline.measure.events import WindowCommitted
from ridgeline.plan.protocol import WindowReport


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
        )
