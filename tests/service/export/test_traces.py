"""Traces of windows, as a collector gets them over the wire."""

import builtins
import logging
import shutil
import socket
import subprocess
from dataclasses import replace

import pytest
import yaml

from ridgeline import RidgelineError
from ridgeline.measure.events import ApplicationEnded, WindowCommitted, WindowRetried, WindowStarted
from ridgeline.measure.trace_ids import trace_text
from ridgeline.observe.watch import Watch
from ridgeline.service.export.traces import exporting_traces, trace_settings
from ridgeline.service.options import ServiceOptions
from support.ports import free_port
from support.service.watched import Now, events_of, feed, payments
from support.waiting import wait_until

otlp = pytest.importorskip("support.service.otlp", reason="needs ridgeline[telemetry]")
plain = otlp.plain
OTELCOL = shutil.which("otelcol")


@pytest.fixture
def collector():
    server = otlp.TraceCollector()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def short(monkeypatch):
    """The end of a run waits less for the collector."""
    monkeypatch.setattr("ridgeline.service.export.traces.CLOSE_SECONDS", 0.5)


def traced(url, events, *, ratio=1.0, watch=None, said=None):
    """Feed events to a watch that sends traces; returns it."""
    now = Now()
    watch = watch or Watch(now)
    lines = [] if said is None else said
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("OTEL_TRACES_SAMPLER_ARG", str(ratio))
        with exporting_traces(watch, ServiceOptions(otlp=url), lines.append):
            feed(watch, now, *events)
    return watch


def shifted(events, seconds, windows):
    """Events of some windows, with the commit later by some seconds."""
    return [
        replace(one, **{name: getattr(one, name) + seconds for name in ("staged", "committed", "published")})
        if isinstance(one, WindowCommitted) and one.window_id in windows
        else one
        for one in events
    ]


def failed(events, window):
    """Events of a run in which the first attempt at a window has failed."""
    place = next(
        place
        for place, one in enumerate(events)
        if isinstance(one, WindowStarted) and one.window_id == window
    )
    at = events[place].at
    again = [
        WindowRetried(at + 0.2, window, 1, "connecting to postgresql://ann:hunter2@db failed"),
        WindowStarted(at + 0.3, window, 1),
    ]
    return [*events[: place + 1], *again, *events[place + 1 :]]


def test_a_window_is_a_trace_of_its_operators_and_their_partitions(collector):
    _plan, events = events_of(payments())
    traced(collector.url, events)
    windows = collector.windows
    assert sorted(windows) == [0, 1, 2, 3, 4]
    spans = windows[2]
    root = spans["window"]
    assert root.name == "window payments"
    assert root.trace_id.hex() == trace_text("payments", 2)
    (run,) = spans["run"]
    assert {span.parent_span_id for name in ("run", "commit", "publish") for span in spans[name]} == {
        root.span_id
    }
    for number in (0, 1):
        (one,) = spans[f"balances[{number}]"]
        assert one.parent_span_id == run.span_id
    (source,) = spans["source"]
    assert plain(source.attributes)["ridgeline.tuples_out"] == 4
    assert plain(source.attributes)["ridgeline.operator_class"].endswith("Payments")
    resource = collector.spans[0][1]
    assert resource["service.name"] == "payments"
    assert resource["service.instance.id"] == "payments-1"
    assert resource["host.name"] == socket.gethostname()


def test_slow_windows_are_always_traced(collector):
    _, events = events_of(payments(windows=40))
    slow = shifted(events, 3.0, {7, 31})
    traced(collector.url, shifted(slow, 0.5, set(range(40))), ratio=0.0)
    assert sorted(collector.windows) == [31]  # 7 is one of the first, of which nothing is known yet
    root = plain(collector.windows[31]["window"].attributes)
    assert (root["ridgeline.sampled_by"], root["ridgeline.median_seconds"]) == ("slow", pytest.approx(0.5))


def test_attempts_that_did_not_count_are_spans_with_their_reason(collector):
    _, events = events_of(payments())
    traced(collector.url, failed(events, 2), ratio=0.0)
    spans = collector.windows[2]
    (attempt,) = spans["attempt"]
    assert plain(attempt.attributes)["ridgeline.attempt"] == 0
    assert attempt.status.code == 2
    assert "failed" in attempt.status.message
    assert attempt.end_time_unix_nano - attempt.start_time_unix_nano == pytest.approx(2e8, rel=0.01)
    assert spans["window"].status.code == 0
    assert "hunter2" not in str(collector.requests)


def test_a_window_that_ends_the_run_is_traced_as_far_as_it_came(collector):
    _, events = events_of(payments())
    place = next(
        place for place, one in enumerate(events) if isinstance(one, WindowStarted) and one.window_id == 3
    )
    why = "`balances` raised ValueError: token=hunter2; the tuple was Card(4111)"
    end = ApplicationEnded(events[place].at + 2.0, "failed", why)
    traced(collector.url, [*events[: place + 1], end], ratio=0.0)
    spans = collector.windows[3]
    assert spans["window"].status.code == 2
    assert "`balances` raised ValueError" in spans["window"].status.message
    assert "4111" not in str(collector.requests)
    assert "hunter2" not in str(collector.requests)


def test_a_collector_that_is_gone_is_said_once_and_costs_no_window(caplog, short):
    said = []
    _, events = events_of(payments())
    with caplog.at_level(logging.DEBUG, "opentelemetry"):
        watch = traced(f"http://127.0.0.1:{free_port()}", events, said=said)
    assert watch.summary()["windows"] == 5
    assert not said or "takes no traces" in said[0]


def test_a_collector_that_hangs_holds_nothing_up(collector, short):
    collector.gate.clear()
    said = []
    _, events = events_of(payments(windows=200))
    watch = traced(collector.url, events, said=said)
    assert watch.summary()["windows"] == 200
    assert collector.spans == []


def test_a_refusal_is_said(collector):
    collector.status = 401
    said = []
    _, events = events_of(payments())
    traced(collector.url, events, said=said)
    assert collector.spans == []
    assert "takes no traces" in said[0]


@pytest.mark.parametrize(
    ("otlp", "variables", "text"),
    [
        ("localhost:4318", {}, "did you mean `http://localhost:4318`"),
        ("http://ann:hunter2@", {}, "an OTLP endpoint is a URL"),
        ("http://c:4318", {"OTEL_TRACES_SAMPLER_ARG": "7"}, "`OTEL_TRACES_SAMPLER_ARG=7` is no share"),
        ("http://c:4318", {"OTEL_TRACES_SAMPLER_ARG": "nan"}, "give a number from 0 to 1"),
        ("http://c:4318", {"OTEL_TRACES_SAMPLER_ARG": "some"}, "`OTEL_TRACES_SAMPLER_ARG=some` is no share"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(otlp, variables, text):
    with pytest.raises(RidgelineError) as error:
        trace_settings(otlp, variables)
    assert text in str(error.value)
    assert "hunter2" not in str(error.value)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def fail(name, *rest):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fail)
    message = r"which is not installed; install it: `pip install 'ridgeline\[telemetry\]'`"
    with pytest.raises(RidgelineError, match=message):
        traced("http://127.0.0.1:1", [])


@pytest.mark.parametrize("there", ["", "opentelemetry", "opentelemetry.exporter.otlp.proto"])
def test_a_variable_alone_is_no_error_without_the_extra(monkeypatch, there):
    def found(name):  # as `find_spec` answers if only so much of OpenTelemetry is installed
        outer = name.rpartition(".")[0]
        if outer and not f"{there}.".startswith(f"{outer}."):
            raise ModuleNotFoundError(outer)
        return object() if f"{there}.".startswith(f"{name}.") else None

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    monkeypatch.setattr("ridgeline.service.export.traces.find_spec", found)
    said = []
    watch = traced(None, [], said=said)
    assert not watch.traced
    assert "install `ridgeline[telemetry]`" in said[0]


def test_the_variables_of_opentelemetry_count():
    there = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
    assert trace_settings(None, {}) is None
    assert trace_settings(None, there).ratio == 0.01
    assert trace_settings(None, {**there, "OTEL_SDK_DISABLED": "true"}) is None
    assert trace_settings(None, {**there, "OTEL_TRACES_EXPORTER": "none"}) is None
    assert trace_settings(None, {**there, "OTEL_TRACES_SAMPLER_ARG": "0.25"}).ratio == 0.25
    assert trace_settings("http://d:4318", there).endpoint == "http://d:4318/v1/traces"


@pytest.mark.slow
@pytest.mark.skipif(OTELCOL is None, reason="needs otelcol: the collector of OpenTelemetry")
def test_the_collector_of_opentelemetry_takes_traces(tmp_path):
    port = free_port()
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
        },
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [OTELCOL, "--config", f"file:{tmp_path / 'config.yaml'}"], stdout=stream, stderr=stream
        )
    try:
        wait_until(lambda: "Everything is ready" in log.read_text(), "the collector")
        _, events = events_of(payments())
        traced(f"http://127.0.0.1:{port}", events)
        text = wait_until(lambda: trace_text("payments", 4) in log.read_text() and log.read_text(), "a trace")
        assert "Name           : balances[1]" in text
    finally:
        process.terminate()
        process.wait()
