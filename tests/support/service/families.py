"""The metrics of a run in the model of `prometheus_client`: what our own text is compared with."""

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ridgeline.measure.age.histogram import Distribution
from ridgeline.measure.metric import Kind
from ridgeline.measure.metrics import METRICS
from ridgeline.service.export.prometheus import Readings


class WatchCollector(Collector):
    """All metrics of a watch, for a `prometheus_client.CollectorRegistry`."""

    def __init__(self, watch):
        self._readings = Readings(watch)

    def describe(self):
        return [_family(metric, []) for metric in METRICS]

    def collect(self):
        for metric, samples in self._readings.read():
            yield _family(metric, samples)


def _family(metric, samples):
    """A metric and its samples as prometheus_client has them. An `info` and a `state` are gauges."""
    labels = metric.all_labels
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=labels)
        for values, value in samples:
            if isinstance(value, Distribution):
                histogram.add_metric(
                    values,
                    list(zip((*map(repr, metric.bounds), "+Inf"), value.counts, strict=True)),
                    value.total,
                )
        return histogram
    plain = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    made = plain(metric.full_name, metric.help, labels=labels)
    for values, value in samples:
        if not isinstance(value, Distribution):
            made.add_metric(values, value)
    return made
