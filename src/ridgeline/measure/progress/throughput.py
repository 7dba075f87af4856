"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ridgeline.measure.progress.counts import Counts, PortNumbers, Ports

_MOST_SAMPLES = 1000


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

    `window_seconds`: the assumed time of the first window, which has none before it; so no time is 0. An
    operator that begins later has begun with the window before; one that is missing in a window had no tuples
    in it.
    """

    def __init__(self, interval_seconds: float = 10.0, window_seconds: float = 1.0) -> None:
        self._interval = interval_seconds
        self._first = window_seconds
        self._ports = Ports()
        self._begun: dict[int, float] = {}
        """By operator, when its first window began."""
        self._inherited: dict[int, tuple[Mapping[str, int], Mapping[str, int]]] = {}
        """By operator, the tuples at input and output ports of those whose totals it has taken over."""
        self._ends: list[float] = []
        self._totals: list[npt.NDArray[np.float64]] = []
        """When windows ended, and the tuples by port since the start as of then; first those before all."""

    def add(
        self, at: float, operators: list[int], tuples_in: Sequence[Counts], tuples_out: Sequence[Counts]
    ) -> None:
        """Note a window of these operators that ended `at` on STRAM's clock, with their tuples by port.

        A window that did not end after the one before (a clock was set back) is added to that one.
        """
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
        numbers, counts, _ = self._ports.window(operators, tuples_in, tuples_out)
        totals = np.concatenate((totals, np.zeros(len(self._ports) - len(totals), np.float64)))
        totals[numbers] += counts
        if len(self._begun) < len(operators) or not self._begun.keys() >= set(operators):
            for operator in operators:
                self._begun.setdefault(operator, self._ends[-1])
        self._ends.append(at)
        self._totals.append(totals)

    def inherit(self, operator_id: int, before: int) -> None:
        """An operator of a new plan takes over the totals of another one."""
        totals = self.totals(before)
        self._inherited[operator_id] = totals.inputs, totals.outputs

    def forget(self, operators: Collection[int]) -> None:
        """Drop all that is known of operators: a new plan has them no more."""
        for operator in operators:
            self._begun.pop(operator, None)
            self._inherited.pop(operator, None)
        known = len(self._ports)
        kept = self._ports.forget(operators)
        self._totals = [
            np.concatenate((totals, np.zeros(known - len(totals), np.float64)))[kept]
            for totals in self._totals
        ]

    def rates(self, operator_id: int, now: float) -> Rates:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        begun = self._begun.get(operator_id)
        if begun is None:
            return Rates()
        until = self._until(now)
        since = max(begun, self._ends[0], until - self._interval)
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
        before = self._inherited.get(operator_id, ({}, {}))
        inputs, outputs = (
            self._since_start(ports.get(operator_id, {}), inherited)
            for ports, inherited in zip((self._ports.inputs, self._ports.outputs), before, strict=True)
        )
        return Totals(inputs, outputs, sum(inputs.values()), sum(outputs.values()))

    def _since_start(self, ports: PortNumbers, inherited: Mapping[str, int]) -> Mapping[str, int]:
        """The tuples by port. Of a port that a new plan has not, what it had stays."""
        own = {port: int(self._totals[-1][number]) for port, number in ports.items()}
        return {port: inherited.get(port, 0) + own.get(port, 0) for port in (*own, *inherited)}

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
