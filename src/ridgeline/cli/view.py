"""What a run shows while it goes on: nothing, or plain lines. `live` has the table for terminals."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ridgeline.api.clock import Clock
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.statistics import Window
from ridgeline.cli.units import count, duration

STOPPING = "stopping after this window; press Ctrl-C again to kill it"
_REASON = 240


class View:
    """Shows nothing (`--quiet`), and says what there is to show. Calls come from several threads, one at a time each."""

    def starting(self) -> None:
        """Spark is about to be started, which takes seconds."""

    def started(self, checkpoint: str, first_window: int) -> None:
        """The first window is about to run."""

    def committed(self, window: Window) -> None:
        """A window is committed."""

    def retried(self, window_id: int, attempt: int, reason: str) -> None:
        """An attempt at a window did not count; it runs again."""

    def stopping(self) -> None:
        """The window that runs is the last one."""

    def close(self) -> None:
        """No more windows. May be called twice."""


class PlainView(View):
    """Lines: start, at most one per second, retries, end. No control characters."""

    def __init__(self, console: Console, clock: Clock, application: str, settings: RunSettings) -> None:
        self._console = console
        self._clock = clock
        self._application = application
        self._settings = settings
        self._last = float("-inf")

    def starting(self) -> None:
        """Name the application, the master and the end."""
        self._say(f"{self._application} on {self._settings.master}: {self._settings.ending}")
        self._say("starting Spark ...")

    def started(self, checkpoint: str, first_window: int) -> None:
        """Name the checkpoint folder."""
        self._say(checkpoint_line(checkpoint, first_window))

    def committed(self, window: Window) -> None:
        """One line, if the last one is a second old."""
        now = self._clock.monotonic()
        if now - self._last >= 1:
            self._last = now
            self._say(
                f"window {window.window_id}: {count(window.tuples_in)} in, {count(window.tuples_out)} out, {duration(window.seconds)}"
            )

    def retried(self, window_id: int, attempt: int, reason: str) -> None:
        """One line."""
        self._say(retry_line(window_id, attempt, reason))

    def stopping(self) -> None:
        """One line."""
        self._say(STOPPING)

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def checkpoint_line(checkpoint: str, first_window: int) -> str:
    """Where the run's state is, and where it begins."""
    return f"checkpoint {checkpoint} ({f'goes on from window {first_window}' if first_window else 'fresh'})"


def retry_line(window_id: int, attempt: int, reason: str) -> str:
    """Why a window runs again, in one line."""
    text = " ".join(reason.split())
    if len(text) > _REASON:
        text = f"{text[:_REASON]} ..."
    return f"window {window_id} runs again (attempt {attempt + 1}): {text}"
