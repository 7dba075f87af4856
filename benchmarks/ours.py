"""Ridgeline as its users run it, with a stop watch."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.frame import Round
from benchmarks.spark import MASTER
from ridgeline import Application
from ridgeline.engine.launch import Options
from ridgeline.measure.events import Event, WindowCommitted
from ridgeline.plan import plan_application
from ridgeline.service.measured import ServiceOptions, run_measured

PHASES = ("began", "planned", "launched", "returned", "staged", "committed", "published")


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
) -> list[Event]:
    """Run an application on `local[2]` for so many windows, with everything that `ridgeline run` does but the web service; its events.

    `checkpoint`: default is a fresh folder on the disk of the round. `windows` None: until its inputs have finished or `stop` is set.
    """
    told: list[Event] = []
    folder = checkpoint or str(of_round.folder / "checkpoint")
    options = Options(MASTER, conf or {}, folder, windows)
    plan = plan_application(app, {}, attributes or {})
    run_measured(plan, options, ServiceOptions(port=None), observe=told.append, context=context, stop=stop)
    return told


def window_times(events: Sequence[Event]) -> list[float]:
    """Seconds from the publication of one window to that of the next: everything that a window takes, whoever takes it."""
    ends = [event.published for event in events if isinstance(event, WindowCommitted)]
    return [after - before for before, after in pairwise(ends)]


def phases(of_round: Round, events: Sequence[Event]) -> str:
    """Where the windows' time went, in a line: medians of warm windows between the driver's own time stamps."""
    committed = [event for event in events if isinstance(event, WindowCommitted)]
    warm = committed[len(of_round.warm(window_times(events))) * -1 :]
    told = [
        f"{name} +{statistics.median(getattr(event, name) - getattr(event, before) for event in warm) * 1e3:.1f}"
        for before, name in pairwise(PHASES)
    ]
    return f"ms from the window's begin: {', '.join(told)}"
