"""OpenLineage events of runs, judged by OpenLineage's own schemas, names and client."""

import http.server
import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jsonschema
import polars as pl
import pytest
import referencing

from ridgeline import Application, InputPort, Operator, RidgelineError
from ridgeline.engine.driver.run.launch import Options
from ridgeline.measure.events import ApplicationEnded
from ridgeline.observe.watch import Watch
from ridgeline.operators import FileInput, FileOutput, Filter, Map, SparkInput, WithColumns
from ridgeline.operators.kafka import KafkaInput, KafkaOutput
from ridgeline.operators.mariadb import MariaDbOutput
from ridgeline.operators.postgres import PostgresOutput
from ridgeline.plan.planner import plan_application
from ridgeline.service.export.telemetry import sending_lineage
from ridgeline.service.lineage.datasets import datasets_of, file_dataset
from ridgeline.service.lineage.sender import LineageSender
from ridgeline.service.lineage.wanting import wants_lineage
from ridgeline.service.measured import run_measured
from ridgeline.service.options import ServiceOptions
from support.service.watched import Now, events_of, feed, payments
from support.waiting import wait_until

naming = pytest.importorskip("openlineage.client.naming.dataset", reason="needs ridgeline[telemetry]")
SCHEMAS = Path(__file__).parents[2] / "support" / "openlineage"


class Order(NamedTuple):
    id: int
    cents: int
    card: str


class Priced(NamedTuple):
    id: int
    euros: float


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch, tmp_path):
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def validator():
    """Checks events, and each facet by the schema that it names."""
    documents = [json.loads(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))]
    registry = referencing.Registry().with_resources(
        (one["$id"], referencing.Resource.from_contents(one)) for one in documents
    )

    def check(event):
        kind = {"$ref": event["schemaURL"]}
        jsonschema.Draft202012Validator(kind, registry=registry).validate(event)
        for facet in facets_of(event):
            if facet["_schemaURL"].startswith("https://openlineage.io/spec/facets/"):
                kind = {"$ref": facet["_schemaURL"]}
                jsonschema.Draft202012Validator(kind, registry=registry).validate(facet)

    return check


def facets_of(event):
    for one in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        for name in ("facets", "inputFacets", "outputFacets"):
            yield from one.get(name, {}).values()


class Server(http.server.ThreadingHTTPServer):
    """An OpenLineage server that keeps what it gets. While `gate` is not set, it answers nothing."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.events, self.headers, self.status = [], [], 201
        self.gate = threading.Event()
        self.gate.set()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.gate.wait()
        if self.path == "/api/v1/lineage" and self.server.status < 300:
            self.server.headers.append(dict(self.headers))
            self.server.events.append(json.loads(body))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = Server()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()


def run_of(target, app=None, *, outcome="finished", reason="", said=None):
    """Feed the events of a run, or of the begin of one that is not run, to a watch that sends lineage."""
    plan, events = events_of(payments())
    if app is not None:
        plan, events = plan_application(app), events[:1]
    now = Now()
    watch = Watch(now)
    lines = [] if said is None else said
    service = ServiceOptions(openlineage=str(target))
    with sending_lineage(watch, service, lambda: plan.logical, lines.append):
        feed(watch, now, *events)
        feed(watch, now, ApplicationEnded(now.seconds + 1.0, outcome, reason))
    return watch


def orders(tmp_path, output=None, *steps):
    app = Application("shop")
    (tmp_path / "in").mkdir(exist_ok=True)
    source = app.add_operator("read", FileInput(tmp_path / "in" / "*.jsonl", Order, until="end"))
    last = source.output
    for number, (step, enters, leaves) in enumerate(steps):
        made = app.add_operator(f"step{number}", step)
        app.add_stream(f"s{number}", last, getattr(made, enters))
        last = getattr(made, leaves)
    sink = app.add_operator("write", output or FileOutput(tmp_path / "out"))
    app.add_stream("end", last, sink.input if hasattr(sink, "input") else sink.data)
    return app


def test_a_run_begins_and_ends_on_a_server(server, validator):
    run_of(server.url)
    start, end = server.events
    assert [one["eventType"] for one in (start, end)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("ridgeline", "payments")
    assert start["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    for event in server.events:
        validator(event)


@pytest.mark.parametrize(("outcome", "state"), [("stopped", "ABORT"), ("failed", "FAIL")])
def test_how_it_ended_is_said_without_secrets(tmp_path, validator, outcome, state):
    file = tmp_path / "events.jsonl"
    run_of(file, outcome=outcome, reason="`db` refused password=hunter2; the tuple was Card(4111)")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert events[-1]["eventType"] == state
    for event in events:
        validator(event)
    assert "`db` refused" in events[-1]["run"]["facets"]["errorMessage"]["message"]
    assert "hunter2" not in file.read_text()
    assert "4111" not in file.read_text()


def test_inputs_and_outputs_have_names_columns_and_where_these_come_from(tmp_path, server, validator):
    steps = [
        (Filter(lambda order: order.cents > 0), "data", "output"),
        (
            WithColumns(
                expressions=[
                    (pl.col("cents") / 100).alias("euros"),
                    (pl.col("id") + pl.col("cents")).alias("key"),
                ],
                named={"number": "id"},
            ),
            "input",
            "output",
        ),
    ]
    run_of(server.url, orders(tmp_path, None, *steps))
    event = server.events[0]
    validator(event)
    (read,), (written,) = event["inputs"], event["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(tmp_path / "in"))
    assert (written["namespace"], written["name"]) == ("file", str(tmp_path / "out"))
    assert [one["name"] for one in read["facets"]["schema"]["fields"]] == ["id", "cents", "card"]
    lineage = written["facets"]["columnLineage"]["fields"]
    sources = {
        name: [(one["field"], one["transformations"][0]["subtype"]) for one in found["inputFields"]]
        for name, found in lineage.items()
    }
    assert sources == {
        "id": [("id", "IDENTITY")],
        "cents": [("cents", "IDENTITY")],
        "card": [("card", "IDENTITY")],
        "euros": [("cents", "TRANSFORMATION")],
        "key": [("cents", "TRANSFORMATION"), ("id", "TRANSFORMATION")],
        "number": [("id", "IDENTITY")],
    }
    assert "ridgeline_unknownColumns" not in written["facets"]


def test_columns_of_a_dataset_that_two_operators_write_come_from_the_inputs_of_both(tmp_path, server):
    app = Application("shop")
    for name in ("home", "abroad"):
        (tmp_path / name).mkdir()
        read = app.add_operator(f"read_{name}", FileInput(tmp_path / name / "*.jsonl", Order, until="end"))
        write = app.add_operator(f"write_{name}", KafkaOutput("orders", servers="kafka:9092"))
        app.add_stream(name, read.output, write.input if hasattr(write, "input") else write.data)
    run_of(server.url, app)
    (written,) = server.events[0]["outputs"]
    lineage = written["facets"]["columnLineage"]["fields"]
    places = sorted(one["name"] for one in lineage["cents"]["inputFields"])
    assert places == [str(tmp_path / "abroad"), str(tmp_path / "home")]


def test_columns_that_a_function_makes_are_said_to_be_unknown(tmp_path, server, validator):
    def price(order: Order) -> Priced:
        return Priced(order.id, order.cents / 100)

    run_of(server.url, orders(tmp_path, None, (Map(price, schema=Priced), "data", "output")))
    (written,) = server.events[0]["outputs"]
    validator(server.events[0])
    assert written["facets"]["ridgeline_unknownColumns"]["columns"] == ["id", "euros"]
    assert "columnLineage" not in written["facets"]


def test_names_are_those_of_openlineage(tmp_path):
    def names(one) -> tuple[str, str]:
        return one.get_namespace(), one.get_name()

    kafka = KafkaInput("orders", servers="broker:9092,other:9092", schema=Order)
    assert datasets_of(kafka) == [names(naming.Kafka("broker", "9092", "orders"))]
    assert datasets_of(KafkaOutput("out", servers="broker")) == [names(naming.Kafka("broker", "9092", "out"))]
    postgres = PostgresOutput("orders", dsn="postgresql://ann:hunter2@db:5433/sales")
    assert datasets_of(postgres) == [names(naming.Postgres("db", "5433", "sales", "public", "orders"))]
    maria = MariaDbOutput("orders", url="mysql://ann:hunter2@db:3307/sales")
    assert datasets_of(maria) == [names(naming.MySQL("db", "3307", "sales", "orders"))]
    assert file_dataset("/data/orders.csv") == names(naming.LocalFileSystem("/data/orders.csv"))
    assert file_dataset("s3a://sales/orders/day=1") == names(naming.S3("sales", "orders/day=1"))
    assert file_dataset("gs://sales/orders") == names(naming.GCS("sales", "orders"))
    assert file_dataset("hdfs://names:8020/orders") == names(naming.HDFS("names", "8020", "/orders"))
    spark = SparkInput("kafka", {"kafka.bootstrap.servers": "broker:9092", "subscribe": "a, b"}, schema=Order)
    assert datasets_of(spark) == [names(naming.Kafka("broker", "9092", topic)) for topic in ("a", "b")]


def test_addresses_have_no_secrets_and_what_cannot_be_read_is_left_out():
    class Own(Operator):
        data = InputPort(Order)

        def datasets(self):
            return [("https://ann:hunter2@host/x?token=hunter2", "t")]

        @data.process
        def take(self, order):
            pass

    class Broken(Own):
        def datasets(self):
            raise ValueError(self)

    assert "hunter2" not in str(datasets_of(Own()))
    assert datasets_of(Own())[0].name == "t"
    assert datasets_of(Broken()) == []
    assert datasets_of(PostgresOutput("orders", dsn="env:NOT_THERE")) == []
    assert "hunter2" not in str(file_dataset("sftp://ann:hunter2@host/orders"))


def test_a_server_that_is_gone_or_refuses_is_said_once(server):
    said = []
    server.status = 403
    run_of(server.url, said=said)
    assert "event START was not taken" in said[0]
    assert "403" in said[0]
    assert said[1:] == ["2 OpenLineage events in a row were not taken, until the run's end"]


def test_a_server_that_is_back_is_said_with_the_number_of_lost_events(server):
    plan, events = events_of(payments())
    now, said = Now(), []
    watch = Watch(now)
    server.status = 507  # of 503 the client tries each event for nine seconds
    sender = LineageSender(
        server.url, lambda: plan.logical, watch.operator_totals, said.append, every_seconds=0.01
    )
    watch.subscribe(sender.apply)
    feed(watch, now, *events)
    wait_until(lambda: sender.failures > 2, "events that are not taken")
    server.status = 200
    wait_until(lambda: len(said) == 2, "a line that the server is back")
    lost = sender.failures
    assert said[1] == f"OpenLineage events are taken again; {lost} events were not"
    sender.close()
    assert len(said) == 2


def test_a_server_that_hangs_holds_no_window_up_and_the_end_for_a_few_seconds_only(server, monkeypatch):
    monkeypatch.setattr("ridgeline.service.lineage.sender.CLOSE_SECONDS", 0.5)
    server.gate.clear()
    said = []
    watch = run_of(server.url, said=said)
    assert watch.summary()["windows"] == 5
    assert len(said) == 1


def test_running_comes_again_and_again_with_what_was_read_and_written_so_far(server, tmp_path):
    plan, events = events_of(payments())
    now = Now()
    watch = Watch(now)
    sender = LineageSender(
        server.url, lambda: plan.logical, watch.operator_totals, lambda _: None, every_seconds=0.01
    )
    watch.subscribe(sender.apply)
    feed(watch, now, *events)
    wait_until(lambda: sum(one["eventType"] == "RUNNING" for one in server.events) > 2, "events RUNNING")
    changed = replace(events[0], plan_version=1)
    feed(watch, now, changed)
    feed(watch, now, ApplicationEnded(now.seconds, "finished"))
    sender.close()
    sender.close()
    assert [one["eventType"] for one in server.events].count("START") == 1
    assert server.events[-1]["eventType"] == "COMPLETE"


def test_keys_go_to_the_server_and_the_namespace_is_that_of_the_variable(server, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "hunter2")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    run_of(server.url)
    assert server.headers[0]["Authorization"] == "Bearer hunter2"
    assert server.events[0]["job"]["namespace"] == "shop"


def test_a_variable_of_the_host_without_the_client_ends_no_run_and_the_option_does(monkeypatch):
    monkeypatch.setitem(sys.modules, "openlineage.client", None)  # as where it is not installed
    monkeypatch.setenv("OPENLINEAGE_URL", "http://c:5000")
    said = []
    ran = False
    with sending_lineage(Watch(Now()), ServiceOptions(), lambda: None, said.append):
        ran = True
    assert ran
    (line,) = said
    assert "no OpenLineage events are sent" in line
    assert "ridgeline[telemetry]" in line
    asked = ServiceOptions(openlineage="http://c:5000")
    with (
        pytest.raises(RidgelineError, match="not installed"),
        sending_lineage(Watch(Now()), asked, lambda: None, said.append),
    ):
        pass


def test_the_variable_alone_is_enough(server, monkeypatch):
    environment: Mapping[str, str] = {"OPENLINEAGE_URL": "http://c:5000"}
    assert wants_lineage(None, environment)
    assert not wants_lineage(None, {})
    assert not wants_lineage("http://c:5000", {"OPENLINEAGE_DISABLED": "true"})


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("nowhere/at/all.jsonl", "`--openlineage nowhere/at/all.jsonl` cannot be written"),
        ("ftp://host", "is no URL; did you mean `http://localhost:5000`?"),
        ("http://", "is no URL"),
        ("http://ann:hunter2@:x", "is no URL"),
    ],
)
def test_targets_that_cannot_be_are_refused(target, text):
    with pytest.raises(RidgelineError) as error:
        LineageSender(target, lambda: None, dict, lambda _: None)
    assert text in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.spark
def test_a_run_on_spark_says_how_many_rows_it_read_and_wrote(spark_context, tmp_path, validator):
    app = orders(tmp_path)
    (tmp_path / "in" / "a.jsonl").write_text(
        "".join(json.dumps({"id": n, "cents": n, "card": "x"}) + "\n" for n in range(7))
    )
    file = tmp_path / "events.jsonl"
    service = ServiceOptions(port=None, openlineage=str(file))
    run_measured(
        plan_application(app), Options(checkpoint=str(tmp_path / "c")), service, context=spark_context
    )
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        validator(event)
    assert events[-1]["eventType"] == "COMPLETE"
    assert events[-1]["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 7
    assert events[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7
