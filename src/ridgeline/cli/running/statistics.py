"""What the command counts of a run: a fold over its events. No I/O, no clock of its own."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ridgeline.measure.events import (
    ApplicationPlanned,
    OperatorWindow,
    RunEvent,
    SourceProgress,
    WindowCommitted,
    WindowPlanned,
    WindowRetried,
)
from ridgeline.measure.topology import Topology

_WINDOWS_KEPT = 100_000
_ERRORS_SHOWN = 10
_DROPS_SHOWN = 5
_NUMBER = re.compile(r"\[\d+\]$")


@dataclass(slots=True)
class OperatorTotals:
    """One row: a logical operator, or its unifiers.

    Tuples are summed over partitions, seconds are those of the slowest partition.
    """

    title: str
    partitions: int = 0
    tuples_in: int = 0
    tuples_out: int = 0
    seconds: float = 0.0
    errors: int = 0
    windows: int = 0
    windows_dropped: int = 0

    def add(self, reports: Sequence[OperatorWindow]) -> None:
        """Take in what its partitions did in one window."""
        self.windows += 1
        self.tuples_in += sum(sum(report.tuples_in.values()) for report in reports)
        self.tuples_out += sum(sum(report.tuples_out.values()) for report in reports)
        self.seconds += max((report.compute_seconds for report in reports), default=0.0)
        self.errors += sum(report.errors for report in reports)
        self.windows_dropped += any(report.dropped for report in reports)


@dataclass(frozen=True, slots=True)
class Window:
    """What is told of one window: `tuples_in` by input operators, `tuples_out` into operators without outputs, `seconds` to its commit."""

    window_id: int
    tuples_in: int
    tuples_out: int
    seconds: float


class RunStatistics:
    """Totals of a run, while it goes on and at its end.

    `apply` is called by the thread of the windows, the rest by any.

    Begins with the topology, or with the `ApplicationPlanned` that brings it. Times are those of the events:
    STRAM's wall clock.
    """

    def __init__(self, topology: Topology | None = None) -> None:
        self.lock = threading.RLock()
        self.rows: dict[str, OperatorTotals] = {}
        self.windows = 0
        self.retries = 0
        self.tasks_retried = 0
        self.last: Window | None = None
        self.started: float | None = None
        self.committed = 0.0
        """When the last window was."""
        self.first_seconds = 0.0
        self.seconds: deque[float] = deque(maxlen=_WINDOWS_KEPT)
        """What windows took, but for the first one."""
        self.error_tuples: deque[tuple[str, int, str]] = deque(maxlen=_ERRORS_SHOWN)
        self.drops: deque[str] = deque(maxlen=_DROPS_SHOWN)
        self.topology = Topology((), ())
        self._row_of: dict[int, OperatorTotals] = {}
        self._operators: list[OperatorWindow] = []
        self._progress: dict[int, tuple[float, float | None]] = {}
        self._first_fraction: tuple[float, float] | None = None
        if topology is not None:
            self._planned(topology)

    def apply(self, event: RunEvent) -> None:
        """Take in an event."""
        with self.lock:
            match event:
                case ApplicationPlanned():
                    self._planned(event.topology)
                case WindowPlanned() if self.started is None:
                    self.started = event.at
                case OperatorWindow() if event.operator in self._row_of:
                    self._operators.append(event)
                case SourceProgress(whole=False) if event.consumed is not None:
                    self._progress[event.operator] = (event.consumed, event.remaining)
                case WindowRetried(final=False):
                    self.retries += 1
                case WindowCommitted():
                    self._window(event)
                case _:
                    pass

    def _planned(self, topology: Topology) -> None:
        if topology == self.topology:
            return
        self.topology = topology
        for row in self.rows.values():
            row.partitions = 0
        for node in topology.operators:
            title = _NUMBER.sub("", node.title)
            row = self.rows.setdefault(title, OperatorTotals(title))
            row.partitions += 1
            self._row_of[node.id] = row

    def _window(self, event: WindowCommitted) -> None:
        self.tasks_retried += event.tasks_retried
        by_row: dict[str, list[OperatorWindow]] = {title: [] for title in self.rows}
        tuples_in = tuples_out = 0
        for operator in self._operators:
            by_row[self._row_of[operator.operator].title].append(operator)
            tuples_in += sum(operator.tuples_out.values()) if operator.operator in self.topology.inputs else 0
            tuples_out += sum(operator.tuples_in.values()) if operator.operator in self.topology.leaves else 0
            self._note(operator)
        self._operators.clear()
        for title, row in self.rows.items():
            row.add(by_row[title])
        seconds = event.committed - event.began
        self.last = Window(event.window_id, tuples_in, tuples_out, seconds)
        self.windows += 1
        if self.windows == 1:
            self.first_seconds = seconds
        else:  # the first one waits for workers to start: it is told apart
            self.seconds.append(seconds)
        if self.started is None:
            self.started = event.began
        self.committed = event.committed
        if self._first_fraction is None and self.fraction is not None:
            self._first_fraction = (self.committed, self.fraction)

    def _note(self, operator: OperatorWindow) -> None:
        title = self._row_of[operator.operator].title
        self.error_tuples.extend((title, operator.window_id, text) for text in operator.error_tuples)
        if operator.dropped:
            self.drops.append(operator.dropped)
        if operator.finished and operator.operator in self._progress:
            self._progress[operator.operator] = (self._progress[operator.operator][0], 0.0)

    @property
    def fraction(self) -> float | None:
        """How much of its work the input that is farthest behind has done; None unless all inputs know what remains."""
        found: dict[str, tuple[float, float]] = {}
        for operator in self.topology.inputs:
            progress = self._progress.get(operator)
            if progress is None or progress[1] is None or progress[1] < 0:
                return None
            name = self.topology.by_id[operator].name
            done, remaining = found.get(name, (0.0, 0.0))
            found[name] = (done + progress[0], remaining + progress[1])
        return min(
            (
                done / (done + remaining) if done + remaining > 0 else 1.0
                for done, remaining in found.values()
            ),
            default=None,
        )

    @property
    def remaining_seconds(self) -> float | None:
        """When the inputs will be at their end if it goes on like this; None if nobody can say."""
        fraction = self.fraction
        if fraction is None or self._first_fraction is None:
            return None
        since, first = self._first_fraction
        gained = fraction - first
        return (self.committed - since) * (1 - fraction) / gained if gained > 0 else None
