"""Export of the registry's metrics by OTLP, as the extra `ridgeline[otel]`.

OpenTelemetry has no observable histogram: an instrument would have to get every single latency again. So
what is exported is made from the same readings as `/metrics`, in the SDK's own data model, with histograms as
cumulative histograms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.registry.scrape import Distribution
from ridgeline.measure.tracing.exemplars import Exemplar
from ridgeline.observe import identity
from ridgeline.service.export.readings import Readings, Sample
from ridgeline.service.export.trace_settings import signal_url
from ridgeline.service.quiet_thread import QuietThread

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

    from ridgeline.observe.answers import Answers

_UNITS = {"seconds": "s", "bytes": "By"}
_NANOSECONDS = 1_000_000_000
CLOSE_SECONDS = 3.0
"""How long the end of a run waits for the last export."""
_LOGGER = "opentelemetry.exporter.otlp.proto.http.metric_exporter"


class OtelExporter:
    """Sends all metrics to an OTLP endpoint every `interval_seconds`, in its own thread, until `close`.

    Exports that cannot be delivered are dropped and counted; the application never waits for them.

    Args:
        watch: The figures. endpoint: The collector (`http://localhost:4318`); `/v1/metrics` is added if it
        has no path. None: as OpenTelemetry's environment variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...).
        interval_seconds: The time between two exports. headers: Headers to send, for an API key. say: Called
        with a line for people when the first export is not delivered.

    Raises:
        RidgelineError: If the extra is not installed, or the endpoint is no URL.
    """

    def __init__(
        self,
        watch: Answers,
        endpoint: str | None = None,
        *,
        interval_seconds: float = 10.0,
        headers: Mapping[str, str] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        except ImportError as error:
            raise RidgelineError(
                "export by OTLP needs OpenTelemetry, which is not installed; install it: `pip install "
                "'ridgeline[otel]'`"
            ) from error
        self.failures = 0
        """How many exports were not delivered."""
        self._watch = watch
        self._say = say
        self._readings = Readings(watch)
        self._interval = interval_seconds
        self._exporter = OTLPMetricExporter(
            endpoint=None if endpoint is None else signal_url(endpoint, "metrics"),
            headers=dict(headers or {}),
            timeout=interval_seconds,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ridgeline-otel", daemon=True)
        self._quiet = QuietThread(self._thread, _LOGGER)
        self._thread.start()

    def close(self) -> None:
        """Export once more and end: within 3 s, whatever the collector does. May be called twice."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(min(self._interval, CLOSE_SECONDS))
        self._exporter.shutdown()
        self._quiet.close()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._export()
        self._export()  # the end of the run, whose counters no later export would have

    def _export(self) -> None:
        """Export once, and count what is not delivered."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        try:
            delivered = self._exporter.export(collect(self._readings)) is MetricExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001  what is wrong with the collector must not end the exports
            delivered, self._quiet.last = False, f"{type(error).__name__}: {error}"
        self.failures += not delivered
        if self.failures == 1 and not delivered and self._say is not None:
            reason = printable(mask_text(self._quiet.last or "it does not answer"))
            self._say(
                f"the OpenTelemetry collector takes no metrics: {reason}; they are dropped until it does"
            )


def collect(readings: Readings) -> MetricsData:
    """All metrics that have values as of now, in OpenTelemetry's data model.

    Counters and histograms are cumulative since the run's start.
    """
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    at, read = readings.read()
    values = {metric.name: samples for metric, samples in read}
    started = next(
        (value for _, value in values["application_start_timestamp_seconds"] if isinstance(value, float)), at
    )
    application = next((labels[0] for labels, _ in values["application_info"]), "")
    moments = int(started * _NANOSECONDS), int(at * _NANOSECONDS)
    metrics = [_metric(metric, samples, moments) for metric, samples in read if samples]
    version = identity.version()
    scope = ScopeMetrics(InstrumentationScope("ridgeline", version), metrics, "")
    resource = Resource.create({"service.name": application or "ridgeline", "service.namespace": "ridgeline"})
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def otel_name(metric: Metric) -> str:
    """The name of a metric in OpenTelemetry, where counters have no `_total`."""
    return metric.full_name.removesuffix("_total")


def _metric(metric: Metric, samples: Sequence[Sample], moments: tuple[int, int]) -> Any:
    """A metric and its samples in OpenTelemetry's model."""
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Sum
    from opentelemetry.sdk.metrics.export import Metric as OtelMetric

    points = [_point(metric, labels, value, moments) for labels, value in samples]
    data: Any = Gauge(points)
    if metric.kind is Kind.HISTOGRAM:
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
    elif metric.kind is Kind.COUNTER:
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    unit = _UNITS.get(metric.unit) or (f"{{{metric.unit.removesuffix('s')}}}" if metric.unit else "1")
    return OtelMetric(otel_name(metric), metric.help, unit, data)


def _point(
    metric: Metric, labels: tuple[str, ...], value: float | Distribution, moments: tuple[int, int]
) -> Any:
    """One sample as a data point. Cumulative counts become counts by bucket."""
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint

    attributes = dict(zip(metric.all_labels, labels, strict=True))
    if not isinstance(value, Distribution):
        return NumberDataPoint(attributes, *moments, value)
    counts = [
        value.counts[0],
        *(after - before for before, after in zip(value.counts, value.counts[1:], strict=False)),
    ]
    return HistogramDataPoint(
        attributes,
        *moments,
        count=value.counts[-1],
        sum=value.total,
        bucket_counts=counts,
        explicit_bounds=list(metric.bounds),
        min=None,  # type: ignore[arg-type]  # not known; OTLP has them optional
        max=None,  # type: ignore[arg-type]
        exemplars=[_exemplar(one) for one in value.exemplars.values()],
    )


def _exemplar(one: Exemplar) -> Any:
    """An exemplar in OpenTelemetry's model."""
    from opentelemetry.sdk.metrics import Exemplar as OtelExemplar

    at = int(one.at * _NANOSECONDS)
    return OtelExemplar({}, one.value, at, int(one.span_id, 16), int(one.trace_id, 16))
