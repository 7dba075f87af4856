"""`/metrics`: the registry of metrics in Prometheus' text format, read at every scrape."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ridgeline.api.errors import RidgelineError
from ridgeline.measure.age.histogram import Distribution
from ridgeline.measure.answers.operators import MetricAnswer
from ridgeline.measure.metric import Kind, Labels, Metric
from ridgeline.measure.metrics import BY_NAME, METRICS
from ridgeline.measure.registry.scrape import Scrape
from ridgeline.measure.topology import MetricNode
from ridgeline.observe import identity
from ridgeline.observe.watch import Watch

OWN_PREFIX = "metric_"
"""Their names begin with it, after Ridgeline's own prefix: no name can be one of the registry's."""
_MOST = 2**63

OwnSample = tuple[Labels, float]
"""The values of a metric's labels but `application`, and the value."""


Sample = tuple[Labels, float | Distribution]
"""The values of a metric's labels, `application` first, and the value."""

_NEVER_FALLS = "operator_compute_seconds_total"
"""Has the time of attempts under way: one that is made again takes it back, and a counter must not be."""


class Readings:
    """Reads an application's metrics. Thread-safe."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._version = identity.version()
        self._lock = threading.Lock()
        self._before: dict[Labels, float] = {}
        """The values of `_NEVER_FALLS` that were read last, with all labels."""

    def read(self) -> list[tuple[Metric, list[Sample]]]:
        """All metrics of the registry in its order, with their samples as of now.

        Those that operators declare follow. All values are finite. Where the
        application has several regions, all metrics have the label `region`.
        """
        with self._lock:
            scrapes = self._watch.scrapes()
            found: dict[str, list[Sample]] = {metric.name: [] for metric in METRICS}
            infos = [one.overview["info"] for _, one in scrapes]
            application = next((info["name"] for info in infos if "id" in info), "")
            for region, scrape in scrapes:
                first = (application, region) if region else (application,)
                found["build_info"].append(((*first, self._version), 1))
                for metric in METRICS if scrape.planned else ():
                    found[metric.name] += [
                        ((*first, *labels), value)
                        for labels, value in metric.read(scrape)
                        if value is not None and (isinstance(value, Distribution) or math.isfinite(value))
                    ]
            rising: Any = found[_NEVER_FALLS]
            self._before = {labels: max(value, self._before.get(labels, 0.0)) for labels, value in rising}
            found[_NEVER_FALLS] = list(self._before.items())
            own = _own_of(scrapes, application)
        metrics = [(BY_NAME[name], samples) for name, samples in found.items()]
        if len(scrapes) > 1:
            metrics = [(_by_region(metric), samples) for metric, samples in metrics]
        return [*metrics, *own]


def _own_of(scrapes: Sequence[tuple[str, Scrape]], application: str) -> list[tuple[Metric, list[Sample]]]:
    """The metrics that operators declare, with the application's label, and that of the region if any."""
    regions = {node.operator: region for region, scrape in scrapes for node in scrape.own_nodes}
    nodes = [node for _, scrape in scrapes for node in scrape.own_nodes]
    rows = [row for _, scrape in scrapes for row in scrape.own_metrics]
    several = len(scrapes) > 1
    return [
        (
            _by_region(metric) if several else metric,
            [
                ((application, *((regions[labels[0]],) if several else ()), *labels), value)
                for labels, value in samples
            ],
        )
        for metric, samples in own_metrics(nodes, rows)
    ]


@cache
def _by_region(metric: Metric) -> Metric:
    """A metric with the label `region` before its others."""
    return replace(metric, labels=("region", *metric.labels))


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
        metric = Metric(OWN_PREFIX + name, text, "", labels)
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


MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of the text format, which every scraper understands."""
_KINDS = {Kind.COUNTER: "counter", Kind.HISTOGRAM: "histogram"}
_LABELS = "\0"
"""Stands for the labels in a histogram's lines."""
_LABELS_KEPT = 16_384
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(readings: Readings) -> bytes:
    """The answer to a scrape: the metrics as of now, in the text format.

    It is written here: hundreds of operators have tens of thousands of lines, for which
    `prometheus_client` takes many times as long. It writes the same text (a test compares them).
    """
    return "".join(text for metric, samples in readings.read() for text in _text(metric, samples)).encode()


def _text(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of a metric."""
    name, names = metric.full_name, metric.all_labels
    text = metric.help.translate(_HELP_ESCAPES)
    yield f"# HELP {name} {text}\n# TYPE {name} {_KINDS.get(metric.kind, 'gauge')}\n"
    histogram = "".join(f'{name}_bucket{{{_LABELS},le="{bound}"}} %d\n' for bound in _bounds(metric))
    histogram += f"{name}_sum{{{_LABELS}}} %r\n{name}_count{{{_LABELS}}} %d\n"
    for values, value in samples:
        labels = _labels(names, values)
        if isinstance(value, Distribution):
            # One formatting for all buckets is what makes it fast, so a `%` in a label has to be escaped.
            yield histogram.replace(_LABELS, labels.replace("%", "%%")) % (
                *value.counts,
                value.total,
                value.counts[-1],
            )
        else:
            yield f"{name}{{{labels}}} {value!r}\n"


@lru_cache(_LABELS_KEPT)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Labels as they stand in a line; most are the same in many lines, and in the next scrape."""
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)
    )


@cache
def _bounds(metric: Metric) -> tuple[str, ...]:
    """The values of the label `le`; none of a metric that is no histogram."""
    return (*map(repr, metric.bounds), "+Inf") if metric.bounds else ()


class MetricsFile:
    """A file that is not there while the run is scraped, and has its last metrics once it has ended.

    Raises RidgelineError if it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._hidden = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        if self._path.suffix != ".prom":
            raise RidgelineError(
                f"`--metrics-file {path}` must end in `.prom`: collectors read no other files"
            )
        try:
            self._hidden.touch()
            self._hidden.unlink()
            self._path.unlink(missing_ok=True)
        except OSError as error:
            remedy = "give one in a folder that exists"
            raise RidgelineError(
                f"`--metrics-file {path}` cannot be written: {error.strerror}; {remedy}"
            ) from error

    def write(self, watch: Watch, failed: Callable[[str], None]) -> None:
        """Write the metrics of a run that had begun, as of now, at once.

        `failed` is called with the reason if that cannot be.
        """
        if "id" not in watch.info():
            return
        try:
            self._hidden.write_bytes(exposition(Readings(watch)))
            self._hidden.rename(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._hidden.unlink(missing_ok=True)
            failed(f"`--metrics-file {self._path}` cannot be written: {error.strerror}")
