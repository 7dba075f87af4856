"""A run in sum: windows, tuples and time by operator, errors, how much of the work is done."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ridgeline.measure.answers.application import (
    ErrorTupleAnswer,
    LastWindowAnswer,
    OperatorTotalsAnswer,
    RunAnswer,
    RunSummaryAnswer,
)
from ridgeline.measure.events import SourceProgress, WindowCommitted, WindowReported
from ridgeline.measure.latency.window import Windows
from ridgeline.measure.run_counts import RunCounts
from ridgeline.measure.topology import Topology

_WINDOWS_KEPT = 100_000
_ERRORS_KEPT = 10
_DROPS_KEPT = 5


class RunTotals:
    """A fold over the committed windows of a run; `Measurement` feeds it. One thread at a time.

    Rows outlive a change of the plan: an operator that the new plan has not keeps its totals.
    """

    def __init__(self) -> None:
        self.windows = 0
        self.retries = 0
        self.tasks_retried = 0
        self.started: float | None = None
        """When the first window was planned."""
        self._last: LastWindowAnswer | None = None
        self._committed = 0.0
        self._first_seconds = 0.0
        self._seconds: deque[float] = deque(maxlen=_WINDOWS_KEPT)
        """Seconds of windows, without the first one, which waits for workers to start."""
        self._rows: dict[str, OperatorTotalsAnswer] = {}
        self._error_tuples: deque[ErrorTupleAnswer] = deque(maxlen=_ERRORS_KEPT)
        self._drops: deque[str] = deque(maxlen=_DROPS_KEPT)
        self._topology = Topology((), ())
        self._inputs: set[int] = set()
        self._title_of: dict[int, str] = {}
        self._work: dict[int, tuple[float, float | None]] = {}
        """By input operator, what it has consumed and what remains."""
        self._first_fraction: tuple[float, float] | None = None

    # Events in ----------------------------------------------------------------------------------------------

    def planned(self, topology: Topology) -> None:
        """Replace the plan."""
        self._topology, self._inputs = topology, set(topology.inputs)
        for row in self._rows.values():
            row["partitions"] = 0
        self._title_of = {node.id: node.label for node in topology.operators}
        for title in self._title_of.values():
            self._rows.setdefault(title, _empty(title))["partitions"] += 1
        before = self._rows
        order = dict.fromkeys((*self._title_of.values(), *before))
        self._rows = {
            title: before[title] for title in order if before[title]["partitions"] or before[title]["windows"]
        }
        self._work = {operator: work for operator, work in self._work.items() if operator in self._inputs}
        self._first_fraction = None

    def source(self, event: SourceProgress) -> None:
        """Take in how far an input operator's partition is; what a whole Spark source reports is no end."""
        if not event.whole and event.consumed is not None and event.operator in self._inputs:
            self._work[event.operator] = (event.consumed, event.remaining)

    def note(self, event: WindowReported) -> None:
        """Take in which operators have refused tuples or their window, or have finished."""
        for operator, texts in event.error_tuples.items():
            title = self._title_of[operator]
            self._error_tuples += [
                {"operator": title, "windowId": event.window_id, "text": text} for text in texts
            ]
        self._drops += event.dropped.values()
        for title in {self._title_of[operator] for operator in event.dropped}:
            self._rows[title]["windowsDropped"] += 1
        for operator in event.operators["operator"][event.operators["finished"]].tolist():
            if operator in self._work:
                self._work[operator] = (self._work[operator][0], 0.0)

    def window_committed(self, event: WindowCommitted) -> None:
        """Take in a window, once `source` has had its inputs' progress and `note` its operators'."""
        self.windows += 1
        self.tasks_retried += event.tasks_retried
        seconds = event.committed - event.began
        if self.windows == 1:
            self._first_seconds = seconds
        else:
            self._seconds.append(seconds)
        if self.started is None:
            self.started = event.began
        self._committed = event.committed + event.held_seconds
        if self._first_fraction is None and (fraction := self._fraction()) is not None:
            self._first_fraction = (self._committed, fraction)

    def add(self, windows: Windows) -> None:
        """Add what the operators of windows did, which are committed, to their rows."""
        commit, (entered, left) = windows.times[-1].commit, windows.tuples()[-1]
        self._last = {
            "windowId": commit.window_id,
            "tuplesIn": entered,
            "tuplesOut": left,
            "seconds": commit.committed - commit.began,
        }
        labels = self._topology.labels
        tuples_in, tuples_out, errors, late, *_ = labels.sums(windows.counts.sum(axis=0))
        seconds = labels.reduced(np.maximum, np.nan_to_num(windows.compute)).sum(axis=0)
        for place, title in enumerate(labels.names):
            row = self._rows[title]
            row["windows"] += len(windows)
            row["tuplesIn"] += int(tuples_in[place])
            row["tuplesOut"] += int(tuples_out[place])
            row["seconds"] += float(seconds[place])
            row["errors"] += int(errors[place])
            row["lateRecords"] += int(late[place])

    # Answers out --------------------------------------------------------------------------------------------

    def run(self) -> RunAnswer:
        """How far the run is, as of its last window."""
        fraction = self._fraction()
        return {
            "windows": self.windows,
            "last": self._last,
            "committedAt": self._committed if self.windows else None,
            "fractionDone": fraction,
            "remainingSeconds": self._remaining_seconds(fraction),
        }

    def operators(self) -> Mapping[str, OperatorTotalsAnswer]:
        """The rows of operators and unifiers, by title without a number; those that are gone come last."""
        return self._rows

    def summary(self, others: RunCounts) -> RunSummaryAnswer:
        """The summary of a run at its end. `others`: counts from elsewhere. Sorts the windows' times."""
        ordered = sorted(self._seconds)
        return {
            **self.run(),
            "retries": self.retries,
            "tasksRetried": self.tasks_retried,
            "slotsLost": others.slots["lost"],
            "startedAt": self.started,
            "firstSeconds": self._first_seconds if self.windows else None,
            "medianSeconds": statistics.median(ordered) if ordered else None,
            "p90Seconds": ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))] if ordered else None,
            "operators": [row.copy() for row in self._rows.values()],
            "errorTuples": list(self._error_tuples),
            "promises": others.promises.rows(self._committed),
            "drops": list(self._drops),
        }

    def _fraction(self) -> float | None:
        """How much of its work the slowest input has done; None unless all inputs know what remains."""
        found: dict[str, tuple[float, float]] = {}
        for operator in self._topology.inputs:
            consumed, remaining = self._work.get(operator, (0.0, None))
            if remaining is None or remaining < 0:
                return None
            name = self._topology.by_id[operator].name
            done, left = found.get(name, (0.0, 0.0))
            found[name] = (done + consumed, left + remaining)
        parts = (done / (done + left) if done + left > 0 else 1.0 for done, left in found.values())
        return min(parts, default=None)

    def _remaining_seconds(self, fraction: float | None) -> float | None:
        """How long the inputs still take at the pace since the first window; None if unknown."""
        if fraction is None or self._first_fraction is None:
            return None
        since, first = self._first_fraction
        gained = fraction - first
        return (self._committed - since) * (1 - fraction) / gained if gained > 0 else None


def _empty(title: str) -> OperatorTotalsAnswer:
    """The row of an operator or unifiers that have done nothing yet."""
    counts: Any = dict.fromkeys(OperatorTotalsAnswer.__annotations__, 0)
    return cast("OperatorTotalsAnswer", {**counts, "operator": title, "seconds": 0.0})
