"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import OperatorWindow
from ridgeline.measure.topology import Series, Topology, surplus

Floats = npt.NDArray[np.float64]
_MOST_SAMPLES = 1000
Ports = dict[str, int]
"""The places of the counts of an operator's ports."""
_NO_PORTS: tuple[Ports, Ports] = {}, {}


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
        self._ports: dict[int, tuple[Ports, Ports]] = {}
        """By operator: of its input ports and of its output ports, numbered as they appear."""
        self._series: Mapping[int, Series] = {}
        """The label and the partition of each operator of the plan."""
        self._before: dict[Series, Totals] = {}
        """The tuples under plans before."""
        self._begins = False
        """No window of the plan has come yet: ports and sums are those of the plan before."""
        self._ends: list[float] = []
        self._totals: list[Floats] = []
        """When windows of a plan ended, and its tuples by port as of then; first those before all."""

    def planned(self, topology: Topology) -> None:
        """Replace the plan."""
        if not self._begins:
            self._before |= {series: self.totals(operator) for operator, series in self._series.items()}
        self._series, self._begins = {node.id: node.series for node in topology.operators}, True

    def _begin(self) -> None:
        """The first window of a plan: count its tuples anew, and bound what is kept of other plans."""
        self._begins, self._ports = False, {}
        self._ends = self._ends[-1:]
        self._totals = [np.zeros(0, np.float64)] * len(self._ends)
        for gone in surplus(self._before, set(self._series.values())):
            del self._before[gone]

    def add(self, at: float, operators: Iterable[OperatorWindow]) -> None:
        """Note a window of these operators that ended `at` on STRAM's clock.

        A window that did not end after the one before (a clock was set back) is added to that one.
        """
        if self._begins:
            self._begin()
        ends, totals = self._ends, self._totals
        if not ends:
            ends.append(at - self._first)
            totals.append(np.zeros(0))
        last = totals[-1]
        if at <= ends[-1]:
            at = ends.pop()
            totals.pop()
        ends.append(at)
        totals.append(self._with_more(last, operators))
        before = at - self._interval
        gone = max(0, len(ends) - 1 - _MOST_SAMPLES, min(bisect_right(ends, before) - 1, len(ends) - 3))
        del ends[:gone], totals[:gone]

    def _with_more(self, totals: Floats, operators: Iterable[OperatorWindow]) -> Floats:
        """The totals with the tuples of a window."""
        places: list[int] = []
        counts: list[int] = []
        for own in operators:
            ports = self._ports.setdefault(own.operator, ({}, {}))
            for numbers, tuples in zip(ports, (own.tuples_in, own.tuples_out), strict=True):
                if not tuples.keys() <= numbers.keys():
                    known = sum(map(len, chain.from_iterable(self._ports.values())))
                    new = [port for port in tuples if port not in numbers]
                    numbers.update(zip(new, count(known), strict=False))
                places.extend(map(numbers.__getitem__, tuples))
                counts.extend(tuples.values())
        known = max(places, default=-1) + 1
        found = np.concatenate((totals, np.zeros(max(0, known - len(totals)))))
        found[places] += counts
        return found

    def rates(self, operator_id: int, now: float) -> Rates:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        if operator_id not in self._ports:
            return Rates()
        until = self._until(now)
        since = max(self._ends[0], until - self._interval)
        seconds = until - since
        inputs, outputs = (self._per_second(ports, since, seconds) for ports in self._ports[operator_id])
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
        entering, leaving = self._ports.get(operator_id, _NO_PORTS)
        inputs, outputs = (
            self._since_start(entering, before.inputs),
            self._since_start(leaving, before.outputs),
        )
        return Totals(inputs, outputs, sum(inputs.values()), sum(outputs.values()))

    def _since_start(self, ports: Ports, before: Mapping[str, int]) -> Mapping[str, int]:
        """The tuples by port. Of a port that a new plan has not, what it had stays."""
        own = {port: int(self._totals[-1][number]) for port, number in ports.items()}
        return {port: before.get(port, 0) + own.get(port, 0) for port in (*own, *before)}

    def _per_second(self, ports: Ports, since: float, seconds: float) -> dict[str, float]:
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
