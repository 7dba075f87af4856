"""Ridgeline as its users run it, with a stop watch."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from benchmarks.frame import Round
from benchmarks.spark import MASTER
from ridgeline import Application
from ridgeline.engine.driver.run.launch import Options
from ridgeline.measure.events import ApplicationPlanned, RunEvent, WindowCommitted
from ridgeline.measure.latency.window_phases import phase_table
from ridgeline.plan import plan_application
from ridgeline.service.measured import ServiceOptions, run_measured

_KEPT = 10_000
"""Events: of about 700 windows of two stages in two partitions."""


class Seen:
    """What was seen of a run: its plans, when each window's results could be read, and the newest events.

    Not all events: what is kept is looked through by collections of the driver's garbage, and that would be
    measured as well.
    """

    def __init__(self) -> None:
        self.planned: list[RunEvent] = []
        self.ends = array("d")  # wall clock
        self.newest: deque[RunEvent] = deque(maxlen=_KEPT)

    def add(self, event: RunEvent) -> None:
        """Take an event in."""
        (self.planned if isinstance(event, ApplicationPlanned) else self.newest).append(event)
        if isinstance(event, WindowCommitted):
            self.ends.append(event.published)


def run(
    of_round: Round,
    app: Application,
    windows: int | None,
    *,
    checkpoint: str | None = None,
    conf: Mapping[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    context: Any = None,
    stop: threading.Event | None = None,
) -> Seen:
    """Run an application on `local[2]` as `ridgeline run` does, without the web service.

    `checkpoint`: default is a fresh folder on the disk of the round. `windows` None: until its inputs have
    finished or `stop` is set.
    """
    seen = Seen()
    folder = checkpoint or str(of_round.folder / "checkpoint")
    options = Options(MASTER, conf or {}, folder, windows)
    plan = plan_application(app, {}, attributes or {})
    run_measured(plan, options, ServiceOptions(port=None), observe=seen.add, context=context, stop=stop)
    return seen


def window_times(seen: Seen) -> list[float]:
    """Seconds from the publication of one window to that of the next: all that a window takes."""
    return [after - before for before, after in pairwise(seen.ends)]


def phases(of_round: Round, seen: Seen) -> str:
    """A line about the newest windows: the mean of each phase, and how much of the whole they explain."""
    table = phase_table([*seen.planned, *seen.newest], warm_up=of_round.first_warm)
    if table is None:
        return "no window was committed"
    means = ", ".join(f"{phase.phase} {phase.mean * 1e3:.1f}" for phase in table.phases)
    return f"ms a window: {means}; window {table.whole.mean * 1e3:.1f}, {table.explained:.1%} explained"
