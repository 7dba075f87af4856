"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import WindowReported
from ridgeline.measure.topology import Series, Topology, surplus

Floats = npt.NDArray[np.float64]
_MOST_SAMPLES = 1000
Ports = dict[str, int]
"""The places of the counts of an operator's ports."""
_NO_PORTS: tuple[Ports, Ports] = {}, {}


@dataclass(frozen=True, slots=True)
class Tuples:
    """Tuples of one operator by port: whole ones since the start, or a second, on average over `seconds`."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def tuples_in(self) -> float:
        """Of all its input ports."""
        return sum(self.inputs.values())

    @property
    def tuples_out(self) -> float:
        """Of all its output ports."""
        return sum(self.outputs.values())


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
        self._ports: dict[Series, tuple[Ports, Ports]] = {}
        """By label and partition: of the input ports and of the output ports, numbered as they appear."""
        self._shape: object = None
        self._places = np.zeros(0, np.intp)
        """The operators and ports of the last window, and the places of their counts."""
        self._series: Mapping[int, Series] = {}
        """The label and the partition of each operator of the plan."""
        self._begins = False
        """No window of the plan has come yet."""
        self._ends: list[float] = []
        self._totals: list[Floats] = []
        """When windows of a plan ended, and the tuples by port as of then; first those before all."""

    def planned(self, topology: Topology) -> None:
        """Replace the plan."""
        self._series, self._begins = {node.id: node.series for node in topology.operators}, True

    def _begin(self) -> None:
        """The first window of a plan: rates are of its windows; bound what is kept of other plans."""
        self._begins, self._shape = False, None
        for gone in surplus(self._ports, set(self._series.values())):
            del self._ports[gone]
        known = [numbers for ports in self._ports.values() for numbers in ports]
        kept = [number for numbers in known for number in numbers.values()]
        self._ends, self._totals = self._ends[-1:], [totals[kept] for totals in self._totals[-1:]]
        places = count()
        for numbers in known:
            numbers.update(zip(numbers, places, strict=False))

    def _series_of(self, operator_id: int) -> Series:
        return self._series.get(operator_id, ("", operator_id))

    def add(self, event: WindowReported) -> None:
        """Note a window that ended on STRAM's clock; one of no operators changes nothing.

        A window that did not end after the one before (a clock was set back) is added to that one.
        """
        if not len(event.operators):
            return
        if self._begins:
            self._begin()
        at, ends, totals = event.at, self._ends, self._totals
        if not ends:
            ends.append(at - self._first)
            totals.append(np.zeros(0))
        last = totals[-1]
        if at <= ends[-1]:
            at = ends.pop()
            totals.pop()
        ends.append(at)
        totals.append(self._with_more(last, event))
        before = at - self._interval
        gone = max(0, len(ends) - 1 - _MOST_SAMPLES, min(bisect_right(ends, before) - 1, len(ends) - 3))
        del ends[:gone], totals[:gone]

    def _with_more(self, totals: Floats, event: WindowReported) -> Floats:
        """The totals with the tuples of a window. Most have the same ports as the one before."""
        if event.ports != self._shape:
            self._shape, self._places = event.ports, np.array(list(self._places_of(event.ports)), np.intp)
        known = int(self._places.max(initial=-1)) + 1
        found = np.concatenate((totals, np.zeros(max(0, known - len(totals)))))
        found[self._places] += np.array(event.tuples)
        return found

    def _places_of(self, ports: Iterable[tuple[int, str, str]]) -> Iterator[int]:
        """The places of the tuples of ports; new ones get the next."""
        known = sum(map(len, chain.from_iterable(self._ports.values())))
        for operator, kind, name in ports:
            own = self._ports.setdefault(self._series_of(operator), ({}, {}))[kind == "output"]
            known += name not in own
            yield own.setdefault(name, known - 1)

    def rates(self, operator_id: int, now: float) -> Tuples:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        ports = self._ports.get(self._series_of(operator_id))
        if ports is None:
            return Tuples()
        until = self._until(now)
        since = max(self._ends[0], until - self._interval)
        seconds = until - since
        inputs, outputs = (self._per_second(numbers, since, seconds) for numbers in ports)
        return Tuples(inputs, outputs, seconds)

    def _until(self, now: float) -> float:
        """When the interval of a rate ends."""
        ends = self._ends
        running = min(ends[-1] - ends[-2], ends[-2] - ends[-3]) if len(ends) > 2 else ends[-1] - ends[-2]  # noqa: PLR2004  two windows
        return max(ends[-1], now - running)

    def totals(self, operator_id: int) -> Tuples:
        """The tuples since the start; none, without ports, of an operator that is not known.

        Of a port that a new plan has not, what it had stays.
        """
        ports = self._ports.get(self._series_of(operator_id), _NO_PORTS)
        inputs, outputs = (
            {port: int(self._totals[-1][number]) for port, number in numbers.items()} for numbers in ports
        )
        return Tuples(inputs, outputs)

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
