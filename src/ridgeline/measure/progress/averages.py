"""Averages of operators over their last windows, of all operators at once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ridgeline.measure.events import WindowReported
from ridgeline.measure.progress.columns import Histories
from ridgeline.measure.progress.estimated import ESTIMATED, Estimates, Numbers, chosen
from ridgeline.measure.progress.shape import ProgressShape

AVERAGE_WINDOWS = 10
"""Windows that moving averages are over, as Apex's."""


class Lately(NamedTuple):
    """Moving averages of a plan's operators, over the last windows in which each was; NaN for none.

    `places`: of the operators. `windows`: of each. `waited`, `came`: tuples that waited when its turn came in
    one of them, and in all at an input port. `percent`: of a processor.
    """

    places: Mapping[int, int]
    windows: Numbers
    waited: Numbers
    came: Mapping[tuple[int, str], int]
    percent: Numbers

    def queue(self, operator: int, port: str | None = None) -> float | None:
        """Tuples that waited when its turn came, at an input port or at all, on average."""
        place = self.places[operator]
        if port is None or not self.windows[place]:
            return _known(self.waited[place])
        return self.came.get((operator, port), 0) / float(self.windows[place])

    def cpu_percentage(self, operator: int) -> float | None:
        """Processor time per wall time over the last windows, in percent; None before the second window."""
        return _known(self.percent[self.places[operator]])


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


@dataclass(slots=True)
class _Work:
    """The work of an input operator, in the unit of its `progress()`."""

    windows: int = 0
    mean: float = 0.0
    before: float | None = None

    def add(self, consumed: float) -> None:
        """The cumulative work at the end of a window; if it falls, the source has restarted."""
        if self.before is not None and consumed >= self.before:
            self.windows += 1
            self.mean += (consumed - self.before - self.mean) / min(self.windows, AVERAGE_WINDOWS)
        self.before = consumed


class Averages:
    """The last windows of all operators by id; averages are made when they are asked for.

    The only element of an input operator is the window. One thread at a time.
    """

    def __init__(self) -> None:
        self._windows: deque[WindowReported] = deque(maxlen=AVERAGE_WINDOWS + 1)
        self._work: dict[int, _Work] = {}
        self._asked: tuple[ProgressShape, int, Histories, Estimates, Lately] | None = None
        """The averages that were asked for last, of a plan with so many output ports."""

    def add(self, event: WindowReported) -> None:
        """A window; what operators did that have dropped it does not count."""
        self._asked = None
        self._windows.append(event)

    def add_work(self, operator: int, consumed: float) -> None:
        """The cumulative work of an input operator at the end of a window."""
        self._asked = None
        self._work.setdefault(operator, _Work()).add(consumed)

    def columns(self, shape: ProgressShape) -> tuple[Histories, Estimates, Lately]:
        """The histories of all operators of a plan, the shares of its streams, and moving averages."""
        asked = self._asked
        if asked is None or asked[0] is not shape or asked[1] != len(shape.owners):
            asked = self._asked = shape, len(shape.owners), *self._averages(shape)
        return asked[2:]

    def _averages(self, shape: ProgressShape) -> tuple[Histories, Estimates, Lately]:
        """The means of the windows that are kept, by operator and by port; NaN where there is none."""
        nodes, ids = shape.topology.operators, shape.topology.ids
        there, waited, spent = np.zeros((3, len(nodes)))
        began, ended = np.full((2, len(nodes)), np.nan)
        windows, seconds, end, entered = np.zeros((4, len(nodes)))
        came, sent = np.full(len(shape.readers), np.nan), np.full(len(shape.ports), np.nan)
        ports = {"input": (shape.readers, came), "output": (shape.ports, sent)}
        came_to = Counter[tuple[int, str]]()
        for number, event in enumerate(self._windows, AVERAGE_WINDOWS - len(self._windows)):
            own, places = event.operators, ids.places(event.operators["operator"])
            own, places = own[places >= 0], places[places >= 0]
            cpu = np.where(np.isnan(own["cpu_seconds"]), own["compute_seconds"], own["cpu_seconds"])
            begins = np.isnan(began[places])  # the time of its first window was before its report
            spent[places] += np.where(begins, 0.0, cpu)
            began[places[begins]], ended[places] = event.at, event.at
            if number < 0:  # one more, for the time between them
                continue
            there[places] += 1
            waited[places] += own["tuples_in"]
            counts = ~np.isin(own["operator"], list(event.dropped))
            own, places = own[counts], places[counts]
            windows[places] += 1
            for sums, name in ((seconds, "compute_seconds"), (end, "end_seconds"), (entered, "tuples_in")):
                sums[places] += own[name]
            for (operator, kind, name), count in zip(event.ports, event.tuples, strict=True):
                if kind == "input":
                    came_to[operator, name] += count
                numbers, tuples = ports[kind]
                place = numbers.get((operator, name))
                if place is not None and operator not in event.dropped:
                    tuples[place] = np.nan_to_num(tuples[place]) + count
        found = np.full((5, len(nodes)), np.nan)
        for place, node in enumerate(nodes):
            work = self._work.get(node.id)
            if work is not None:
                found[3:, place] = (work.mean if work.windows else np.nan), work.before
        with np.errstate(invalid="ignore", divide="ignore"):
            elements = np.where(shape.inputs, windows, entered)
            found[:3] = np.array([seconds, end, elements]) / windows
            seconds_of, end_of, elements_of, *work_of = found
            each = np.where(elements_of > 0, (seconds_of - end_of) / elements_of, np.nan)
            owners = np.array(shape.owners, np.intp)
            of_ports, of_sent = elements_of[owners], sent / windows[owners]
            outputs = np.where(of_ports > 0, of_sent / of_ports, np.nan)
            of_came = came / windows[shape.operator_of]
            percent = np.where(ended > began, 100 * spent / (ended - began), np.nan)
            lately = Lately(shape.topology.places, there, waited / there, came_to, percent)
        histories = Histories(each, outputs, elements_of, seconds_of, end_of, *work_of)
        return histories, _shares(shape, of_came, of_sent), lately


def _shares(shape: ProgressShape, came: Numbers, sent: Numbers) -> Estimates:
    """The shares of a plan's streams as in earlier windows, even ones where these say nothing.

    `came`, `sent`: tuples of a window by input port and by output port, NaN for those that had none yet.
    """
    divided = ~shape.exact
    whole = np.bincount(shape.reader_of[divided], sent[shape.sources[divided]], minlength=len(came))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(whole > 0, np.minimum(1.0, came / whole), np.nan)[shape.reader_of]
    learned = Estimates(share, np.full(len(share), ESTIMATED, np.int8))
    return chosen(divided & ~np.isnan(share), learned, shape.even)
