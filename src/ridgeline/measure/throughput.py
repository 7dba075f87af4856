"""Tuples per second, per port and operator, over the last seconds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_SHORTEST_SECONDS = 0.001  # so that it is not lost beside seconds since 1970


@dataclass(frozen=True, slots=True)
class Rates:
    """Tuples per second of one operator: by port, and of all its ports. `seconds` is the time that they are an average over."""

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


@dataclass(slots=True)
class _Window:
    """Tuples that went through between two moments."""

    start: float
    end: float
    inputs: Counter[str]
    outputs: Counter[str]

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(slots=True)
class _Operator:
    windows: deque[_Window]
    inputs: Counter[str] = field(default_factory=Counter)
    outputs: Counter[str] = field(default_factory=Counter)


class Throughput:
    """Tuples per second over `interval_seconds` (`throughput_calculation_interval`). One thread at a time.

    A window's tuples count as spread evenly over the time since the window before ended. A rate is the tuples of the last interval over the
    interval, so of a window that began before it only the share within it counts. Where less is known (the application has just
    begun, or more than `maximum_samples` windows fit into the interval), it is over what is known. If windows are longer than the
    interval, it is the rate of the last window. With windows that divide the interval this is Apex's figure, which goes back by whole
    windows until they cover it.

    The interval ends with the last window, as the one that is running has not told its tuples yet. If that one takes longer than windows
    took of late, the interval ends one window's time before now instead: in a stall the rate falls, and after an idle interval it is 0.

    `window_seconds`: the time that a first window is taken for, having none before it; so no time is 0.
    """

    def __init__(self, interval_seconds: float = 10.0, maximum_samples: int = 1000, window_seconds: float = 1.0) -> None:
        if min(interval_seconds, window_seconds) < _SHORTEST_SECONDS or maximum_samples < 1:
            msg = (
                f"`interval_seconds` and `window_seconds` must be at least {_SHORTEST_SECONDS} and `maximum_samples` at least 1; "
                f"got {interval_seconds}, {window_seconds} and {maximum_samples}"
            )
            raise ValueError(msg)
        self._interval = interval_seconds
        self._most = maximum_samples
        self._first = window_seconds
        self._operators: dict[int, _Operator] = {}

    def add(self, operator_id: int, at: float, tuples_in: Mapping[str, int], tuples_out: Mapping[str, int]) -> None:
        """Note a window of an operator that ended `at` on STRAM's clock, with its tuples by port.

        A window that did not end after the one before (a clock was set back) is added to that one.
        """
        operator = self._operators.get(operator_id)
        if operator is None:
            operator = self._operators[operator_id] = _Operator(deque(maxlen=self._most))
        for counter, more in ((operator.inputs, tuples_in), (operator.outputs, tuples_out)):
            counter.update(more)
        windows = operator.windows
        if windows and at <= windows[-1].end:
            windows[-1].inputs.update(tuples_in)
            windows[-1].outputs.update(tuples_out)
            return
        start = windows[-1].end if windows else at - self._first
        windows.append(_Window(start, at, Counter(tuples_in), Counter(tuples_out)))
        while len(windows) > 2 and windows[0].end <= at - self._interval:  # noqa: PLR2004  two: what windows took of late
            windows.popleft()

    def rates(self, operator_id: int, now: float) -> Rates:
        """The rates as of `now` on STRAM's clock; zeros, without ports, of an operator that is not known."""
        operator = self._operators.get(operator_id)
        if operator is None:
            return Rates()
        windows = operator.windows
        running = min(windows[-1].seconds, windows[-2 if len(windows) > 1 else -1].seconds)
        until = max(windows[-1].end, now - running)
        since = max(windows[0].start, until - self._interval)
        shares = [(window, max(0.0, window.end - max(window.start, since)) / window.seconds) for window in windows]
        seconds = until - since
        inputs = _per_second(operator.inputs, ((window.inputs, share) for window, share in shares), seconds)
        outputs = _per_second(operator.outputs, ((window.outputs, share) for window, share in shares), seconds)
        return Rates(inputs, outputs, sum(inputs.values()), sum(outputs.values()), seconds)

    def totals(self, operator_id: int) -> Totals:
        """The tuples since the start; zeros, without ports, of an operator that is not known."""
        operator = self._operators.get(operator_id)
        if operator is None:
            return Totals()
        return Totals(dict(operator.inputs), dict(operator.outputs), operator.inputs.total(), operator.outputs.total())


def _per_second(ports: Iterable[str], counted: Iterable[tuple[Mapping[str, int], float]], seconds: float) -> dict[str, float]:
    """Tuples per second of every port, from counts of which only a share falls into the time."""
    tuples = dict.fromkeys(ports, 0.0)
    for counts, share in counted:
        for port, count in counts.items():
            tuples[port] += share * count
    return {port: count / seconds for port, count in tuples.items()}
