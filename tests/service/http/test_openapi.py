"""The description of the web service, against its routes and against what it answers."""

import json
import re

import pytest
from starlette.routing import Route

from ridgeline import Application, InputOperator, OutputPort
from ridgeline.measure.events import (
    ApplicationEnded,
    ContainerHeartbeat,
    MessagesRefused,
    RunningOperator,
    SourceAsked,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.service.http.openapi import openapi_path
from ridgeline.service.http.web import create_app
from ridgeline.testing import CollectorSink
from support.depth import deeper
from support.service.watched import BASE, Payment, feed, payments, serving, watched

EXAMPLES = {"name": "balances", "port": "payments", "metric": "taken"}
NOT_JSON = {f"{BASE}/live", "/metrics"}


@pytest.fixture(scope="module")
def asked():
    """The description, and a client of the service that it describes."""
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        yield client.get("/openapi.json"), client


def resolve(document, schema):
    return (
        document["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    )


TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def faults(document, schema, value, where="answer"):
    """What in a value does not fit its schema: the part of JSON Schema that the description uses."""
    schema = resolve(document, schema)
    if "anyOf" in schema:
        fits = any(not faults(document, one, value, where) for one in schema["anyOf"])
        return [] if fits else [f"{where}: {value!r}"]
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(
        isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        for kind in kinds
    ):
        return [f"{where}: {value!r} is no {kinds}"]
    found = []
    if isinstance(value, dict):
        if "properties" in schema:
            found += [
                f"{where}.{name} is not described" for name in value if name not in schema["properties"]
            ]
        found += [f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value]
        for name, part in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            found += faults(document, known, part, f"{where}.{name}") if isinstance(known, dict) else []
    if isinstance(value, list):
        found += [
            fault
            for number, part in enumerate(value)
            for fault in faults(document, schema.get("items", {}), part, f"{where}[{number}]")
        ]
    return found


def test_it_is_openapi_3_1(asked):
    document, _ = asked
    assert document["openapi"] == "3.1.0"
    assert {"title", "version"} <= set(document["info"])
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    identities = [operation["operationId"] for operation in operations]
    assert len(set(identities)) == len(identities)
    for path, item in document["paths"].items():
        assert set(item) <= {"get", "post"}
        for operation in item.values():
            assert operation["summary"].endswith(".")
            answers = operation["responses"].values()
            assert all(set(response) == {"description", "content"} for response in answers)
            in_path = [one for one in operation["parameters"] if one["in"] == "path"]
            assert [one["name"] for one in in_path] == re.findall(r"\{(\w+)\}", path)
            assert all(one["required"] for one in in_path)
    schemas = set(document["components"]["schemas"])
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert referred == schemas


def test_every_field_says_what_it_holds(asked):
    document, _ = asked
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"].endswith("."), name
        for field, kind in schema["properties"].items():
            assert kind.get("description", "").endswith("."), f"{name}.{field}"


def test_every_route_is_described_and_every_description_has_a_route(asked):
    document, _ = asked
    watch, plan, _, _ = watched()
    routes = {
        openapi_path(route.path) for route in create_app(watch, plan).routes if isinstance(route, Route)
    }
    assert set(document["paths"]) == routes - {BASE}  # the same as `BASE/`


class Silent(InputOperator):
    """It does not know its backlog, and no record of it has a time."""

    output = OutputPort(Payment)

    def emit_tuples(self):
        self.output.emit(Payment(1, 10, self.context.clock.now()))


class Endless(Silent):
    """Its backlog has no end."""

    def progress(self):
        return 4.0, float("inf")


def one_source(source):
    app = Application("payments", window="1s")
    payments = app.add_operator("source", source)
    sink = app.add_operator("balances", CollectorSink(Payment))
    app.add_stream("payments", payments.output, sink.input)
    return app


def unmeasured():
    app = payments()
    app.attributes["metrics_recording_level"] = "OFF"
    return app


def begin_window(watch, now, window_id):
    at = now.seconds + 1
    feed(watch, now, WindowPlanned(at, window_id, 0, at), WindowStarted(at, window_id, 0))


def run_a_window(watch, now):
    begin_window(watch, now, 2)
    at = now.seconds + 3
    source = RunningOperator(1, "running", 2.0, active=1, produced={"output": 7}, work=(8.0, 12.0))
    feed(
        watch,
        now,
        ContainerHeartbeat(at, 0, "host", 7, at, 2, 0, at - 3, (source,), stack="app.py:12"),
        MessagesRefused(at, "late", "10.0.0.1:4711", 3),
        SourceAsked(at, 2, 1, taken=9.0, held=1.0, waiting=12.0),
    )


def fail(watch, now):
    feed(watch, now, ApplicationEnded(now.seconds + 1, "failed", "operator `balances` failed in window 3"))


def stop_asking(watch, now):
    feed(watch, now, SourceAsked(now.seconds, -1, 1, problem="the broker does not answer"))


SHAPES = {
    "not begun": ({"until": 0}, lambda *_: None),
    "first window": ({"until": 0}, lambda watch, now: begin_window(watch, now, 0)),
    "between windows": ({}, lambda *_: None),
    "running window": ({"until": 2}, run_a_window),
    "finished": ({}, lambda watch, now: feed(watch, now, ApplicationEnded(now.seconds + 1, "finished"))),
    "failed": ({"until": 3}, fail),
    "source does not answer": ({"until": 3}, stop_asking),
    "no source knows its backlog": ({"app": one_source(Silent()), "windows": 3}, lambda *_: None),
    "endless source": ({"app": one_source(Endless()), "windows": 3, "until": 2}, run_a_window),
    "nothing recorded": ({"app": unmeasured()}, lambda *_: None),
}


def concrete(document, path):
    """The path with examples in the place of its parameters."""
    path = re.sub(r"\{(\w+)\}", lambda match: EXAMPLES.get(match[1], "1"), path)
    return path.replace("/sources/balances", "/sources/source")


# An application that runs a window or has finished has all that these have.
ELSE = {"first window", "between windows"}


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=deeper if shape in ELSE else ()) for shape in SHAPES]
)
def test_answers_have_the_keys_that_are_described_and_no_others(asked, shape):
    what, happens = SHAPES[shape]
    watch, plan, _, now = watched(**what)
    happens(watch, now)
    answered, (document, _) = 0, asked
    with serving(watch, plan) as client:
        for path, item in document["paths"].items():
            if path in NOT_JSON or "get" not in item:
                continue
            status, _, body = client.ask(concrete(document, path))
            schema = item["get"]["responses"][str(status)]["content"]["application/json"]["schema"]
            assert faults(document, schema, json.loads(body), path) == []
            answered += status == 200
    overview = {"$ref": "#/components/schemas/Overview"}
    assert faults(document, overview, json.loads(json.dumps(watch.overview()))) == []
    assert answered >= 20
