"""The metrics that operators declare: one value of those of all partitions, for each window that counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ridgeline.api.errors import RidgelineError, described
from ridgeline.api.metric import AGGREGATES, MetricOptions, checked_value
from ridgeline.api.operator import operator_type
from ridgeline.measure.events import OperatorMetrics
from ridgeline.measure.topology import MetricNode
from ridgeline.plan.physical import PhysicalOperator


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
