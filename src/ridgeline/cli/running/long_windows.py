"""Lines about a window that takes long, where there is no terminal to draw on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ridgeline.api.clock import Clock
from ridgeline.cli.views.running import running_line
from ridgeline.measure.answers.progress import ProgressAnswer

LONG_SECONDS = 5.0
"""A window that runs for longer gets lines."""
EVERY_SECONDS = 10.0
"""At most one line is printed in this time."""
_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 1.0


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
