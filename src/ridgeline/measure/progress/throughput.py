"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

_SHORTEST_SECONDS = 0.001  # so that it is not lost beside seconds since 1970


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


Counts = dict[str, int]


@dataclass(slots=True)
class _Operator:
    """When windows ended, and the tuples by port since the start as of then.

    Tuples of before the first window count at its beginning.
    """

    ends: list[float]
    inputs: list[Counts]
    outputs: list[Counts]

    def forget(self, before: float, most: int) -> None:
        """Drop ends that no rate since `before` needs; at least the last two windows stay."""
        gone = max(0, len(self.ends) - 1 - most, min(bisect_right(self.ends, before) - 1, len(self.ends) - 3))
        del self.ends[:gone], self.inputs[:gone], self.outputs[:gone]


class Throughput:
    """Tuples per second over `interval_seconds` (`throughput_calculation_interval`). One thread at a time.

    A window's tuples count as spread evenly over the time since the window before ended. A rate is the tuples
    of the last interval over the interval. Of a window that began before it only the share within it counts.
    Where less is known (the application has just begun, or more than `maximum_samples` windows fit into the
    interval), it is over what is known. If windows are longer than the interval, it is the rate of the last
    window. With windows that divide the interval this is Apex's figure, which goes back by whole windows
    until they cover it.

    The interval ends with the last window, as the running one has not reported its tuples yet. If that one
    takes longer than recent windows, the interval ends one window's time before now instead. So the rate
    falls in a stall, and is 0 after an idle interval.

    `window_seconds`: the assumed time of the first window, which has none before it; so no time is 0.
    """

    def __init__(
        self, interval_seconds: float = 10.0, maximum_samples: int = 1000, window_seconds: float = 1.0
    ) -> None:
        if min(interval_seconds, window_seconds) < _SHORTEST_SECONDS or maximum_samples < 1:
            msg = (
                f"`interval_seconds` and `window_seconds` must be at least {_SHORTEST_SECONDS} and "
                "`maximum_samples` at least 1; "
                f"got {interval_seconds}, {window_seconds} and {maximum_samples}"
            )
            raise ValueError(msg)
        self._interval = interval_seconds
        self._most = maximum_samples
        self._first = window_seconds
        self._operators: dict[int, _Operator] = {}

    def add(
        self, operator_id: int, at: float, tuples_in: Mapping[str, int], tuples_out: Mapping[str, int]
    ) -> None:
        """Note a window of an operator that ended `at` on STRAM's clock, with its tuples by port.

        A window that did not end after the one before (a clock was set back) is added to that one.
        """
        operator = self._operators.get(operator_id)
        if operator is None:
            operator = self._operators[operator_id] = _Operator([at - self._first], [{}], [{}])
        elif at <= operator.ends[-1]:
            operator.inputs[-1] = _sum(operator.inputs[-1], tuples_in)
            operator.outputs[-1] = _sum(operator.outputs[-1], tuples_out)
            return
        operator.ends.append(at)
        operator.inputs.append(_sum(operator.inputs[-1], tuples_in))
        operator.outputs.append(_sum(operator.outputs[-1], tuples_out))
        operator.forget(at - self._interval, self._most)

    def forget(self, operator_id: int) -> None:
        """Drop all that is known of an operator: a new plan has it no more."""
        self._operators.pop(operator_id, None)

    def rates(self, operator_id: int, now: float) -> Rates:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        operator = self._operators.get(operator_id)
        if operator is None:
            return Rates()
        ends = operator.ends
        running = min(ends[-1] - ends[-2], ends[-2] - ends[-3]) if len(ends) > 2 else ends[-1] - ends[-2]  # noqa: PLR2004  two windows
        until = max(ends[-1], now - running)
        since = max(ends[0], until - self._interval)
        seconds = until - since
        inputs = _per_second(ends, operator.inputs, since, seconds)
        outputs = _per_second(ends, operator.outputs, since, seconds)
        return Rates(inputs, outputs, sum(inputs.values()), sum(outputs.values()), seconds)

    def totals(self, operator_id: int) -> Totals:
        """The tuples since the start; zeros, without ports, of an operator that is not known."""
        operator = self._operators.get(operator_id)
        if operator is None:
            return Totals()
        inputs, outputs = operator.inputs[-1], operator.outputs[-1]
        return Totals(dict(inputs), dict(outputs), sum(inputs.values()), sum(outputs.values()))


def _sum(counts: Counts, more: Mapping[str, int]) -> Counts:
    if not any(more.values()) and more.keys() <= counts.keys():
        return counts  # nobody changes it
    return counts | {port: counts.get(port, 0) + count for port, count in more.items()}


def _per_second(ends: list[float], counts: list[Counts], since: float, seconds: float) -> dict[str, float]:
    """Tuples per second of every port since a moment, in which a window's tuples count by its share of it."""
    after = bisect_right(ends, since)
    if after == len(ends):
        return dict.fromkeys(counts[-1], 0.0)
    first, last = counts[after - 1], counts[after]
    share = (since - ends[after - 1]) / (ends[after] - ends[after - 1])
    rates = {}
    for port, count in counts[-1].items():
        before = first.get(port, 0)
        rates[port] = (count - before - share * (last.get(port, 0) - before)) / seconds
    return rates
