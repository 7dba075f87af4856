"""What is folded of a committed window at once: its times, its latencies, and the seconds of the history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import AgeSample, RunEvent, SparkTrigger
from ridgeline.measure.history.fold import HistoryFold
from ridgeline.measure.latency.fold import LatencyFold
from ridgeline.measure.latency.operator_latency import LatencyColumns
from ridgeline.measure.latency.window import WindowTimes, assemble, counts_of
from ridgeline.measure.topology import Topology

_KEPT = 4  # windows whose events stay until Spark's own account of them has come
_MOST_TOGETHER = 16
"""Of so many windows of a small application the latencies are found at once: it takes as long as of one."""
_TOGETHER_SECONDS = 0.1
"""No later than this after the first of them."""
_ENOUGH_OPERATORS = 256
"""So many operators make the arrays of a window large enough."""


class _Waiting(NamedTuple):
    """A window that is to be folded, and ages that came after it: operator, sample, seconds to add."""

    times: WindowTimes
    behind: Mapping[int, int]
    ages: list[tuple[str, AgeSample, float]]


class TimesFold:
    """A fold over the events of committed windows, in order. One thread at a time.

    Windows wait until there are several, or until something is asked: `latency` and `history` are as of all
    of them.

    `clocks`: the offsets of hosts. `behind`: by operator, the windows that it is behind at a time.
    """

    def __init__(self, clocks: ClockOffsets, behind: Callable[[float], Mapping[int, int]]) -> None:
        self._latency, self._history = LatencyFold(), HistoryFold()
        self._clocks = clocks
        self._behind = behind
        self._waiting: list[_Waiting] = []
        """Windows whose latencies are not known yet."""
        self._measured: deque[tuple[_Waiting, LatencyColumns]] = deque()
        """Those before them, which are folded one by one: all at once they would take some milliseconds."""
        self._plan: tuple[Topology, float] | None = None
        """The plan of these windows, and their width in seconds."""
        self._folded: dict[int, tuple[Topology, float, list[RunEvent]]] = {}

    @property
    def latency(self) -> LatencyFold:
        """Latencies, critical paths and blame."""
        self._fold_all()
        return self._latency

    @property
    def history(self) -> HistoryFold:
        """Metrics over periods, and of the last hours."""
        self._fold_all()
        return self._history

    def begin(self, latency: LatencyFold) -> None:
        """Begin anew with this fold and an empty history: a run begins."""
        self._fold_all()
        self._latency, self._history = latency, HistoryFold()

    def add_in_steps(
        self, window_id: int, topology: Topology, window_seconds: float, events: list[RunEvent]
    ) -> Iterator[None]:
        """Take a committed window in; yields where something else may be done for a moment."""
        yield
        times = assemble(topology, events, self._clocks)
        yield
        if self._plan != (topology, window_seconds):
            self._fold_all()
            self._plan = topology, window_seconds
        self._waiting.append(_Waiting(times, self._behind(times.commit.published), []))
        together = min(_MOST_TOGETHER, _ENOUGH_OPERATORS // max(1, len(topology.operators)))
        late = times.commit.committed - self._waiting[0].times.commit.committed >= _TOGETHER_SECONDS
        if len(self._waiting) >= together or late:
            self._measure()
            yield
        if self._measured:
            self._fold_next()
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
        times = assemble(topology, events, self._clocks)
        behind = self._behind(times.commit.published)
        kept = self.latency.add(topology, times, window_seconds=window_seconds, behind=behind)
        self._history.add(kept, counts_of(kept.topology, times), window_seconds)
        return True

    def age(self, operator: str, sample: AgeSample, shift: float) -> None:
        """Take ages of an operator in, as `HistoryFold.age`: they belong to the step of the last window."""
        last = self._waiting[-1] if self._waiting else self._measured[-1][0] if self._measured else None
        if last is None:
            self._history.age(operator, sample, shift)
        else:
            last.ages.append((operator, sample, shift))

    def _measure(self) -> None:
        """Find the latencies of the windows that wait."""
        waiting, self._waiting = self._waiting, []
        if waiting and self._plan is not None:
            topology, window_seconds = self._latency.planned(self._plan[0]), self._plan[1]
            windows, behind, _ = zip(*waiting, strict=True)
            found = self._latency.latencies(topology, windows, behind, window_seconds)
            self._measured += zip(waiting, found, strict=True)

    def _fold_next(self) -> None:
        """Fold the oldest window whose latencies are known."""
        (times, _, ages), latencies = self._measured.popleft()
        counts = counts_of(latencies.topology, times)
        kept = self._latency.add_measured(times, latencies, counts)
        self._history.add(kept, counts, self._plan[1] if self._plan else 0.0)
        for age in ages:
            self._history.age(*age)

    def _fold_all(self) -> None:
        self._measure()
        while self._measured:
            self._fold_next()
