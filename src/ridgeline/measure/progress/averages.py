"""Averages of operators over their last windows, of all operators at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeline.measure.events import Counts, OperatorWindow
from ridgeline.measure.progress.columns import Histories
from ridgeline.measure.progress.estimated import ESTIMATED, Estimates, Numbers, chosen
from ridgeline.measure.progress.shape import ProgressShape

_WINDOWS = 10  # that averages reach back


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
            self.mean += (consumed - self.before - self.mean) / min(self.windows, _WINDOWS)
        self.before = consumed


_Ended = tuple[float, float, Counts, Counts]
"""What is kept of an operator's window: seconds, of these in `end_window`, tuples in and out."""


class Averages:
    """The last windows of all operators by id; averages are made when they are asked for.

    The only element of an input operator is the window. One thread at a time.
    """

    def __init__(self) -> None:
        self._windows: deque[tuple[int, dict[int, _Ended]]] = deque(maxlen=_WINDOWS)
        self._work: dict[int, _Work] = {}
        self._asked: tuple[ProgressShape, int, Histories, Estimates] | None = None
        """The averages that were asked for last, of a plan with so many output ports."""

    def add(self, events: Sequence[OperatorWindow]) -> None:
        """The events of operators in a window, of all or of some of them."""
        self._asked = None
        window = events[0].window_id
        if not self._windows or self._windows[-1][0] != window:
            self._windows.append((window, {}))
        self._windows[-1][1].update(
            (one.operator, (one.compute_seconds, one.end_seconds, one.tuples_in, one.tuples_out))
            for one in events
        )

    def add_work(self, operator: int, consumed: float) -> None:
        """The cumulative work of an input operator at the end of a window."""
        self._asked = None
        self._work.setdefault(operator, _Work()).add(consumed)

    def columns(self, shape: ProgressShape) -> tuple[Histories, Estimates]:
        """The histories of all operators of a plan, and the shares of its streams."""
        asked = self._asked
        if asked is None or asked[0] is not shape or asked[1] != len(shape.owners):
            asked = self._asked = shape, len(shape.owners), *self._averages(shape)
        return asked[2], asked[3]

    def _averages(self, shape: ProgressShape) -> tuple[Histories, Estimates]:
        """The means of the windows that are kept, by operator and by port; NaN where there is none."""
        nodes = shape.topology.operators
        sent, came = np.full(len(shape.owners), np.nan), np.full(len(shape.readers), np.nan)
        found = np.full((5, len(nodes)), np.nan)
        for place, node in enumerate(nodes):
            work = self._work.get(node.id)
            if work is not None:
                found[3:, place] = (work.mean if work.windows else np.nan), work.before
            windows = [own for _, ended in self._windows if (own := ended.get(node.id)) is not None]
            if not windows:
                continue
            seconds, end_seconds, tuples_in, tuples_out = zip(*windows, strict=True)
            entered = _add_means(came, shape.readers, node.id, tuples_in)
            _add_means(sent, shape.ports, node.id, tuples_out)
            elements = 1.0 if node.kind == "input" else entered
            found[:3, place] = sum(seconds) / len(windows), sum(end_seconds) / len(windows), elements
        seconds_of, end_of, elements_of, *work_of = found
        with np.errstate(invalid="ignore", divide="ignore"):
            each = np.where(elements_of > 0, (seconds_of - end_of) / elements_of, np.nan)
            of_ports = elements_of[np.array(shape.owners, np.intp)]
            outputs = np.where(of_ports > 0, sent / of_ports, np.nan)
        return Histories(each, outputs, elements_of, seconds_of, end_of, *work_of), _shares(shape, came, sent)


def _add_means(
    means: Numbers, places: Mapping[tuple[int, str], int], operator: int, windows: Sequence[Counts]
) -> float:
    """Note the mean tuples of an operator's ports in these windows, and return those of all its ports."""
    tuples: dict[str, float] = {}
    for counts in windows:
        for port, count in counts.items():
            tuples[port] = tuples.get(port, 0.0) + count / len(windows)
    for port, mean in tuples.items():
        place = places.get((operator, port))
        if place is not None:
            means[place] = mean
    return sum(tuples.values())


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
