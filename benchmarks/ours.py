"""Ridgeline as its users run it, with a stop watch."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from benchmarks.frame import Round
from benchmarks.spark import MASTER
from ridgeline import Application
from ridgeline.engine.driver.run.launch import Options
from ridgeline.measure.events import RunEvent, WindowCommitted
from ridgeline.plan import plan_application
from ridgeline.service.measured import ServiceOptions, run_measured


class Seen:
    """When each window's results could be read.

    No events: the driver's collections of garbage look through what is kept, and would be measured as well.
    """

    def __init__(self) -> None:
        self.ends = array("d")  # wall clock

    def add(self, event: RunEvent) -> None:
        """Take an event in."""
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
