"""Window reports as the events that measurement folds over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ridgeline.api.errors import RidgelineError, described
from ridgeline.api.operator import operator_type
from ridgeline.api.support.own_metric import AGGREGATES, MetricOptions, checked_value
from ridgeline.measure.events import OperatorMetrics, RunEvent, SourceTaken, WindowReported
from ridgeline.measure.topology import MetricNode
from ridgeline.plan.physical import PhysicalOperator
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
    """The events in the reports of the attempt that counts, which has any.

    `at`: STRAM's wall clock, which the events are stamped with. First comes what all containers and operators
    did, then how far inputs are, container by container. Last come the metrics that operators declare, as
    `aggregation` makes one of them.
    """
    reports = sorted(reports, key=lambda report: report.window.container)
    operators = [(report, operator) for report in reports for operator in report.operators]
    window_id, windows = reports[0].window.window_id, [report.window for report in reports]
    yield WindowReported.of(at, window_id, windows, [operator.window for _, operator in operators])
    for report, operator in operators:
        if operator.source is not None:
            yield replace(operator.source, at=at, asked=asked_at(report, operator))
    measured = {one.window.operator: one.metrics for _, one in operators if one.metrics}
    if measured:
        yield from aggregation.events(window_id, measured, at)


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


class MetricAggregation:
    """Makes the events of declared metrics out of what the partitions of an application have reported."""

    def __init__(self, operators: Iterable[PhysicalOperator]) -> None:
        self._declared: dict[str, Mapping[str, MetricOptions]] = {}
        self._place: dict[int, tuple[str, int]] = {}
        """Of each physical operator that has metrics, whose partition it is, and which."""
        self._partitions: dict[str, int] = {}
        for name, operator, declared in _with_metrics(operators):
            self._declared[name] = declared
            self._place[operator.id] = name, operator.partition
            self._partitions[name] = max(self._partitions.get(name, 0), operator.partition + 1)

    def events(
        self, window_id: int, values: Mapping[int, Mapping[str, float]], at: float
    ) -> Iterator[OperatorMetrics]:
        """The events of a window. `values`: by physical id, of operators that report any."""
        found: dict[str, list[Mapping[str, float]]] = {}
        for number, own in values.items():
            if number in self._place:
                name, partition = self._place[number]
                found.setdefault(name, [{}] * self._partitions[name])[partition] = own
        for name in self._declared:
            if name in found:
                yield self._event(window_id, name, found[name], at)

    def _event(
        self, window_id: int, name: str, partitions: Sequence[Mapping[str, float]], at: float
    ) -> OperatorMetrics:
        """The event of one operator; what an author's function raises is noted in it."""
        values: dict[str, float] = {}
        faults: dict[str, str] = {}
        for metric, options in self._declared[name].items():
            known = [own[metric] for own in partitions if metric in own]
            if not known:
                continue
            try:
                value = _aggregated(options, known)
            except Exception as error:  # noqa: BLE001  the window is committed: nothing may fail the run now
                faults[metric] = f"its aggregate `{options.aggregate_name}` has failed: {described(error)}"
            else:
                if value is not None:
                    values[metric] = value
        return OperatorMetrics(at, window_id, name, values, tuple(partitions), faults)


def _aggregated(options: MetricOptions, values: list[float]) -> float | None:
    """One value of those of the partitions, in their order. Raises what the author's function raises."""
    if isinstance(options.aggregate, str):
        known = AGGREGATES[options.aggregate](values)
        return known if math.isfinite(known) else None
    value = checked_value(options.aggregate(values))
    if value is not None and value < 0 and options.kind == "counter":
        raise RidgelineError(f"a counter never falls; got {value}")
    return value


def metric_nodes(operators: Iterable[PhysicalOperator]) -> tuple[MetricNode, ...]:
    """The declared metrics of a plan, as measurement sees them."""
    return tuple(
        MetricNode(
            name,
            metric,
            options.kind,
            options.aggregate_name,
            options.help,
            options.unit,
            options.cumulative,
            options.by_partition,
        )
        for name, declared in {name: declared for name, _, declared in _with_metrics(operators)}.items()
        for metric, options in declared.items()
    )


def _with_metrics(
    operators: Iterable[PhysicalOperator],
) -> Iterator[tuple[str, PhysicalOperator, Mapping[str, MetricOptions]]]:
    """The operators that declare metrics, each with its name or the title of its unifiers."""
    for operator in operators:
        declared = operator_type(type(operator.operator)).metrics
        if declared:
            title = operator.title.removesuffix(f"[{operator.partition}]")
            yield title if operator.unifier else operator.name, operator, declared
