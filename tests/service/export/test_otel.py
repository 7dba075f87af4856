"""OTLP export, received by a collector of our own."""

import builtins
import http.server
import threading

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.driver.run.launch import Options
from ridgeline.measure.metrics import METRICS
from ridgeline.plan.planner import plan_application
from ridgeline.service.export.otel import OtelExporter, otel_name
from ridgeline.service.measured import ServiceOptions, run_measured
from support.engine.applications import sum_application
from support.service.watched import watched
from support.waiting import PATIENCE_SECONDS

service = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2", reason="needs ridgeline[otel]"
)


class Collector(http.server.ThreadingHTTPServer):
    """Takes exports and keeps them; answers with `status`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Receiver)
        self.requests = []
        self.got = threading.Event()
        self.status = 200
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/metrics":
            self.server.requests.append(
                (dict(self.headers), service.ExportMetricsServiceRequest.FromString(body))
            )
        self.send_response(self.server.status if self.path == "/v1/metrics" else 404)
        self.end_headers()
        self.server.got.set()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    server = Collector()
    yield server
    server.shutdown()
    server.server_close()


def export(collector, watch):
    exporter = OtelExporter(watch, collector.url, interval_seconds=30, headers={"api-key": "k"})
    exporter.close()
    return exporter


def test_all_metrics_arrive_with_kind_unit_and_values(collector):
    watch, _, _, _ = watched()
    assert export(collector, watch).failures == 0
    headers, request = collector.requests[0]
    assert headers["api-key"] == "k"
    (resource,) = request.resource_metrics
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes["service.name"] == "payments"
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    own = {name for name in metrics if name.startswith("ridgeline_metric_")}
    assert set(metrics) - own <= {otel_name(metric) for metric in METRICS}
    (taken,) = metrics["ridgeline_metric_taken_cents"].sum.data_points
    assert (taken.as_int, metrics["ridgeline_metric_taken_cents"].unit) == (150, "{cent}")
    committed = metrics["ridgeline_windows_committed"]
    assert (committed.unit, committed.sum.is_monotonic) == ("{window}", True)
    (point,) = committed.sum.data_points
    assert point.as_int == 5
    assert point.start_time_unix_nano == 1_767_225_600 * 10**9
    assert point.time_unix_nano == 1_767_225_604 * 10**9
    assert [metrics["ridgeline_backlog_seconds"].unit, metrics["ridgeline_operator_state_bytes"].unit] == [
        "s",
        "By",
    ]


def test_histograms_stay_histograms(collector):
    watch, _, _, _ = watched()
    export(collector, watch)
    metrics = {
        metric.name: metric
        for metric in collector.requests[0][1].resource_metrics[0].scope_metrics[0].metrics
    }
    points = metrics["ridgeline_record_latency_seconds"].histogram.data_points
    ages = {
        one.value.string_value: point for point in points for one in point.attributes if one.key == "stage"
    }
    source = ages["source"]
    assert (source.count, source.sum) == (20, pytest.approx(60.0))
    assert len(source.bucket_counts) == len(source.explicit_bounds) + 1
    assert sum(source.bucket_counts) == 20
    assert source.bucket_counts[list(source.explicit_bounds).index(5.0)] == 20
    assert not source.HasField("min")


def test_it_exports_again_and_again_until_it_is_closed(collector, wait_until):
    watch, _, _, _ = watched()
    exporter = OtelExporter(watch, collector.url, interval_seconds=0.01)
    assert collector.got.wait(PATIENCE_SECONDS)
    exporter.close()
    exporter.close()
    wait_until(lambda: not exporter._thread.is_alive(), "the end of the last export")


def test_what_is_refused_is_counted_and_no_harm_is_done(collector, caplog):
    collector.status = 400
    watch, _, _, _ = watched()
    assert export(collector, watch).failures == 1


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def fail(name, *rest):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fail)
    watch, _, _, _ = watched()
    with pytest.raises(RidgelineError, match=r"install it: `pip install 'ridgeline\[otel\]'`"):
        OtelExporter(watch)


def test_an_endpoint_has_to_be_a_url():
    watch, _, _, _ = watched()
    with pytest.raises(
        RidgelineError,
        match=r"an OTLP endpoint is a URL; got `localhost:4318`; did you mean `http://localhost:4318`\?",
    ):
        OtelExporter(watch, "localhost:4318")


@pytest.mark.spark
def test_a_run_sends_its_metrics_to_the_collector(collector, spark_context, tmp_path):
    options = Options(checkpoint=str(tmp_path / "checkpoint"), windows=3)
    run_measured(
        plan_application(sum_application()),
        options,
        ServiceOptions(port=None, otlp_endpoint=collector.url),
        context=spark_context,
    )
    metrics = {
        metric.name: metric
        for metric in collector.requests[-1][1].resource_metrics[0].scope_metrics[0].metrics
    }
    assert metrics["ridgeline_windows_committed"].sum.data_points[0].as_int == 3
