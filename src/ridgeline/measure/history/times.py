"""What is folded of a committed window at once: its times, its latencies, and the seconds of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import RunEvent, SparkTrigger
from ridgeline.measure.history.fold import HistoryFold
from ridgeline.measure.latency.fold import LatencyFold
from ridgeline.measure.latency.window import assemble, counts_of
from ridgeline.measure.topology import Topology

_KEPT = 4  # windows whose events stay until Spark's own account of them has come


class TimesFold:
    """A fold over the events of committed windows, in order. One thread at a time.

    `clocks`: the offsets of hosts. `behind`: by operator, the windows that it is behind at a time.
    """

    def __init__(self, clocks: ClockOffsets, behind: Callable[[float], Mapping[int, int]]) -> None:
        self.latency = LatencyFold()
        """Latencies, critical paths and blame; replaced by `Measurement` when a run begins."""
        self.history = HistoryFold()
        """Metrics over periods, and of the last hours."""
        self._clocks = clocks
        self._behind = behind
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

    def _fold(self, topology: Topology, window_seconds: float, events: Iterable[RunEvent]) -> Iterator[None]:
        """Fold a window, in steps as `add_in_steps`."""
        yield
        times = assemble(topology, events, self._clocks)
        yield
        behind = self._behind(times.published)
        self.latency.add(topology, times, window_seconds=window_seconds, behind=behind)
        yield
        self.history.add(times, self.latency.last, counts_of(topology, times), window_seconds)
