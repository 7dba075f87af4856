"""Views of a run under way: none, plain lines, or the live screen of a terminal."""

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
from ridgeline.api.support.masking import mask_text
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.views.path import short_path
from ridgeline.cli.views.running import running_line, running_lines
from ridgeline.cli.views.screen import screen
from ridgeline.measure.answers.application import LastWindowAnswer, OverviewAnswer, RunAnswer
from ridgeline.measure.answers.operators import MetricsAnswer
from ridgeline.measure.answers.progress import ProgressAnswer
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.units import count, duration, plural
from ridgeline.observe.watch import Watch

_AT_ONCE = "Ctrl-C again ends it at once, to be run again at the next start"
_REASON = 240
LONG_SECONDS = 5.0
"""A window that runs for longer gets lines."""
EVERY_SECONDS = 10.0
"""At most one line is printed in this time."""
_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 1.0


class View:
    """The interface of views; it shows nothing itself (`--quiet`).

    Calls come from several threads, one at a time each.
    """

    def starting(self) -> None:
        """Spark is about to be started, which takes seconds."""

    def started(
        self, checkpoint: str, first_window: int, service: str = "", metrics: Watch | None = None
    ) -> None:
        """The first window is about to run. `service` says where others can ask for `metrics`."""

    def committed(self) -> None:
        """A window is committed: `metrics` know of it."""

    def retried(self, window_id: int, attempt: int, reason: str) -> None:
        """An attempt at a window did not count; it runs again."""

    def changed(self, text: str) -> None:
        """A change was requested, or has come to its end: in a line."""

    def stopping(self) -> None:
        """The window that runs is the last one."""

    def close(self) -> None:
        """No more windows. May be called twice."""


class _Shown(View):
    """A view that names the checkpoint and the web service, and says what happens in lines."""

    styled = False

    def __init__(self, console: Console, clock: Clock, application: str, settings: RunSettings) -> None:
        self._console = console
        self._clock = clock
        self._application = application
        self._settings = settings
        self._metrics: Watch | None = None

    def started(
        self, checkpoint: str, first_window: int, service: str = "", metrics: Watch | None = None
    ) -> None:
        """Name the checkpoint folder and the web service."""
        self._metrics = metrics
        self._say(checkpoint_line(checkpoint, first_window), "dim")
        if service:
            self._say(service, "dim")

    def retried(self, window_id: int, attempt: int, reason: str) -> None:
        """One line."""
        self._say(retry_line(window_id, attempt, reason), "yellow")

    def changed(self, text: str) -> None:
        """One line."""
        self._say(text, "cyan")

    def _say(self, line: str, style: str = "") -> None:
        self._console.print(Text(line, style if self.styled else ""), soft_wrap=True)


class PlainView(_Shown):
    """Lines: start, at most one per second, how far a long window is, retries, end. No control characters."""

    _long_windows: LongWindows | None = None
    _last = float("-inf")

    def starting(self) -> None:
        """Name the application, the master and the end."""
        self._say(f"{self._application} on {self._settings.master}: {self._settings.ending}")
        self._say("starting Spark ...")

    def started(
        self, checkpoint: str, first_window: int, service: str = "", metrics: Watch | None = None
    ) -> None:
        """Name them, and begin to look at long windows."""
        super().started(checkpoint, first_window, service, metrics)
        if metrics is not None:
            self._long_windows = LongWindows(self._clock, metrics.progress, self._say)
            self._long_windows.start()

    def committed(self) -> None:
        """One line, if the last one is a second old."""
        if self._long_windows is not None:
            self._long_windows.committed()
        now = self._clock.monotonic()
        if now - self._last >= 1:
            self._last = now
            if self._metrics is not None and (window := self._metrics.run()["last"]) is not None:
                self._say(window_line(window, self._metrics.overview()))

    def stopping(self) -> None:
        """One line."""
        self._say(stopping_line(self._metrics.progress() if self._metrics is not None else None))

    def close(self) -> None:
        """The thread that looks at long windows ends."""
        if self._long_windows is not None:
            self._long_windows.close()


def window_line(window: LastWindowAnswer, overview: OverviewAnswer) -> str:
    """Tuples, latency and critical path of a window, and whether the application keeps up, in one line."""
    tuples = f"{count(window['tuplesIn'])} in, {count(window['tuplesOut'])} out"
    line = f"window {window['windowId']}: {tuples}, {duration(window['seconds'])}"
    path = short_path(overview["criticalPath"])
    if path:
        line += f"; critical path {path}"
    known = overview["progress"]["application"]["verdict"] != "unknown"
    return f"{line}; {sentence_of(overview)['text'].partition('; ')[0]}" if known else line


def stopping_line(progress: ProgressAnswer | None) -> str:
    """When the run will end, as far as that is known, and how it would end at once.

    `progress`: as `/progress`.
    """
    line = "" if progress is None else running_line(progress)
    return (
        f"stopping after windows under way ({line}); {_AT_ONCE}"
        if line
        else f"stopping after windows under way; {_AT_ONCE}"
    )


def service_line(url: str) -> str:
    """The address of the run's web service."""
    return f"figures at {url}"


def checkpoint_line(checkpoint: str, first_window: int) -> str:
    """Where the run's state is, and where it begins."""
    return (
        f"checkpoint {mask_text(checkpoint)} "
        f"({f'goes on from window {first_window}' if first_window else 'fresh'})"
    )


def retry_line(window_id: int, attempt: int, reason: str) -> str:
    """Why a window runs again, in one line."""
    text = " ".join(reason.split())
    if len(text) > _REASON:
        text = f"{text[:_REASON]} ..."
    return f"window {window_id} runs again (attempt {attempt + 1}): {text}"


class LongWindows:
    """Prints how far a long window is, from its own thread; the thread of the windows never waits for it.

    `progress` answers as `/progress`, and is asked only if no window was committed for `LONG_SECONDS`; `say`
    prints a line.
    """

    def __init__(
        self, clock: Clock, progress: Callable[[], ProgressAnswer], say: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._progress = progress
        self._say = say
        self._over = threading.Event()
        self._next = clock.monotonic() + LONG_SECONDS
        self._committed = clock.monotonic()
        self._thread = threading.Thread(target=self._watch, name="ridgeline-long-windows", daemon=True)

    def start(self) -> None:
        """Begin to look, once a second."""
        self._thread.start()

    def committed(self) -> None:
        """A window is committed: the next one is not long yet."""
        self._committed = self._clock.monotonic()

    def close(self) -> None:
        """No more lines. May be called twice."""
        self._over.set()
        self._thread.join(_CLOSE_SECONDS)

    def look(self) -> None:
        """Say how far the window is, if it is long and the last line old enough."""
        now = self._clock.monotonic()
        if now < max(self._next, self._committed + LONG_SECONDS):
            return
        line = running_line(self._progress(), after_seconds=LONG_SECONDS)
        if line:
            self._next = now + EVERY_SECONDS
            self._say(line)

    def _watch(self) -> None:
        while not self._clock.wait(_LOOK_SECONDS, self._over):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  what shows a run must not disturb it
                self._say(f"progress cannot be shown: {type(error).__name__}: {error}")
                return


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


class LiveView(_Shown):
    """A screen that is redrawn four times a second, from figures that are read at most twice a second."""

    styled = True

    def __init__(self, console: Console, clock: Clock, application: str, settings: RunSettings) -> None:
        super().__init__(console, clock, application, settings)
        self._started = False
        self._stopping = False
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
        self, checkpoint: str, first_window: int, service: str = "", metrics: Watch | None = None
    ) -> None:
        """Name them above the screen, which shows figures from now on."""
        super().started(checkpoint, first_window, service, metrics)
        self._started = True

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
