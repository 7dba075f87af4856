"""The web service, asked over HTTP about an application that ran in process."""

import json

import pytest

from ridgeline.measure.events import ContainerHeartbeat, RunningOperator, WindowStarted
from ridgeline.service.http.bodies import to_json
from support.service.watched import BASE, feed, serving, watched


@pytest.fixture(scope="module")
def client():
    watch, plan, _, _ = watched()
    with serving(watch, plan) as client:
        yield client


def test_the_index_leads_on(client):
    index = json.loads(client.ask("/")[2])
    assert index["name"] == "payments"
    assert all(client.ask(link, "HEAD")[0] == 200 for link in index["links"].values())


def test_the_logical_plan_has_apex_s_names(client):
    plan = client.get("/logicalPlan")
    assert [operator["name"] for operator in plan["operators"]] == ["source", "balances", "sink"]
    stream = plan["streams"][0]
    assert stream["source"] == {"operatorName": "source", "portName": "output"}
    assert stream["sinks"] == [{"operatorName": "balances", "portName": "payments"}]
    assert [stream[name] for name in ("name", "locality", "localities")] == ["payments", None, [None]]
    assert plan["operators"][1]["attributes"]["partitions"] == 2


def test_a_logical_operator_sums_over_its_partitions(client):
    balances = client.get("/logicalPlan/operators/balances")
    rows = [
        row for row in client.get("/physicalPlan/operators")["operators"] if row["logicalName"] == "balances"
    ]
    partitions = [row for row in rows if row["unifierClass"] is None]
    assert balances["totalTuplesProcessed"] == 20
    assert balances["totalTuplesEmitted"] == sum(row["totalTuplesEmitted"] for row in partitions)
    assert balances["partitions"] == [row["id"] for row in partitions]
    assert balances["unifiers"] == [row["id"] for row in rows if row["unifierClass"]]
    assert sum(balances["status"].values()) == len(rows)
    assert balances["currentWindowId"] == 4
    assert client.get("/logicalPlan/operators")["operators"][1] == balances


def test_ports(client):
    ports = {port["name"]: port for port in client.get("/logicalPlan/operators/balances/ports")["ports"]}
    assert {name: (port["type"], port["connected"]) for name, port in ports.items()} == {
        "payments": ("input", True),
        "balances": ("output", True),
        "rejected": ("output", False),
    }
    assert client.get("/physicalPlan/operators/1")["ports"][0]["totalTuples"] == 20


def test_properties_show_no_secrets(client):
    assert client.get("/logicalPlan/operators/source/properties") == {
        "limit": "inf",
        "password": "***",
        "url": "jdbc:postgresql://ann:***@db/sales",
        "windows": 5,
    }
    assert client.get("/logicalPlan/operators/balances/properties?propertyName=options") == {
        "options": {"user": "ann", "secret": "***"}
    }
    assert all(
        b"hunter2" not in client.ask(path)[2] for path in (f"{BASE}/logicalPlan", "/metrics", f"{BASE}/info")
    )


def test_the_physical_plan(client):
    plan = client.get("/physicalPlan")
    assert [row["operator"] for row in plan["operators"]] == [
        "source",
        "balances[0]",
        "balances[1]",
        "balances.balances#unifier",
        "sink",
    ]
    assert plan["streams"] == client.get("/physicalPlan/streams")["streams"]
    assert plan["streams"][0]["source"] == {"operatorId": 1, "portName": "output"}
    assert client.get("/physicalPlan/operators/3") == plan["operators"][2]


def test_record_age_is_exact(client):
    rows = client.get("/recordAge")["operators"]
    assert {
        (row["operator"], row["at"], row["minMs"], row["maxMs"], row["avgMs"], row["count"]) for row in rows
    } == {
        ("source", "source", 3000.0, 3000.0, 3000.0, 20),
        ("sink", "emit", 3000.0, 3000.0, 3000.0, 15),
        ("sink", "commit", 3000.0, 3000.0, 3000.0, 15),
        ("sink", "publish", 3000.0, 3000.0, 3000.0, 15),
    }
    assert client.get("/recordAge?operator=sink")["operators"] == rows[1:]


@pytest.mark.parametrize(
    ("status", "path", "words"),
    [
        (404, "/logicalPlan/operators/balance", ("operator `balance`", "did you mean `balances`?")),
        (404, "/logicalPlan/operators/source/properties?propertyName=pasword", ("did you mean `password`?",)),
        (404, "/physicalPlan/operators/9", ("there is no operator 9", "there are 1, 2, 3, 4, 5")),
        (404, "/physicalPlan/containers/9/stackTrace", ("there is no container 9", "there are 0, 1, 2, 3")),
        (404, "/windows/9", ("window 9 is not known", "kept are 0 to 4")),
        (404, "/criticalPath?windowId=9", ("window 9 is not known", "kept are 0 to 4")),
        (404, "/recordAge?operator=snk", ("`snk` is not an operator", "did you mean `sink`?")),
        (404, "/critcalPath", (f"there is no `{BASE}/critcalPath`", f"`{BASE}/criticalPath`?")),
        (400, "/physicalPlan/operators/source", ("`id` must be a whole number, at least 0; got `source`",)),
        (400, "/windows?limit=0", ("`limit` must be a whole number, at least 1; got `0`",)),
        (400, "/latency?windowId=1.5", ("`windowId` must be a whole number, at least 0; got `1.5`",)),
        (400, "/windows/-1", ("`id` must be a whole number, at least 0; got `-1`",)),
        (400, "/physicalPlan/containers?states=dead", ("`states` has `DEAD`",)),
        (400, "/latency?window=2", (f"`{BASE}/latency` has no parameter `window`",)),
        (400, "/info?x=1", (f"`{BASE}/info` has no parameter `x`",)),
    ],
)
def test_what_cannot_be_answered_has_its_reason_and_a_hint(client, status, path, words):
    answer = client.get(path, status)
    assert [one for one in words if one not in f"{answer['error']}; {answer['hint']}"] == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_figures_cannot_be_written(client, method):
    status, headers, body = client.ask(f"{BASE}/info", method)
    assert status == 405
    assert set(headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert json.loads(body) == {
        "error": f"`{method}` is not allowed here",
        "hint": "use GET; the description says where POST is",
    }


def test_head_has_headers_only(client):
    status, headers, body = client.ask(f"{BASE}/info", "HEAD")
    assert (status, body) == (200, b"")
    assert headers["content-type"] == "application/json"
    assert client.ask(f"{BASE}/live", "HEAD")[0] == 200


def test_other_origins_are_not_let_in(client):
    _, headers, _ = client.ask(f"{BASE}/info", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in headers
    assert client.ask(f"{BASE}/info", "OPTIONS")[0] == 405


def test_a_stack_that_can_be_had_is_shown_beside_the_last_known_one():
    watch, plan, rest, now = watched(until=1)
    feed(watch, now, *rest[:2])
    assert isinstance(rest[1], WindowStarted)
    running = RunningOperator(1, "running", seconds=2.0)
    feed(
        watch,
        now,
        ContainerHeartbeat(
            now.seconds + 2, 0, "vm", 77, now.seconds + 2, 1, 0, now.seconds, (running,), "in emit_tuples"
        ),
    )
    with serving(watch, plan, stack_of=lambda host, pid: f"{pid}@{host} is in sleep") as client:
        found = client.get("/physicalPlan/containers/0/stackTrace")
        assert (found["stack"], found["fresh"]) == ("in emit_tuples", "77@vm is in sleep")
        assert client.get("/physicalPlan/operators/1")["status"] == "ACTIVE"


def test_json_has_neither_nan_nor_infinity():
    assert (
        to_json({"a": [float("nan"), 1.5, {"b": float("inf")}], "c": "ä"})
        == '{"a":[null,1.5,{"b":null}],"c":"ä"}'.encode()
    )


def test_a_fault_of_the_service_is_an_answer_and_no_end():
    watch, plan, _, _ = watched()
    watch.streams = None
    with serving(watch, plan) as client:
        assert client.get("/physicalPlan/streams", 500)["error"] == "the service failed: TypeError"
        assert client.get("/info")["name"] == "payments"
