"""The live screen of a run on a terminal; what operators print scrolls above it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ridgeline.api.clock import Clock
from ridgeline.cli.running.view import RunMetrics, View, checkpoint_line, retry_line, stopping_line
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.views.running import running_lines
from ridgeline.cli.views.screen import screen
from ridgeline.measure.answers.application import OverviewAnswer, RunAnswer
from ridgeline.measure.answers.own_metrics import MetricsAnswer
from ridgeline.measure.wording.units import duration, plural

_SILENCE_SECONDS = 2.0
_BAR_WIDTH = 40
_OWN_LINES = 4
_FRAME_SECONDS = 0.5
_STDERR = 2


class StderrCapture:
    """Between `start` and `stop` file descriptor 2 is a pipe; `show` gets its lines in a thread of its own.

    Processes that are started meanwhile (the JVM, through which Python workers write) keep the pipe: their
    lines arrive as long as this process lives. Nothing happens if standard error is no terminal.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._saved: int | None = None

    def start(self) -> None:
        """Begin; what this process writes to standard error arrives too."""
        if not os.isatty(_STDERR):
            return
        self._saved = os.dup(_STDERR)
        source, sink = os.pipe()
        os.dup2(sink, _STDERR)
        os.close(sink)
        threading.Thread(target=self._read, args=(source,), name="ridgeline-stderr", daemon=True).start()

    def stop(self) -> None:
        """Restore standard error. May be called twice."""
        if self._saved is not None:
            os.dup2(self._saved, _STDERR)
            os.close(self._saved)
            self._saved = None

    def _read(self, source: int) -> None:
        """Until all writers are gone.

        A line that cannot be shown is left out: who writes must never wait for us.
        """
        with os.fdopen(source, "r", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with contextlib.suppress(Exception):
                    self._show(line.rstrip("\n"))


class LiveView(View):
    """A screen that is redrawn four times a second, from figures that are read at most twice a second."""

    def __init__(
        self,
        console: Console,
        clock: Clock,
        application: str,
        settings: RunSettings,
    ) -> None:
        self._console = console
        self._clock = clock
        self._application = application
        self._settings = settings
        self._started = False
        self._stopping = False
        self._metrics: RunMetrics | None = None
        self._shown: tuple[OverviewAnswer, RunAnswer, MetricsAnswer] | None = None
        self._read = float("-inf")
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=4, transient=True)
        self._capture = StderrCapture(lambda line: console.print(Text.from_ansi(line), soft_wrap=True))

    def starting(self) -> None:
        """Name the application; begin to draw."""
        title = Text.assemble((self._application, "bold"), f" on {self._settings.master}")
        self._console.print(title.append(f": {self._settings.ending}", "dim"))
        self._capture.start()
        self._live.start(refresh=True)

    def started(
        self, checkpoint: str, first_window: int, service: str = "", metrics: RunMetrics | None = None
    ) -> None:
        """Name the checkpoint folder and the web service."""
        self._metrics = metrics
        self._started = True
        self._console.print(Text(checkpoint_line(checkpoint, first_window), "dim"))
        if service:
            self._console.print(Text(service, "dim"), soft_wrap=True)

    def committed(self) -> None:
        """Make the next drawing read the figures again."""

    def retried(self, window_id: int, attempt: int, reason: str) -> None:
        """One line above the screen."""
        self._console.print(Text(retry_line(window_id, attempt, reason), "yellow"))

    def changed(self, text: str) -> None:
        """One line above the screen."""
        self._console.print(Text(text, "cyan"), soft_wrap=True)

    def stopping(self) -> None:
        """Say so below the screen."""
        self._stopping = True

    def close(self) -> None:
        """Remove the screen; the cursor comes back."""
        self._live.stop()
        self._capture.stop()

    def render(self) -> RenderableType:
        """The bottom of the terminal as of now."""
        try:
            return Group(*self._parts())
        except Exception as error:  # noqa: BLE001  a screen must not be the end of the run that it shows
            return Text(f"the figures cannot be shown: {type(error).__name__}: {error}", "yellow")

    def _parts(self) -> list[RenderableType]:
        """A spinner before the first window, then the screen and the lines below it."""
        parts: list[RenderableType] = []
        shown = self._read_metrics()
        if shown is None or shown[0]["windowId"] is None or shown[1]["last"] is None:
            waiting = (
                f"running the first window of {self._application} ..."
                if self._started
                else "starting Spark ..."
            )
            self._spinner.update(text=waiting)
            parts.append(self._spinner)
            parts += running_lines(shown[0]["progress"]) if shown is not None else []
        else:
            overview, run, metrics = shown
            window_seconds = overview["info"]["windowSeconds"] if "id" in overview["info"] else 0.0
            parts += [
                Text(),
                *screen(overview, self._console.width, self._console.height - _OWN_LINES, metrics),
                *self._below(run, window_seconds),
                *_slots_lost(overview),
            ]
        if self._stopping:
            progress = shown[0]["progress"] if shown is not None else None
            parts.append(Text(stopping_line(progress), "bold yellow"))
        return parts

    def _read_metrics(self) -> tuple[OverviewAnswer, RunAnswer, MetricsAnswer] | None:
        """Metrics to show: read again if they are old enough; None before the run has started."""
        if self._metrics is not None:
            now = self._clock.monotonic()
            if self._shown is None or now - self._read >= _FRAME_SECONDS:
                asked = self._metrics
                self._shown, self._read = (asked.overview(), asked.run(), asked.own_metrics()), now
        return self._shown

    def _below(self, run: RunAnswer, window_seconds: float) -> list[RenderableType]:
        """The progress bar of inputs that know their end, and how long ago the last commit was, if long."""
        parts: list[RenderableType] = []
        fraction, remaining = run["fractionDone"], run["remainingSeconds"]
        if fraction is not None:
            grid = Table.grid(padding=(0, 1))
            left = f"{duration(remaining)} left" if remaining is not None and fraction < 1 else ""
            grid.add_row(
                ProgressBar(total=1.0, completed=fraction, width=_BAR_WIDTH),
                f"{fraction:.0%}",
                Text(left, "dim"),
            )
            parts.append(grid)
        silence = self._clock.wall() - (run["committedAt"] or 0.0)
        if silence > max(_SILENCE_SECONDS, 2 * window_seconds):
            parts.append(Text(f"last commit {duration(silence)} ago", "yellow"))
        return parts


def _slots_lost(overview: OverviewAnswer) -> list[RenderableType]:
    """How many slots were lost or late, and how many of the lost are there again; nothing if none was."""
    stats = overview["info"]["stats"] if "id" in overview["info"] else None
    if stats is None:
        return []
    lost, late = stats["slotsLost"], stats["slotsSpeculated"]
    parts = [f"{plural(lost, 'slot')} lost, {stats['slotsRestarted']:,} replaced"] if lost else []
    parts += [f"{plural(late, 'slot')} late, run in the spare"] if late else []
    return [Text("; ".join(parts), "yellow")] if parts else []
