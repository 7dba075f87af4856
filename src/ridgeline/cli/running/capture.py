"""Brings what Spark and operators' `print` write to the terminal above the live table."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

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
