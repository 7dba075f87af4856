"""The fold behind `ApplicationFigures`: the metrics of windows, by slices of a second, for 15 minutes.

A slice holds sums of all its windows, and of at most 64 of them the latencies one by one, for percentiles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.clocks import ClockOffsets
from ridgeline.measure.events import RunEvent, SparkTrigger
from ridgeline.measure.history.fold import HistoryFold
from ridgeline.measure.latency.critical_path import Held
from ridgeline.measure.latency.fold import FoldedWindow, LatencyFold
from ridgeline.measure.latency.operator_latency import SHOWN
from ridgeline.measure.latency.window import Count, WindowTimes, assemble, counts_of
from ridgeline.measure.topology import Topology

KEPT_SECONDS = 900.0
"""How long metrics are kept for policies and advice."""
_LATELY_SECONDS = 60.0
"""How long they are kept before anybody needs them for longer: they say who is to blame for a backlog."""
_SLICE_SECONDS = 1.0
_MOST_ROWS = 64
"""Of so many windows of a slice the latencies are kept one by one."""
_MOST_PENDING = 256
"""The most windows that wait until they are added up."""

Floats = npt.NDArray[np.float64]


class SliceColumn:
    """The columns of a slice's sums: the sums of each physical operator over its windows."""

    TUPLES_IN, TUPLES_OUT, QUEUE, ERRORS, LATE, WINDOWS, COMPUTE, TRANSFER, TURN, CPU, ON_PATH = range(11)
    COUNT = 11


_COUNTED = [Count.TUPLES_IN, Count.TUPLES_OUT, Count.QUEUE, Count.ERRORS, Count.LATE, Count.REPORTED]
_TIMED = [1, 3, 4, 5]
"""The rows of counts and of figures that the columns before `ON_PATH` are sums of."""


class _Window(NamedTuple):
    """A committed window. `figures`: as in `LatencyColumns`; `counts`: as `counts_of`."""

    latency: float
    late: float
    figures: Floats
    counts: Floats
    path: tuple[int, ...]
    phases: Sequence[tuple[str, float]]
    held: Sequence[Held]


@dataclass(slots=True)
class Slice:
    """The windows of one plan that were committed between `begin` and `end` (STRAM's wall clock).

    `sums`: physical operators by columns. `state_bytes`: the bytes that each one's last window changed.
    `rows`: by logical operator, windows by latency, compute, wait, transfer, cpu; `greatest` of all windows.
    `whole`: windows by latency and lateness. `blame`: seconds in sum. `count`: windows. `held`: seconds in
    sum for which results of an output waited for an operator, by both names.
    """

    topology: Topology
    begin: float
    end: float
    sums: Floats
    state_bytes: Floats
    rows: dict[str, Floats] = field(default_factory=dict)
    greatest: dict[str, Floats] = field(default_factory=dict)
    whole: Floats = field(default_factory=lambda: np.empty((0, 2)))
    blame: dict[str, float] = field(default_factory=dict)
    count: int = 0
    held: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, windows: Sequence[_Window]) -> None:
        """Add windows up."""
        figures = np.array([window.figures for window in windows])  # windows, rows, operators
        counts = np.array([window.counts for window in windows])
        self.sums[:, : SliceColumn.COMPUTE] += counts[:, _COUNTED].sum(axis=0).T
        self.sums[:, SliceColumn.COMPUTE : SliceColumn.ON_PATH] += np.nansum(figures[:, _TIMED], axis=0).T
        places = self.topology.places
        for window in windows:
            for operator in window.path:
                self.sums[places[operator], SliceColumn.ON_PATH] += 1
            for phase, seconds in window.phases:
                self.blame[phase] = self.blame.get(phase, 0.0) + seconds
            for output, by, seconds in window.held:
                self.held[output, by] = self.held.get((output, by), 0.0) + seconds
        logical = self.topology.logical
        found = np.moveaxis(logical.latencies(figures[:, SHOWN]), -1, 0)
        for name, every in zip(logical.names, found, strict=True):
            rows = every[~np.isnan(every[:, 0])]  # without windows in which none has reported
            known = self.rows.get(name)
            self.rows[name] = _thinned(rows if known is None else np.concatenate([known, rows]))
            greatest = np.nan_to_num(rows).max(axis=0, initial=0.0)
            self.greatest[name] = np.maximum(greatest, self.greatest.get(name, greatest))
        whole = np.array([(window.latency, window.late) for window in windows])
        self.whole = _thinned(np.concatenate([self.whole, whole]))
        self.count += len(windows)


class DecidingFold:
    """Takes committed windows in, in order; `slices` answers for a period. One thread at a time."""

    def __init__(self) -> None:
        self.kept_seconds = _LATELY_SECONDS
        self._slices: deque[Slice] = deque()
        self._pending: list[_Window] = []
        self._last: tuple[int, float] | None = None
        """The last window, and when it was committed."""

    def add(self, times: WindowTimes, folded: FoldedWindow, counts: Floats) -> None:
        """Take a window in, with what it was found to be; one that came before changes nothing.

        `counts`: as `counts_of`.
        """
        topology, figures, path, phases, held = folded
        if self._last is not None and times.window_id <= self._last[0]:
            return
        now = times.committed
        before = self._last[1] if self._last is not None else times.began
        self._last = times.window_id, now
        present = self._slices[-1] if self._slices else None
        if present is None or present.topology is not topology or now - present.begin >= _SLICE_SECONDS:
            self._add_up()
            size = len(topology.operators)
            sums, state = np.zeros((size, SliceColumn.COUNT)), np.zeros(size)
            present = Slice(topology, min(before, now), now, sums, state)
            self._slices.append(present)
            while self._slices[0].end < now - self.kept_seconds:
                self._slices.popleft()
        present.end = max(present.end, now)
        present.state_bytes = np.where(counts[Count.REPORTED] > 0, counts[Count.STATE], present.state_bytes)
        window = _Window(times.latency_seconds, times.late_seconds, figures, counts, path, phases, held)
        self._pending.append(window)
        if len(self._pending) >= _MOST_PENDING:
            self._add_up()

    def _add_up(self) -> None:
        if self._pending:
            self._slices[-1].add(self._pending)
            self._pending = []

    @property
    def last(self) -> int | None:
        """The last window that was taken in."""
        return None if self._last is None else self._last[0]

    def slices(self) -> tuple[Slice, ...]:
        """All slices, the oldest first. None of them is changed any more."""
        self._add_up()
        if not self._slices:
            return ()
        present = self._slices[-1]
        copied = Slice(
            present.topology,
            present.begin,
            present.end,
            present.sums.copy(),
            present.state_bytes.copy(),
            dict(present.rows),
            dict(present.greatest),
            present.whole,
            dict(present.blame),
            present.count,
            dict(present.held),
        )
        return (*list(self._slices)[:-1], copied)


def _thinned(rows: Floats) -> Floats:
    """Not more rows than are kept: those that are evenly apart."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(np.intp)]


_KEPT = 4  # windows whose events stay until Spark's own account of them has come


class TimesFold:
    """A fold over the events of committed windows, in order. One thread at a time.

    `clocks`: the offsets of hosts. `behind`: by operator, the windows that it is behind at a time.
    """

    def __init__(self, clocks: ClockOffsets, behind: Callable[[float], Mapping[int, int]]) -> None:
        self.latency = LatencyFold()
        """Latencies, critical paths and blame; replaced by `Measurement` when a run begins."""
        self.history = HistoryFold()
        """The last hours."""
        self.deciding = DecidingFold()
        """Metrics over periods."""
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
        counts = counts_of(topology, times)
        self.history.add(times, self.latency.last, counts, window_seconds)
        self.deciding.add(times, self.latency.last, counts)
