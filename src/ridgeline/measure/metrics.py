"""The registry of metrics, which `/metrics`, `docs/metrics.md` and the dashboard are made of.

Names follow Prometheus' rules: base units, `_total` for counters, one quantity a metric, nothing in a name
that is a label. Every metric has the label `application` and those that it names here; labels are bounded by
the plan, never by data. `operator` is the name of a logical operator, or `NAME.PORT#unifier`; `partition`
counts from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ridgeline.measure.metric import Metric
from ridgeline.measure.registry.application import APPLICATION
from ridgeline.measure.registry.operators import OPERATORS
from ridgeline.measure.registry.sources import HOSTS, QUEUES, RECORDS, SOURCES, WATERMARKS
from ridgeline.measure.registry.windows import WINDOWS

GROUPS: Mapping[str, Sequence[Metric]] = {
    "Application": APPLICATION,
    "Windows": WINDOWS,
    "Operators": OPERATORS,
    "Records": RECORDS,
    "Watermarks": WATERMARKS,
    "Sources": SOURCES,
    "Queues between regions": QUEUES,
    "Containers and hosts": HOSTS,
}
"""The metrics by subject, in the order in which they are shown."""
METRICS: tuple[Metric, ...] = tuple(chain.from_iterable(GROUPS.values()))
"""All metrics, in this order."""
BY_NAME = {metric.name: metric for metric in METRICS}
"""The metrics by name, without `PREFIX`."""
