"""The metrics that operators declare, as metrics systems get them, beside those of the registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ridgeline.measure.answers.own_metrics import MetricAnswer
from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.topology import MetricNode

OWN_PREFIX = "metric_"
"""Their names begin with it, after Ridgeline's own prefix: no name can be one of the registry's."""
_MOST = 2**63

OwnSample = tuple[tuple[str, ...], float]
"""The values of a metric's labels but `application`, and the value."""


def own_metrics(
    nodes: Sequence[MetricNode], rows: Sequence[MetricAnswer]
) -> Iterator[tuple[Metric, list[OwnSample]]]:
    """The declared metrics with their values; those of the same name of several operators are one metric.

    Where one of them is shown by partition all have the label `partition`, which is empty for an aggregate.
    """
    families: dict[str, list[tuple[MetricNode, MetricAnswer]]] = {}
    for node, row in zip(nodes, rows, strict=True):
        families.setdefault(node.exported_name, []).append((node, row))
    for name, members in families.items():
        first = members[0][0]
        divided = any(node.by_partition for node, _ in members)
        labels = ("operator", "partition") if divided else ("operator",)
        text = first.help or f"The metric `{first.name}` of operators."
        kind = Kind.COUNTER if first.kind == "counter" else Kind.GAUGE
        metric = Metric(OWN_PREFIX + name, kind, first.unit, labels, text, "")
        found: list[OwnSample] = []
        for node, row in members:
            for partition, value in _values(node, row):
                if value is not None:
                    known = value if abs(value) < _MOST else float(value)
                    found.append((((node.operator, partition) if divided else (node.operator,)), known))
        yield metric, found


def _values(node: MetricNode, row: MetricAnswer) -> Iterator[tuple[str, float | None]]:
    """The label `partition` and the value: of a counter the total, of a gauge that of the last window."""
    counter = node.kind == "counter"
    if node.by_partition:
        values = row["partitionTotals"] if counter else row["partitions"]
        yield from ((str(number), value) for number, value in enumerate(values))
    else:
        yield "", row["total"] if counter else row["value"]
