"""The description of the web service, against its routes and against what it answers."""

import json
import re

import pytest
from starlette.routing import Route

from ridgeline.service.http.openapi import SCHEMAS, openapi_path, schema_of
from ridgeline.service.http.web import create_app
from ridgeline.stram.watch import Watch
from support.service.watched import BASE, serving, watched

EXAMPLES = {"name": "balances", "port": "payments"}
NOT_JSON = {f"{BASE}/events", "/metrics"}


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
        return (
            []
            if any(not faults(document, one, value, where) for one in schema["anyOf"])
            else [f"{where}: {value!r}"]
        )
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(
        isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        for kind in kinds
    ):
        return [f"{where}: {value!r} is no {kinds}"]
    found = []
    if isinstance(value, dict):
        found += [f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value]
        for name, part in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            found += faults(document, known, part, f"{where}.{name}") if known is not None else []
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
        assert set(item) == {"get"}
        operation = item["get"]
        assert operation["summary"].endswith(".")
        assert all(
            set(response) == {"description", "content"} for response in operation["responses"].values()
        )
        in_path = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"]
        assert in_path == re.findall(r"\{(\w+)\}", path)
        assert all(
            parameter["required"] for parameter in operation["parameters"] if parameter["in"] == "path"
        )
    schemas = set(document["components"]["schemas"])
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert referred == schemas
    assert set(SCHEMAS) == schemas


def test_every_route_is_described_and_every_description_has_a_route(asked):
    document, _ = asked
    watch, plan, _, _ = watched()
    routes = {
        openapi_path(route.path) for route in create_app(watch, plan).routes if isinstance(route, Route)
    }
    assert set(document["paths"]) == routes - {BASE}  # the same as `BASE/`


def test_every_answer_is_as_described(asked):
    document, client = asked
    for path, item in document["paths"].items():
        if path in NOT_JSON:
            continue
        concrete = re.sub(r"\{(\w+)\}", lambda match: EXAMPLES.get(match[1], "1"), path)
        concrete = concrete.replace("operators/1/ports/payments", "operators/1/ports/output")
        status, _, body = client.ask(concrete)
        assert status == 200, (concrete, body)
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert faults(document, schema, json.loads(body), concrete) == []


def test_before_the_first_window_answers_are_as_described_too():
    watch, plan, _, _ = watched(until=0)
    with serving(watch, plan) as client:
        document = client.get("/openapi.json")
        for path, item in document["paths"].items():
            if path in NOT_JSON or "{" in path:
                continue
            schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            assert faults(document, schema, json.loads(client.ask(path)[2]), path) == []


def test_before_the_run_is_planned_everything_answers():
    _, plan, _, _ = watched(until=0)
    with serving(Watch(lambda: 0.0), plan) as client:
        for path in client.get("/openapi.json")["paths"]:
            if "{" not in path and not path.endswith("/events"):
                assert client.ask(path)[0] == 200, path


def test_frames_are_as_described(asked):
    document, _ = asked
    watch, _, _, _ = watched()
    assert faults(document, schema_of("Frame"), json.loads(json.dumps(watch.frame()))) == []


def test_errors_are_as_described(asked):
    document, client = asked
    assert faults(document, schema_of("Error"), client.get("/windows/99", 404)) == []


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("int", {"type": "integer"}),
        ("num{}", {"type": "object", "additionalProperties": {"type": "number"}}),
        ("Port?", {"anyOf": [{"$ref": "#/components/schemas/Port"}, {"type": "null"}]}),
        ("any{}", {"type": "object", "additionalProperties": {}}),
    ],
)
def test_short_forms(text, schema):
    assert schema_of(text) == schema
