"""`/metrics`: the registry of metrics in Prometheus' text format, read at every scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.metrics import METRICS
from ridgeline.measure.registry.scrape import Distribution
from ridgeline.measure.tracing.exemplars import Exemplar
from ridgeline.service.export.readings import Readings, Sample

if TYPE_CHECKING:
    from ridgeline.observe.answers import Answers

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of the text format, which every scraper understands."""
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""Of OpenMetrics, the format that has exemplars."""
_KINDS = {Kind.COUNTER: "counter", Kind.HISTOGRAM: "histogram"}
_LABELS = "\0"
"""Stands for the labels in a histogram's lines."""
_LABELS_KEPT = 16_384
_OPEN_VERSIONS = ("", "1.0.0", "0.0.1")
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class WatchCollector(Collector):
    """All metrics, for a `prometheus_client.CollectorRegistry` beside an author's own metrics."""

    def __init__(self, watch: Answers) -> None:
        self._readings = Readings(watch)

    def describe(self) -> Iterable[Family]:
        """The metrics without values."""
        return [_family(metric, []) for metric in METRICS]

    def collect(self) -> Iterator[Family]:
        """The metrics as of now."""
        for metric, samples in self._readings.read()[1]:
            yield _family(metric, samples)


class Exposition:
    """The answer to a scrape of one application.

    The text is written here: hundreds of operators have tens of thousands of lines, for which
    `prometheus_client` takes many times as long. It writes the same text (a test compares them).
    """

    def __init__(self, watch: Answers) -> None:
        self._readings = Readings(watch)

    def render(self, *, open_metrics: bool = False, partitions: bool = False) -> bytes:
        """The metrics as of now, in the text format, or in OpenMetrics with exemplars.

        `partitions`: as `Readings.read`.
        """
        write, end = (_open_text, "# EOF\n") if open_metrics else (_text, "")
        _, read = self._readings.read(partitions=partitions)
        texts = (text for metric, samples in read for text in write(metric, samples))
        return "".join([*texts, end]).encode()


def wants_open_metrics(accept: str) -> bool:
    """Whether a client asks for OpenMetrics, by its header `Accept`: at least as much as for the text format.

    >>> wants_open_metrics("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4")
    True
    >>> wants_open_metrics("text/html,*/*;q=0.8"), wants_open_metrics("")
    (False, False)
    """
    found = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for entry in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        version = values.get("version", "")
        if kind not in found or (kind != "text/plain" and version not in _OPEN_VERSIONS):
            continue
        try:
            weight = float(values.get("q", 1.0))
        except ValueError:
            continue
        found[kind] = max(found[kind], weight)
    return found["application/openmetrics-text"] > 0 and (
        found["application/openmetrics-text"] >= found["text/plain"]
    )


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


def _open_text(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of a metric in OpenMetrics."""
    kind = _KINDS.get(metric.kind, "gauge")
    name, names = metric.full_name, metric.all_labels
    family = name.removesuffix("_total") if kind == "counter" else name
    yield f"# HELP {family} {metric.help.translate(_ESCAPES)}\n# TYPE {family} {kind}\n"
    if metric.unit and family.endswith(f"_{metric.unit}"):
        yield f"# UNIT {family} {metric.unit}\n"
    sample = f"{family}_total" if kind == "counter" else name
    bounds = _bounds(metric)
    for values, value in samples:
        labels = _labels(names, values)
        if not isinstance(value, Distribution):
            yield f"{sample}{{{labels}}} {value!r}\n"
            continue
        for number, (bound, count) in enumerate(zip(bounds, value.counts, strict=True)):
            known = value.exemplars.get(number)
            yield f'{name}_bucket{{{labels},le="{bound}"}} {count}{_exemplar(known)}\n'
        yield f"{name}_count{{{labels}}} {value.counts[-1]}\n{name}_sum{{{labels}}} {value.total!r}\n"


def _exemplar(known: Exemplar | None) -> str:
    """The exemplar after the value of a bucket, if there is one."""
    if known is None:
        return ""
    ids = f'trace_id="{known.trace_id}",span_id="{known.span_id}"'
    return f" # {{{ids}}} {known.value!r} {known.at:.3f}"


@lru_cache(_LABELS_KEPT)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Labels as they stand in a line; most are the same in many lines, and in the next scrape."""
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)
    )


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    """A metric and its samples as prometheus_client has them. An `info` and a `state` are gauges."""
    labels = metric.all_labels
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=labels)
        for values, value in samples:
            if isinstance(value, Distribution):
                histogram.add_metric(
                    values, list(zip(_bounds(metric), value.counts, strict=True)), value.total
                )
        return histogram
    plain = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    made = plain(metric.full_name, metric.help, labels=labels)
    for values, value in samples:
        if not isinstance(value, Distribution):
            made.add_metric(values, value)
    return made


@cache
def _bounds(metric: Metric) -> tuple[str, ...]:
    """The values of the label `le`; none of a metric that is no histogram."""
    return (*map(repr, metric.bounds), "+Inf") if metric.bounds else ()
