"""The times of windows: folded to latencies, and kept over periods if policies decide by them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.deciding.fold import DecidingFold
from ridgeline.measure.events import RunEvent, SparkTrigger
from ridgeline.measure.history.fold import HistoryFold
from ridgeline.measure.latency.fold import FoldedWindow, LatencyFold
from ridgeline.measure.latency.window import WindowTimes, assemble
from ridgeline.measure.topology import Topology

_KEPT = 4  # windows whose events stay until Spark's own account of them has come
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


class TimesFold:
    """A fold over the events of committed windows, in order. One thread at a time.

    `clocks`: the offsets of hosts. `behind`: by operator, the windows that it is behind at a time.
    """

    def __init__(self, clocks: ClockOffsets, behind: Callable[[float], Mapping[int, int]]) -> None:
        self.latency = LatencyFold()
        """Latencies, critical paths and blame; replaced by `Measurement` when a run begins."""
        self.history = HistoryFold()
        """The last hours."""
        self.deciding: DecidingFold | None = None
        """Metrics over periods; None until they are needed."""
        self._clocks = clocks
        self._behind = behind
        self._past = PastWindows()
        self._folded: dict[int, tuple[Topology, float, list[RunEvent]]] = {}

    def add_in_steps(
        self, window_id: int, topology: Topology, window_seconds: float, events: list[RunEvent]
    ) -> Iterator[None]:
        """Take a committed window in; yields where something else may be done for a moment."""
        yield from self._fold(topology, window_seconds, events)
        self._folded[window_id] = topology, window_seconds, events
        while len(self._folded) > _KEPT:
            del self._folded[next(iter(self._folded))]

    def add_trigger(self, event: SparkTrigger) -> bool:
        """Fold a window again: Spark's report of it comes after its commit. False for an unknown window."""
        folded = self._folded.get(event.window_id)
        if folded is None:
            return False
        topology, window_seconds, events = folded
        events.append(event)
        for _ in self._fold(topology, window_seconds, events):
            pass
        return True

    def keep_figures(self) -> None:
        """Keep metrics over periods from now on; they begin with the last windows."""
        if self.deciding is None:
            self.deciding = DecidingFold()
            for times, folded in self._past.take():
                self.deciding.add(times, folded)

    def _fold(self, topology: Topology, window_seconds: float, events: Iterable[RunEvent]) -> Iterator[None]:
        """Fold a window, in steps as `add_in_steps`."""
        yield
        yield from self._clocks.draw_in_steps()
        times = assemble(topology, events, self._clocks)
        yield
        behind = self._behind(times.published)
        yield
        yield from self.latency.add_in_steps(topology, times, window_seconds=window_seconds, behind=behind)
        yield
        self.history.add(times, self.latency.last, window_seconds)
        if self.deciding is None:
            self._past.add(times, self.latency.last)
        else:
            self.deciding.add(times, self.latency.last)
