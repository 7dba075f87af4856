"""Ridgeline as its users run it, with a stop watch."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.frame import Round
from benchmarks.spark import MASTER
from ridgeline import Application
from ridgeline.engine.driver.execution_kind import Execution
from ridgeline.engine.driver.launch import Options
from ridgeline.measure.events import RunEvent, WindowCommitted
from ridgeline.measure.latency.window_phases import phase_table
from ridgeline.plan import plan_application
from ridgeline.service.measured import ServiceOptions, run_measured


def run(  # noqa: PLR0913  as `run_measured`
    of_round: Round,
    app: Application,
    windows: int | None,
    *,
    checkpoint: str | None = None,
    conf: Mapping[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    context: Any = None,
    stop: threading.Event | None = None,
    execution: Execution | None = None,
) -> list[RunEvent]:
    """Run an application on `local[2]` as `ridgeline run` does, without the web service; return its events.

    `checkpoint`: default is a fresh folder on the disk of the round. `windows` None: until its inputs have
    finished or `stop` is set. `execution`: in jobs or in slots.
    """
    events: list[RunEvent] = []
    folder = checkpoint or str(of_round.folder / "checkpoint")
    options = Options(MASTER, conf or {}, folder, windows, execution)
    plan = plan_application(app, {}, attributes or {})
    run_measured(plan, options, ServiceOptions(port=None), observe=events.append, context=context, stop=stop)
    return events


def window_times(events: Sequence[RunEvent]) -> list[float]:
    """Seconds from the publication of one window to that of the next: all that a window takes."""
    ends = [event.published for event in events if isinstance(event, WindowCommitted)]
    return [after - before for before, after in pairwise(ends)]


def phases(of_round: Round, events: Sequence[RunEvent]) -> str:
    """A line about the warm windows: the mean of each phase, and how much of the whole they explain."""
    table = phase_table(events, warm_up=of_round.first_warm)
    if table is None:
        return "no window was committed"
    means = ", ".join(f"{phase.phase} {phase.mean * 1e3:.1f}" for phase in table.phases)
    return f"ms a window: {means}; window {table.whole.mean * 1e3:.1f}, {table.explained:.1%} explained"
