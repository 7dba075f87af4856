"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import Counts
from ridgeline.measure.topology import Series, Topology, surplus

_MOST_SAMPLES = 1000
PortNumbers = Mapping[str, int]
Numbers = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Rates:
    """Tuples per second of one operator: by port, and of all its ports.

    `seconds` is the time that they are an average over.
    """

    inputs: Mapping[str, float] = field(default_factory=dict)
    outputs: Mapping[str, float] = field(default_factory=dict)
    tuples_in: float = 0.0
    tuples_out: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Tuples of one operator since the start: by port, and of all its ports."""

    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    tuples_in: int = 0
    tuples_out: int = 0


class Throughput:
    """Tuples per second over `interval_seconds` (`throughput_calculation_interval`). One thread at a time.

    A window's tuples count as spread evenly over the time since the window before ended. A rate is the tuples
    of the last interval over the interval. Of a window that began before it only the share within it counts.
    Where less is known (the application has just begun, or more than `_MOST_SAMPLES` windows fit into the
    interval), it is over what is known. If windows are longer than the interval, it is the rate of the last
    window. With windows that divide the interval this is Apex's figure, which goes back by whole windows
    until they cover it.

    The interval ends with the last window, as the running one has not reported its tuples yet. If that one
    takes longer than recent windows, the interval ends one window's time before now instead. So the rate
    falls in a stall, and is 0 after an idle interval.

    `window_seconds`: the assumed time of the first window, which has none before it; so no time is 0. All
    operators of a plan begin with the window before its first one; one that is missing in a window had no
    tuples in it. Totals go on by label and partition.
    """

    def __init__(self, interval_seconds: float = 10.0, window_seconds: float = 1.0) -> None:
        self._interval = interval_seconds
        self._first = window_seconds
        self._ports = _Ports()
        self._series: Mapping[int, Series] = {}
        """The label and the partition of each operator of the plan."""
        self._before: dict[Series, Totals] = {}
        """The tuples under plans before."""
        self._begins = False
        """No window of the plan has come yet: ports and sums are those of the plan before."""
        self._ends: list[float] = []
        self._totals: list[npt.NDArray[np.float64]] = []
        """When windows of a plan ended, and its tuples by port as of then; first those before all."""

    def planned(self, topology: Topology) -> None:
        """Replace the plan."""
        if not self._begins:
            self._before |= {series: self.totals(operator) for operator, series in self._series.items()}
        self._series, self._begins = {node.id: node.series for node in topology.operators}, True

    def _begin(self) -> None:
        """The first window of a plan: count its tuples anew, and bound what is kept of other plans."""
        self._begins, self._ports = False, _Ports()
        self._ends = self._ends[-1:]
        self._totals = [np.zeros(0, np.float64)] * len(self._ends)
        for gone in surplus(self._before, set(self._series.values())):
            del self._before[gone]

    def add(
        self, at: float, operators: list[int], tuples_in: Sequence[Counts], tuples_out: Sequence[Counts]
    ) -> None:
        """Note a window of these operators that ended `at` on STRAM's clock, with their tuples by port.

        A window that did not end after the one before (a clock was set back) is added to that one.
        """
        if self._begins:
            self._begin()
        if not self._ends:
            self._ends.append(at - self._first)
            self._totals.append(np.zeros(0, np.float64))
        elif at <= self._ends[-1]:
            at = self._ends.pop()
            last = self._totals.pop()
            self._append(at, last, operators, tuples_in, tuples_out)
            return
        self._append(at, self._totals[-1], operators, tuples_in, tuples_out)
        before = at - self._interval
        ends = self._ends
        gone = max(0, len(ends) - 1 - _MOST_SAMPLES, min(bisect_right(ends, before) - 1, len(ends) - 3))
        del self._ends[:gone], self._totals[:gone]

    def _append(
        self,
        at: float,
        totals: npt.NDArray[np.float64],
        operators: list[int],
        tuples_in: Sequence[Counts],
        tuples_out: Sequence[Counts],
    ) -> None:
        """The next end, with these tuples added to the totals."""
        numbers, counts = self._ports.window(operators, tuples_in, tuples_out)
        totals = np.concatenate((totals, np.zeros(len(self._ports) - len(totals), np.float64)))
        totals[numbers] += counts
        self._ends.append(at)
        self._totals.append(totals)

    def rates(self, operator_id: int, now: float) -> Rates:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        if operator_id not in self._ports.inputs:
            return Rates()
        until = self._until(now)
        since = max(self._ends[0], until - self._interval)
        seconds = until - since
        inputs = self._per_second(self._ports.inputs[operator_id], since, seconds)
        outputs = self._per_second(self._ports.outputs[operator_id], since, seconds)
        return Rates(inputs, outputs, sum(inputs.values()), sum(outputs.values()), seconds)

    def _until(self, now: float) -> float:
        """When the interval of a rate ends."""
        ends = self._ends
        running = min(ends[-1] - ends[-2], ends[-2] - ends[-3]) if len(ends) > 2 else ends[-1] - ends[-2]  # noqa: PLR2004  two windows
        return max(ends[-1], now - running)

    def totals(self, operator_id: int) -> Totals:
        """The tuples since the start; zeros, without ports, of an operator that is not known."""
        before = self._before.get(self._series.get(operator_id, ("", 0)), Totals())
        if self._begins:
            return before
        inputs = self._since_start(self._ports.inputs.get(operator_id, {}), before.inputs)
        outputs = self._since_start(self._ports.outputs.get(operator_id, {}), before.outputs)
        return Totals(inputs, outputs, sum(inputs.values()), sum(outputs.values()))

    def _since_start(self, ports: PortNumbers, before: Mapping[str, int]) -> Mapping[str, int]:
        """The tuples by port. Of a port that a new plan has not, what it had stays."""
        own = {port: int(self._totals[-1][number]) for port, number in ports.items()}
        return {port: before.get(port, 0) + own.get(port, 0) for port in (*own, *before)}

    def _per_second(self, ports: PortNumbers, since: float, seconds: float) -> dict[str, float]:
        """Tuples per second of each port since a moment; of the window around it, the share after it."""
        ends, totals = self._ends, self._totals
        after = bisect_right(ends, since)
        if after == len(ends):
            return dict.fromkeys(ports, 0.0)
        share = (since - ends[after - 1]) / (ends[after] - ends[after - 1])
        rates = {}
        for port, number in ports.items():
            first, last = (
                int(found[number]) if number < len(found) else 0 for found in totals[after - 1 : after + 1]
            )
            rates[port] = (int(totals[-1][number]) - first - share * (last - first)) / seconds
        return rates


class _Ports:
    """Numbers the ports of operators as they appear: the places of their counts in arrays."""

    def __init__(self) -> None:
        self._count = 0
        self.inputs: dict[int, dict[str, int]] = {}
        """By operator, the numbers of its input ports."""
        self.outputs: dict[int, dict[str, int]] = {}
        self._shape: object = None
        self._numbers: Numbers = np.zeros(0, np.intp)

    def __len__(self) -> int:
        return self._count

    def window(
        self, operators: list[int], tuples_in: Sequence[Counts], tuples_out: Sequence[Counts]
    ) -> tuple[Numbers, npt.NDArray[np.float64]]:
        """The numbers of the ports that these operators have counts of, and the counts.

        Operators that are new have their ports numbered. Windows mostly have the same
        ports: then all of it is done without a loop in Python.
        """
        shape = (
            operators,
            list(map(len, tuples_in)),
            list(chain.from_iterable(tuples_in)),
            list(chain.from_iterable(tuples_out)),
            list(map(len, tuples_out)),
        )
        if shape != self._shape:
            entering = self._numbered(self.inputs, operators, tuples_in)
            leaving = self._numbered(self.outputs, operators, tuples_out)
            self._numbers = np.array(entering + leaving, np.intp)
            self._shape = shape
        counts = [counts.values() for counts in chain(tuples_in, tuples_out)]
        return self._numbers, np.fromiter(chain.from_iterable(counts), np.float64)

    def _numbered(
        self, known: dict[int, dict[str, int]], operators: Sequence[int], tuples: Sequence[Counts]
    ) -> list[int]:
        """The numbers of these operators' ports, for `window`; ports that are not `known` get theirs."""
        numbers: list[int] = []
        for operator, counts in zip(operators, tuples, strict=True):
            own = known.setdefault(operator, {})
            for port in counts:
                if port not in own:
                    own[port] = self._count
                    self._count += 1
                numbers.append(own[port])
        return numbers
