"""`ridgeline run`: the engine's events on one side, the terminal on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from ridgeline.api.clock import SystemClock
from ridgeline.cli import options
from ridgeline.cli.errors import make_console
from ridgeline.cli.live import LiveView
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.statistics import RunStatistics
from ridgeline.cli.stopping import Stopper, in_thread
from ridgeline.cli.summary import print_going_on, print_summary
from ridgeline.cli.units import plural
from ridgeline.cli.view import PlainView, View
from ridgeline.measure.events import Event, WindowCommitted, WindowRetried
from ridgeline.plan.execution import Plan

if TYPE_CHECKING:
    from ridgeline.engine.launch import Outcome
    from ridgeline.engine.run import ApplicationRun

_WIDE = 160


class Run:
    """One run with its view and its statistics."""

    def __init__(self, plan: Plan, settings: RunSettings) -> None:
        self._plan = plan
        self._settings = settings
        self._clock = SystemClock()
        self._console = Console(highlight=False, emoji=False)
        if not self._console.is_terminal:
            self._console.width = _WIDE  # nothing to wrap for
        self._statistics = RunStatistics(plan, self._clock)
        self._view = self._make_view()
        self._checkpoint = ""

    def run(self) -> None:
        """Run to the end, then tell about it. Raises what `launch` raises, after it has said how to go on."""
        settings = self._settings
        with Stopper(self._view.stopping, self._killed) as stopper:
            self._view.starting()
            try:
                outcome = in_thread(lambda: self._launch(stopper))
            finally:
                self._view.close()
        if not settings.quiet:
            print_summary(self._console, outcome, self._statistics, settings, stopper.stopped_by)

    def tell_going_on(self) -> None:
        """After a failure: what is committed, and the command that goes on from it."""
        if self._checkpoint:
            console = make_console(stderr=True)
            console.print()
            windows = self._statistics.windows
            console.print(f"{plural(windows, 'window')} of this run committed" if windows else "no window of this run is committed")
            print_going_on(console, self._settings, self._checkpoint)

    def _launch(self, stopper: Stopper) -> Outcome:
        from ridgeline.engine.launch import Options, launch

        settings = self._settings
        return launch(
            self._plan,
            Options(settings.master, options.settings(settings.conf), settings.checkpoint, settings.windows),
            observe=self._observe,
            stop=stopper.event,
            console=self._console,
            clock=self._clock,
            started=self._started,
        )

    def _make_view(self) -> View:
        if self._settings.quiet:
            return View()
        if self._console.is_terminal and self._console.file.isatty() and not self._console.is_dumb_terminal:
            return LiveView(self._console, self._clock, self._statistics, self._settings)
        return PlainView(self._console, self._clock, self._plan.logical.application, self._settings)

    def _started(self, run: ApplicationRun) -> None:
        self._checkpoint = run.checkpoint.storage.uri
        self._statistics.started = self._clock.monotonic()
        self._view.started(self._checkpoint, run.next_window)

    def _observe(self, event: Event) -> None:
        self._statistics.apply(event)
        match event:
            case WindowCommitted() if self._statistics.last:
                self._view.committed(self._statistics.last)
            case WindowRetried(final=False):
                self._view.retried(event.window_id, event.attempt, event.reason)
            case _:
                pass

    def _killed(self) -> None:
        """The second Ctrl-C."""
        self._view.close()
        console = make_console(stderr=True)
        console.print("killed; the window that ran is not committed and will be replayed")
        if self._checkpoint:
            print_going_on(console, self._settings, self._checkpoint)
