"""The metrics that operators declare: their last values, and what they were over time."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ridgeline.api.errors import did_you_mean
from ridgeline.measure.answers.operators import MetricAnswer, MetricHistoryAnswer, MetricWindowAnswer
from ridgeline.measure.events import OperatorMetrics
from ridgeline.measure.topology import MetricNode, Topology

_WINDOWS_KEPT = 1_000
_VALUES_KEPT = 200_000
"""Of all metrics: where an application declares many, fewer windows of each are kept."""


class OwnMetrics:
    """A fold over `OperatorMetrics`; `Measurement` feeds it. One thread at a time. Memory is bounded."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._of: dict[str, list[_Kept]] = {}
        """The same by operator."""
        self._former: dict[tuple[str, str], _Kept] = {}
        """Those of the plan before that the plan has not: the driver may go back to it."""

    def planned(self, topology: Topology) -> None:
        """Take a plan in."""
        metrics = topology.metrics
        windows = max(1, min(_WINDOWS_KEPT, _VALUES_KEPT // max(1, len(metrics))))
        before, self._kept, self._of = self._kept, {}, {}
        partitions = Counter(node.label for node in topology.operators)
        for node in metrics:
            key = node.operator, node.name
            known = before.get(key) or self._former.get(key)
            if known is None or (known.node.kind, known.node.cumulative) != (node.kind, node.cumulative):
                known = _Kept(node, windows)
            known.planned(node, partitions[node.operator])
            self._kept[key] = known
            self._of.setdefault(node.operator, []).append(known)
        self._former = {key: kept for key, kept in before.items() if key not in self._kept}

    def add(self, event: OperatorMetrics) -> None:
        """Take in a window that is committed."""
        for kept in self._of.get(event.operator, ()):
            kept.add(event)

    def all(self, operator: str | None = None) -> list[MetricAnswer]:
        """All metrics, or those of one operator. Raises KeyError naming the operators that have any."""
        names = dict.fromkeys(name for name, _ in self._kept)
        if operator is not None and operator not in names:
            hint = did_you_mean(operator, names) if names else "no operator declares metrics"
            raise KeyError(f"`{operator}` declares no metrics; {hint}")
        return [kept.answer() for (name, _), kept in self._kept.items() if operator in {None, name}]

    def history(self, operator: str, name: str, limit: int | None = None) -> MetricHistoryAnswer:
        """A metric over the last windows. Raises KeyError naming those there are."""
        kept = self._kept.get((operator, name))
        if kept is None:
            known = [f"{own}.{metric}" for own, metric in self._kept]
            hint = did_you_mean(f"{operator}.{name}", known) if known else "no operator declares metrics"
            raise KeyError(f"there is no metric `{operator}.{name}`; {hint}")
        return kept.history(limit)


@dataclass(slots=True)
class _Kept:
    """The state of one metric.

    `total`: of a counter, since the start of the run, of all partitions and of each. `fault`: why it has no
    value in the last window.
    """

    node: MetricNode
    windows_kept: int
    value: float | None = None
    window: int | None = None
    at: float | None = None
    partitions: list[float | None] = field(default_factory=list)
    total: float = 0
    totals: list[float] = field(default_factory=list)
    fault: str = ""
    windows: deque[tuple[int, float, float]] = field(default_factory=deque)

    def planned(self, node: MetricNode, partitions: int) -> None:
        """The plan is made or has changed: how many partitions the operator has.

        Cumulative values move with the state to other partitions. So their old totals count no more.
        """
        self.node = node
        if len(self.partitions) not in {0, partitions}:
            self.partitions = [None] * partitions
            if node.cumulative:
                self.totals = []

    def add(self, event: OperatorMetrics) -> None:
        """Take a window in."""
        name = self.node.name
        self.partitions = [own.get(name) for own in event.partitions]
        self._add_totals()
        self.window, self.at, self.fault = event.window_id, event.at, event.faults.get(name, "")
        self.value = event.values.get(name)
        if self.value is None:
            return
        if not self.node.cumulative:
            self.total += self.value
        else:  # of a partition that has lost its window, the last total stays
            self.total = sum(self.totals) if self.node.aggregate == "sum" else self.value
        self.windows.append((event.window_id, event.at, self.value))
        if len(self.windows) > self.windows_kept:
            self.windows.popleft()

    def _add_totals(self) -> None:
        self.totals += [0] * (len(self.partitions) - len(self.totals))
        for number, value in enumerate(self.partitions):
            if value is not None:
                self.totals[number] = value if self.node.cumulative else self.totals[number] + value

    def answer(self) -> MetricAnswer:
        """The metric as of its last window."""
        node, counter = self.node, self.node.kind == "counter"
        return {
            "operator": node.operator,
            "metric": node.name,
            "kind": node.kind,
            "aggregate": node.aggregate,
            "unit": node.unit,
            "help": node.help,
            "windowId": self.window,
            "at": self.at,
            "value": self.value,
            "total": _finite(self.total) if counter else None,
            "partitions": list(self.partitions),
            "partitionTotals": self._partition_totals() if counter else [],
            "problem": self.fault,
        }

    def _partition_totals(self) -> list[float | None]:
        """The totals of the partitions that there are; those of more that there were are kept."""
        partitions = len(self.partitions)
        unknown = [None if self.node.cumulative else 0.0] * (partitions - len(self.totals))
        return [*map(_finite, self.totals[:partitions]), *unknown]

    def history(self, limit: int | None) -> MetricHistoryAnswer:
        """The metric over time: the last `limit` windows."""
        windows = list(self.windows)
        rows: list[MetricWindowAnswer] = [
            {"windowId": window, "at": at, "value": value}
            for window, at, value in (windows if limit is None else windows[-limit:])
        ]
        return {**self.answer(), "windows": rows}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def by_operator(rows: Iterable[MetricAnswer]) -> Mapping[str, dict[str, float | None]]:
    """The present metrics of each operator: of a counter the total, of a gauge the last value."""
    found: dict[str, dict[str, float | None]] = {}
    for row in rows:
        value = row["total"] if row["kind"] == "counter" else row["value"]
        found.setdefault(row["operator"], {})[row["metric"]] = value
    return found
