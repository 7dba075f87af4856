"""The state of a run from which a metrics system's values are read, and the metrics that say how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast, get_type_hints

from ridgeline.measure.age.histogram import Distribution
from ridgeline.measure.answers.application import InfoAnswer, OverviewAnswer
from ridgeline.measure.answers.operators import ContainerAnswer, MetricAnswer
from ridgeline.measure.answers.watermarks import WatermarksAnswer
from ridgeline.measure.latency.since_start import LatencyTotal, WindowTotal
from ridgeline.measure.metric import Labelled, Labels, Metric, Value, operator_labels
from ridgeline.measure.run_counts import RunCounts
from ridgeline.measure.topology import MetricNode, OperatorNode


@dataclass(frozen=True)
class Scrape:
    """The state of a run at one moment; its counters count from the start of the run."""

    overview: OverviewAnswer
    containers: list[ContainerAnswer]
    latencies: list[tuple[OperatorNode, LatencyTotal]]
    windows: WindowTotal
    ages: list[tuple[OperatorNode, str, Distribution]]
    watermarks: WatermarksAnswer
    counts: RunCounts
    changes: Mapping[str, int]
    held_seconds: float | None
    subscribers_dropped: int
    own_metrics: list[MetricAnswer]
    own_nodes: tuple[MetricNode, ...]

    @property
    def planned(self) -> bool:
        """False before the first plan: then there are no values."""
        return "id" in self.overview["info"]

    @property
    def info(self) -> InfoAnswer:
        """The application as a whole, once it is planned."""
        return cast("InfoAnswer", self.overview["info"])

    @cached_property
    def labels_of(self) -> Mapping[str, Labels]:
        """The labels `operator` and `partition` of the plan's operators, as rows name them."""
        rows = self.overview["operators"]
        return {row["name"]: operator_labels(row["name"], row["partition"]) for row in rows}


def one(value: Callable[[Scrape], Value]) -> Callable[[Scrape], Labelled]:
    """The reading of a metric without labels."""
    return lambda scrape: (((), value(scrape)),)


Rows: TypeAlias = Iterable[tuple[Labels, Mapping[str, Any]]]
"""Answers, each with the values of its labels."""


def of_answers(
    answer: type, rows: Callable[[Scrape], Rows], labels: tuple[str, ...] = ()
) -> Callable[..., Metric]:
    """Makes metrics of fields of an answer: a field says what it means, there and here."""
    hints = get_type_hints(answer, include_extras=True)

    def metric(name: str, field: str, advice: str, *aliases: str) -> Metric:
        def read(scrape: Scrape) -> Labelled:
            for values, row in rows(scrape):
                value = row[field]["value"] if isinstance(row[field], Mapping) else row[field]
                yield values, float(value) if isinstance(value, bool) else value

        text = hints[field].__metadata__[0].replace("null", "absent").replace("Null", "Absent")
        return Metric(name, text, advice, labels, aliases, read=read)

    return metric


def state(states: Iterable[str], actual: str, labels: Labels = ()) -> Iterator[tuple[Labels, float]]:
    """A value for each state: 1 for the actual one. `labels`: those before the state."""
    for each in states:
        yield (*labels, each), float(each == actual)


def seconds(ms: float | None) -> float | None:
    """Seconds of milliseconds."""
    return None if ms is None else ms / 1000


def summed(values: Iterable[tuple[Labels, float | None]]) -> dict[Labels, float]:
    """The sum of what has the same labels."""
    found: dict[Labels, float] = {}
    for labels, value in values:
        if value is not None:
            found[labels] = found.get(labels, 0.0) + value
    return found
