"""The last windows as they were folded: who begins to ask for figures has these at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ridgeline.measure.latency.fold import FoldedWindow
from ridgeline.measure.latency.window import WindowTimes

_MOST_WINDOWS = 256
_MOST_REPORTS = 16_384
"""Reports of operators that are kept: large applications have fewer windows."""


class PastWindows:
    """The last windows, as many as there is room for. One thread at a time."""

    def __init__(self) -> None:
        self._windows: deque[tuple[WindowTimes, FoldedWindow]] = deque()
        self._reports = 0

    def add(self, times: WindowTimes, folded: FoldedWindow) -> None:
        """Append a window; if it is the last one again, in its place."""
        if self._windows and times.window_id <= self._windows[-1][0].window_id:
            if times.window_id < self._windows[-1][0].window_id:
                return
            self._reports -= len(self._windows.pop()[0].operators)
        self._windows.append((times, folded))
        self._reports += len(times.operators)
        while len(self._windows) > 1 and (
            len(self._windows) > _MOST_WINDOWS or self._reports > _MOST_REPORTS
        ):
            self._reports -= len(self._windows.popleft()[0].operators)

    def take(self) -> Iterator[tuple[WindowTimes, FoldedWindow]]:
        """All windows, the oldest first; they are kept no longer."""
        while self._windows:
            yield self._windows.popleft()
        self._reports = 0
