"""The live table of a run on a terminal; what operators print scrolls above it."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ridgeline.api.clock import Clock
from ridgeline.cli.capture import StderrCapture
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.statistics import RunStatistics, Window
from ridgeline.cli.tables import operators_table
from ridgeline.cli.units import count, duration
from ridgeline.cli.view import STOPPING, View, checkpoint_line, retry_line

_SILENCE_SECONDS = 2.0
_BAR_WIDTH = 40


class LiveView(View):
    """A table of operators that is drawn anew eight times a second."""

    def __init__(self, console: Console, clock: Clock, statistics: RunStatistics, settings: RunSettings) -> None:
        self._console = console
        self._clock = clock
        self._statistics = statistics
        self._settings = settings
        self._started = False
        self._stopping = False
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=8, transient=True)
        self._capture = StderrCapture(lambda line: console.print(Text.from_ansi(line), soft_wrap=True))

    def starting(self) -> None:
        """Name the application; begin to draw."""
        title = Text.assemble((self._statistics.plan.logical.application, "bold"), f" on {self._settings.master}")
        self._console.print(title.append(f": {self._settings.ending}", "dim"))
        self._capture.start()
        self._live.start(refresh=True)

    def started(self, checkpoint: str, first_window: int) -> None:
        """Name the checkpoint folder."""
        self._started = True
        self._console.print(Text(checkpoint_line(checkpoint, first_window), "dim"))

    def retried(self, window_id: int, attempt: int, reason: str) -> None:
        """One line above the table."""
        self._console.print(Text(retry_line(window_id, attempt, reason), "yellow"))

    def stopping(self) -> None:
        """Say so below the table."""
        self._stopping = True

    def close(self) -> None:
        """Remove the table; the cursor comes back."""
        self._live.stop()
        self._capture.stop()

    def render(self) -> RenderableType:
        """What stands at the bottom of the terminal now."""
        with self._statistics.lock:
            parts: list[RenderableType] = []
            window = self._statistics.last
            if window is None:
                waiting = (
                    f"running the first window of {self._statistics.plan.logical.application} ..."
                    if self._started
                    else "starting Spark ..."
                )
                self._spinner.update(text=waiting)
                parts.append(self._spinner)
            else:
                parts += [
                    Text(),
                    self._headline(window),
                    operators_table(list(self._statistics.rows.values()), self._console.width, totals=False),
                ]
                bar = self._progress()
                if bar is not None:
                    parts.append(bar)
            if self._stopping:
                parts.append(Text(STOPPING, "bold yellow"))
            return Group(*parts)

    def _headline(self, window: Window) -> Text:
        statistics = self._statistics
        line = Text.assemble(
            ("window ", "dim"),
            (count(window.window_id), "bold"),
            ("  time ", "dim"),
            duration(window.seconds),
            ("  in ", "dim"),
            count(window.tuples_in),
            ("  out ", "dim"),
            count(window.tuples_out),
            ("  tuples/s ", "dim"),
            count(statistics.tuples_per_second),
        )
        silence = self._clock.monotonic() - statistics.committed
        if silence > max(_SILENCE_SECONDS, 2 * statistics.plan.logical.window_seconds):
            line.append(f"  last commit {duration(silence)} ago", "yellow")
        return line

    def _progress(self) -> RenderableType | None:
        fraction = self._statistics.fraction
        if fraction is None:
            return None
        remaining = self._statistics.remaining_seconds
        grid = Table.grid(padding=(0, 1))
        left = f"{duration(remaining)} left" if remaining is not None and fraction < 1 else ""
        grid.add_row(ProgressBar(total=1.0, completed=fraction, width=_BAR_WIDTH), f"{fraction:.0%}", Text(left, "dim"))
        return grid
