"""`/metrics`: the registry of metrics in Prometheus' text format or OpenMetrics, read off the application at every scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from ridgeline.measure.metrics import METRICS, Kind, Metric
from ridgeline.service.readings import Distribution, Readings, Sample

if TYPE_CHECKING:
    from ridgeline.stram.watch import Watch


class WatchCollector(Collector):
    """All metrics of the registry, for a `CollectorRegistry` of one's own."""

    def __init__(self, watch: Watch) -> None:
        self._readings = Readings(watch)

    def describe(self) -> Iterable[Family]:
        """The metrics without values."""
        return [family(metric, []) for metric in METRICS]

    def collect(self) -> Iterator[Family]:
        """The metrics as of now."""
        for metric, samples in self._readings.read()[1]:
            yield family(metric, samples)


class Exposition:
    """What a scrape of one application gets."""

    def __init__(self, watch: Watch) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(WatchCollector(watch))

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text in the format that the header `Accept` asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


def family(metric: Metric, samples: Iterable[Sample]) -> Family:
    """A metric and its samples as prometheus-client has them.

    An `info` is a gauge that is 1 and a `state` one that is 1 or 0, so that both formats give it the same name.
    """
    labels = metric.all_labels
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=labels)
        bounds = [*(f"{bound:g}" for bound in metric.bounds), "+Inf"]
        for values, value in samples:
            if isinstance(value, Distribution):
                histogram.add_metric(values, list(zip(bounds, value.counts, strict=True)), value.total)
        return histogram
    plain = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    made = plain(metric.full_name, metric.help, labels=labels)
    for values, value in samples:
        if not isinstance(value, Distribution):
            made.add_metric(values, value)
    return made
