"""The description of the web service, against its routes and against what it answers."""

import re
from typing import Any

import pytest
from pydantic import PydanticUserError

from ridgeline.observe.watch import Watch
from ridgeline.service.http.answers import AggregationAnswer
from ridgeline.service.http.endpoint import Endpoint
from ridgeline.service.http.openapi import describe
from support.service.watched import BASE, serving, watched

EXAMPLES = {"name": "balances", "port": "payments", "metric": "taken"}
ASKED_OTHERWISE = ("/events", "/live", "/log", "/page", "/pause", "/resume", "/shutdown", "/kill")
NOT_JSON = {f"{BASE}/events", f"{BASE}/live", "/metrics"}


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


def test_every_field_says_what_it_holds(asked):
    document, _ = asked
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"].endswith("."), name
        for field, kind in schema["properties"].items():
            assert kind.get("description", "").endswith("."), f"{name}.{field}"


def concrete(document, path):
    """The path with examples in the place of its parameters."""
    path = re.sub(r"\{(\w+)\}", lambda match: EXAMPLES.get(match[1], "1"), path)
    path = path.replace("operators/1/ports/payments", "operators/1/ports/output")
    return path.replace("/sources/balances", "/sources/source")


def test_every_path_has_an_answer(asked):
    document, client = asked
    for path in document["paths"].keys() - NOT_JSON:
        status, _, body = client.ask(concrete(document, path))
        if "get" not in document["paths"][path]:
            assert status == 405, path
            continue
        no_run = path == f"{BASE}/changes/{{id}}"  # so there is no change either
        assert status == (404 if no_run else 200), (path, body)


@pytest.mark.parametrize("key", ["reason", "planVersion", "stats"])
def test_a_key_that_is_not_described_is_refused_and_so_is_one_that_is_missing(asked, key):
    document, client = asked
    info = client.get("/info")
    schema = document["paths"][f"{BASE}/info"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    assert faults(document, schema, info) == []
    assert faults(document, schema, {**info, f"{key}2": 1}) != []
    del info[key]
    assert faults(document, schema, info) != []


def test_before_the_run_is_planned_everything_answers():
    _, plan, _, _ = watched(until=0)
    with serving(Watch(lambda: 0.0), plan) as client:
        for path in client.get("/openapi.json")["paths"]:
            if "{" not in path and not path.endswith(ASKED_OTHERWISE):
                assert client.ask(path)[0] == (503 if path == "/readyz" else 200), path


def test_errors_are_as_described(asked):
    document, client = asked
    error = {"$ref": "#/components/schemas/Error"}
    assert faults(document, error, client.get("/windows/99", 404)) == []


def schema_of(answer):
    endpoint = Endpoint("/x", None, "Something.", answer)
    operation = describe([endpoint], "1")["paths"]["/x"]["get"]
    return operation["responses"]["200"]["content"]["application/json"]["schema"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (int, {"type": "integer"}),
        (float | None, {"type": ["number", "null"]}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (AggregationAnswer, {"$ref": "#/components/schemas/Aggregation"}),
        (
            AggregationAnswer | None,
            {"anyOf": [{"$ref": "#/components/schemas/Aggregation"}, {"type": "null"}]},
        ),
    ],
)
def test_types_become_schemas(kind, schema):
    assert schema_of(kind) == schema


def test_what_json_has_no_form_for_is_refused():
    with pytest.raises(PydanticUserError, match="Cannot generate a JsonSchema"):
        schema_of(Endpoint)
