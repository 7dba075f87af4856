"""Window reports as the events that measurement folds over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ridgeline.measure.events import RunEvent, SourceTaken
from ridgeline.observe.own_metrics import MetricAggregation
from ridgeline.plan.protocol import OperatorReport, WindowReport


def asked_at(report: WindowReport, operator: OperatorReport) -> float:
    """When an input operator reported how far it is, by STRAM's clock: it had just ended its turn."""
    since = report.held_seconds + max(0.0, report.window.ended - operator.window.ended)
    return report.window.received - since


def taken_events(report: WindowReport) -> Iterator[SourceTaken]:
    """Records taken by the inputs of a container, while the window is under way. `at` is not set."""
    for operator in report.operators:
        if (source := operator.source) is not None:
            yield SourceTaken(
                0.0,
                report.window.window_id,
                report.window.attempt,
                source.operator,
                source.consumed,
                source.remaining,
                source.unit,
                asked_at(report, operator),
                source.paced,
                source.before,
                operator.window.compute_seconds,
                operator.window.tuples_out,
            )


def report_events(
    reports: Sequence[WindowReport], at: float, aggregation: MetricAggregation
) -> Iterator[RunEvent]:
    """The events in the reports of the attempt that counts, container by container.

    `at`: STRAM's wall clock, which the events are stamped with. The events are those of the reports, not
    copies, so ask once. Last come the metrics that operators declare, as `aggregation` makes one of them.
    """
    measured: dict[int, Mapping[str, float]] = {}
    for report in sorted(reports, key=lambda report: report.window.container):
        report.window.at = at
        yield report.window
        for operator in report.operators:
            operator.window.at = at
            yield operator.window
            if operator.source is not None:
                yield replace(operator.source, at=at, asked=asked_at(report, operator))
            if operator.metrics:
                measured[operator.window.operator] = operator.metrics
    if measured:
        yield from aggregation.events(reports[0].window.window_id, measured, at)


# Steps of the wall clock: it was set, or the machine slept. Times are given; no clock is read here.

_LEAST_SECONDS = 2.0
_SLEWED = 0.001
"""Of the time since the last look: a time service may turn the clock by this much without a step."""


class ClockSteps:
    """Compares the wall clock with one that is never set."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._wall, self._monotonic = wall, monotonic

    def look(self, wall: float, monotonic: float) -> str:
        """A line about a step since the last look; empty if there was none.

        >>> steps = ClockSteps(1000.0, 0.0)
        >>> steps.look(1010.0, 10.1)
        ''
        >>> print(steps.look(951.0, 11.0))
        the clock of the driver's host was set back by 59.9 s; times and ages of windows under way \
are wrong by so much, durations are right: let a time service turn it slowly
        """
        passed = monotonic - self._monotonic
        step = wall - self._wall - passed
        self._wall, self._monotonic = wall, monotonic
        if abs(step) < _LEAST_SECONDS + _SLEWED * passed:
            return ""
        way = "back" if step < 0 else "forward, or the host slept,"
        wrong = "times and ages of windows under way are wrong by so much, durations are right"
        where = "the clock of the driver's host"
        return f"{where} was set {way} by {abs(step):.1f} s; {wrong}: let a time service turn it slowly"
