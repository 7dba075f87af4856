"""Moving averages of operators' windows, of the last ten, weighed exponentially: of all operators at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import OperatorWindow
from ridgeline.measure.progress.columns import Histories
from ridgeline.measure.progress.counts import Ports
from ridgeline.measure.progress.estimated import ESTIMATED, Estimates, Numbers, Places, chosen
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


class Averages:
    """The averages of all operators that have reported, by id. One thread at a time.

    The only element of an input operator is the window.
    """

    def __init__(self) -> None:
        self._inputs: frozenset[int] = frozenset()
        self._rows: dict[int, int] = {}
        self._ports = Ports()
        self._means = np.zeros((4, 0))
        """Rows: windows, seconds, end seconds, elements; columns: operators."""
        self._tuples = np.zeros(0)
        """Tuples of a window, by port."""
        self._columns: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._owners: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._reading: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._last: list[int] = []
        self._work: dict[int, _Work] = {}
        self._places: _Places | None = None

    def planned(self, inputs: Collection[int]) -> None:
        """The plan is made or has changed: the ids of its inputs."""
        self._inputs = frozenset(inputs)
        self._last, self._places = [], None

    def forget(self, operators: Collection[int]) -> None:
        """Drop all that is known of operators: a new plan has them no more."""
        self._last, self._places = [], None
        rows = {operator: row for operator, row in self._rows.items() if operator not in operators}
        self._means = self._means[:, list(rows.values())]
        self._rows = {operator: row for row, operator in enumerate(rows)}
        self._tuples = self._tuples[self._ports.forget(operators)]
        self._work = {operator: work for operator, work in self._work.items() if operator not in operators}

    def add(self, events: Sequence[OperatorWindow]) -> None:
        """One window: the events of operators, each once."""
        operators = [event.operator for event in events]
        numbers, counts, entering = self._ports.window(
            operators, [event.tuples_in for event in events], [event.tuples_out for event in events]
        )
        if operators != self._last or len(self._tuples) < len(self._ports):
            self._adopt(operators)
        columns = self._columns
        elements = np.bincount(
            self._owners[numbers[:entering]], counts[:entering], minlength=self._means.shape[1]
        )[columns]
        found = np.array(
            [
                [event.compute_seconds for event in events],
                [event.end_seconds for event in events],
                np.where(self._reading, elements, 1.0),
            ]
        )
        windows = self._means[0, columns] + 1
        weights = 1.0 / np.minimum(windows, _WINDOWS)
        means = self._means[1:, columns]
        self._means[0, columns] = windows
        self._means[1:, columns] = means + weights * (found - means)
        weight_of = np.zeros(self._means.shape[1])
        weight_of[columns] = weights
        tuples = np.zeros(len(self._tuples))
        tuples[numbers] = counts
        self._tuples += weight_of[self._owners] * (tuples - self._tuples)

    def _adopt(self, operators: list[int]) -> None:
        """Make room for operators and ports that are new, and remember where these operators are."""
        columns = self._means.shape[1]
        new = [operator for operator in operators if operator not in self._rows]
        self._rows.update(zip(new, range(columns, columns + len(new)), strict=True))
        self._last = operators
        self._columns = np.array([self._rows[operator] for operator in operators], np.intp)
        self._reading = np.array([operator not in self._inputs for operator in operators])
        self._owners = np.array([self._rows.get(operator, 0) for operator in self._ports.owners], np.intp)
        self._means = np.concatenate((self._means, np.zeros((4, len(new)))), axis=1)
        self._tuples = np.concatenate((self._tuples, np.zeros(len(self._ports) - len(self._tuples))))

    def add_work(self, operator: int, consumed: float) -> None:
        """The cumulative work of an input operator at the end of a window."""
        self._work.setdefault(operator, _Work()).add(consumed)

    def columns(self, shape: ProgressShape) -> tuple[Histories, Estimates]:
        """The histories of all operators of a plan, and the shares of its streams."""
        found = self._found(shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            _, seconds, end_seconds, elements = np.append(self._means, np.full((4, 1), np.nan), axis=1)[
                :, found.rows
            ]
            tuples = np.append(self._tuples, np.nan)
            sent = tuples[found.outputs]
            each = np.where(elements > 0, (seconds - end_seconds) / elements, np.nan)
            owners = np.array(shape.owners, np.intp)
            outputs = np.where(elements[owners] > 0, sent / elements[owners], np.nan)
        work = np.full((2, len(found.rows)), np.nan)
        places = shape.topology.places
        for operator, one in self._work.items():
            if operator in places:
                before = np.nan if one.before is None else one.before
                work[:, places[operator]] = (one.mean if one.windows else np.nan), before
        history = Histories(each, outputs, elements, seconds, end_seconds, *work)
        return history, _shares(shape, tuples[found.inputs], sent)

    def _found(self, shape: ProgressShape) -> _Places:
        """Where the operators and ports of a plan are in these arrays."""
        known = len(self._rows), len(self._ports), len(shape.owners)
        found = self._places
        if found is None or found.shape is not shape or found.known != known:
            found = self._places = _Places(
                shape,
                known,
                np.array([self._rows.get(node.id, -1) for node in shape.topology.operators], np.intp),
                _numbers(self._ports.inputs, shape.readers),
                _numbers(self._ports.outputs, shape.ports),
            )
        return found


class _Places(NamedTuple):
    """Where operators and ports of a plan are in the arrays of averages, -1 for nowhere.

    `known`: how many operators and ports there were of both.
    """

    shape: ProgressShape
    known: tuple[int, int, int]
    rows: Places
    inputs: Places
    outputs: Places


def _numbers(known: Mapping[int, Mapping[str, int]], ports: Mapping[tuple[int, str], int]) -> Places:
    """The numbers of these ports among those that are known, -1 for those that are not."""
    none: Mapping[str, int] = {}
    return np.array([known.get(operator, none).get(port, -1) for operator, port in ports], np.intp)


def _shares(shape: ProgressShape, came: Numbers, sent: Numbers) -> Estimates:
    """The shares of a plan's parts as in earlier windows, even ones where these say nothing.

    `came`, `sent`: tuples of a window by input port and by output port, NaN for those that had none yet.
    """
    divided = ~shape.exact
    sums = np.add.reduceat(sent[shape.members], shape.begins)[shape.group_of] if len(shape.begins) else came
    readers = shape.reader_of[divided]
    whole = np.bincount(readers, sums[divided], minlength=len(came))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(whole > 0, np.minimum(1.0, came / whole), np.nan)[shape.reader_of]
    learned = Estimates(share, np.full(len(share), ESTIMATED, np.int8))
    return chosen(divided & ~np.isnan(share), learned, shape.even)
