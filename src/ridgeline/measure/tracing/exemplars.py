"""Exemplars: for buckets of latency histograms, the last window in them whose trace was exported."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ridgeline.measure.registry.labels import LATENCY_BOUNDS_SECONDS


class Exemplar(NamedTuple):
    """A value of a histogram with its trace and the span of the window. `at`: seconds since 1970."""

    trace_id: str
    span_id: str
    value: float
    at: float


Buckets = Mapping[int, Exemplar]
"""By number of the bucket, as in the metric's `bounds`; after the last one: above all of them."""
NO_BUCKETS: Buckets = MappingProxyType({})
_MOST_SERIES = 10_000


class Exemplars:
    """The exemplars of a run: of its windows, and of its operators by label and partition.

    One thread adds, others read: what is handed out is never changed.
    """

    def __init__(self) -> None:
        self.window: Buckets = NO_BUCKETS
        self._operators: dict[tuple[str, int], Buckets] = {}

    def add_window(self, found: Exemplar) -> None:
        """Keep a window's latency."""
        self.window = _with(self.window, found)

    def add_operators(self, found: Sequence[tuple[tuple[str, int], Exemplar]]) -> None:
        """Keep the latencies of operators in a window. Those of the longest past are forgotten first."""
        for series, one in found:
            self._operators[series] = _with(self._operators.pop(series, NO_BUCKETS), one)
        while len(self._operators) > _MOST_SERIES:
            del self._operators[next(iter(self._operators))]

    def of_operator(self, series: tuple[str, int]) -> Buckets:
        """The exemplars of an operator by its label and partition."""
        return self._operators.get(series, NO_BUCKETS)

    def by_label(self) -> dict[str, Buckets]:
        """Of all operators of a label the newest exemplar of each bucket."""
        found: dict[str, dict[int, Exemplar]] = {}
        for (label, _), buckets in list(self._operators.items()):
            own = found.setdefault(label, {})
            for number, one in buckets.items():
                if number not in own or own[number].at < one.at:
                    own[number] = one
        return {label: MappingProxyType(own) for label, own in found.items()}


def _with(buckets: Buckets, found: Exemplar) -> Buckets:
    return MappingProxyType({**buckets, bisect_left(LATENCY_BOUNDS_SECONDS, found.value): found})
