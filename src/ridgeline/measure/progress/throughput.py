"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from ridgeline.measure.events import WindowReported
from ridgeline.measure.topology import Series, Topology, surplus

Floats = npt.NDArray[np.float64]
_MOST_SAMPLES = 1000


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
        self._ports: dict[Series, dict[tuple[str, str], int]] = {}
        """By label and partition: of each port, by kind and name, the place of its count."""
        self._last: Sequence[tuple[int, str, str]] = ()
        self._places: list[int] = []
        """The operators and ports of the last window, and the places of their counts."""
        self._series: Mapping[int, Series] = {}
        """The label and the partition of each operator of the plan."""
        self._begins = False
        """No window of the plan has come yet."""
        self._ends: list[float] = []
        self._totals: list[Floats] = []
        """When windows of a plan ended, and the tuples by port as of then; first those before all."""
        self._asked: tuple[float, float, Floats] | None = None
        """As of when rates were asked for last, over how many seconds they are, and these by port."""

    def planned(self, topology: Topology) -> None:
        """Replace the plan."""
        self._series, self._begins = {node.id: node.series for node in topology.operators}, True

    def _begin(self) -> None:
        """The first window of a plan: rates are of its windows; bound what is kept of other plans."""
        self._begins, self._last = False, ()
        for gone in surplus(self._ports, set(self._series.values())):
            del self._ports[gone]
        kept = [place for ports in self._ports.values() for place in ports.values()]
        self._ends, self._totals = self._ends[-1:], [totals[kept] for totals in self._totals[-1:]]
        places = count()
        self._ports = {
            series: dict(zip(ports, places, strict=False)) for series, ports in self._ports.items()
        }

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
        if not self._ends:
            self._ends, self._totals = [event.at - self._first], [np.zeros(0)]
        if event.ports != self._last:  # most windows have the same as the one before
            self._number(event.ports)
        at, ends, totals = event.at, self._ends, self._totals
        after = totals[-1].copy()
        after[self._places] += event.tuples
        if at <= ends[-1] and len(ends) == 1:  # there is no window of the plan to add it to
            ends[0] = at - self._first
        elif at <= ends[-1]:
            at = ends.pop()
            totals.pop()
        ends.append(at)
        totals.append(after)
        before = at - self._interval
        gone = max(0, len(ends) - 1 - _MOST_SAMPLES, min(bisect_right(ends, before) - 1, len(ends) - 3))
        del ends[:gone], totals[:gone]
        self._asked = None

    def _number(self, ports: Sequence[tuple[int, str, str]]) -> None:
        """Find the places of the tuples of ports; new ones get the next."""
        self._last, self._places, size = ports, [], len(self._totals[-1])
        for operator, *port in ports:
            own = self._ports.setdefault(self._series_of(operator), {})
            place = own.setdefault((port[0], port[1]), size)
            size = max(size, place + 1)
            self._places.append(place)
        self._totals = [np.pad(one, (0, size - len(one))) for one in self._totals]

    def rates(self, operator_id: int, now: float) -> Tuples:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        if not self._ends:
            return Tuples()
        if self._asked is None or self._asked[0] != now:
            self._asked = now, *self._per_second(now)
        _, seconds, rates = self._asked
        return self._of(operator_id, rates, float, seconds)

    def _per_second(self, now: float) -> tuple[float, Floats]:
        """Over how many seconds rates are, and those of all ports; of the first window, its share counts."""
        ends, totals = self._ends, self._totals
        running = min(np.diff(ends[-3:]))
        until = max(ends[-1], now - running)
        since = max(ends[0], until - self._interval)
        after = min(bisect_right(ends, since), len(ends) - 1)
        share = min(1.0, (since - ends[after - 1]) / (ends[after] - ends[after - 1]))
        before = totals[after - 1] + share * (totals[after] - totals[after - 1])
        return until - since, (totals[-1] - before) / (until - since)

    def totals(self, operator_id: int) -> Tuples:
        """The tuples since the start; none, without ports, of an operator that is not known.

        Of a port that a new plan has not, what it had stays.
        """
        return self._of(operator_id, self._totals[-1], int) if self._totals else Tuples()

    def _of(
        self, operator_id: int, counts: Floats, number: type[int | float], seconds: float = 0.0
    ) -> Tuples:
        """Those of an operator's ports. `counts`: of all ports."""
        found: dict[str, dict[str, Any]] = {"input": {}, "output": {}}
        for (kind, name), place in self._ports.get(self._series_of(operator_id), {}).items():
            found[kind][name] = number(counts[place])
        return Tuples(found["input"], found["output"], seconds)
