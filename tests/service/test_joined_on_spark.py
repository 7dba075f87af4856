"""An application of several regions on Spark, watched and changed: by REST, by scripts, by commands."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import urlsplit

import pytest

from ridgeline import Application, ChangeError
from ridgeline.measure.events import WindowCommitted
from ridgeline.operators._sql_engine import QueryError
from ridgeline.plan.region import IDS
from ridgeline.service.history.tail import read_event_log
from ridgeline.testing import CollectorSink
from support.service.asking import BASE, ask
from support.service.regions import Number, Numbers, PassOn
from support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def application() -> Application:
    app = Application("fan", window="20ms")
    numbers = app.add_operator("numbers", Numbers())
    near = app.add_operator("near", PassOn())
    fast = app.add_operator("fast", CollectorSink(Number))
    gate = app.add_operator("gate", PassOn())
    slow = app.add_operator("slow", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, near.numbers, gate.numbers, decoupled={gate.numbers})
    app.add_stream("nearby", near.passed, fast.input)
    app.add_stream("passed", gate.passed, slow.input)
    return app


class Rest:
    """The web service of a running application."""

    def __init__(self, handle: Any) -> None:
        from ridgeline.service.registry import find

        self._entry = find(handle.url)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """The status and the answer; POST if there is a body."""
        method = "GET" if body is None else "POST"
        return ask(urlsplit(self._entry.url), f"{BASE}{path}", method, body, self._entry.token)[:2]

    def get(self, path: str) -> Any:
        status, answer = self.ask(path)
        assert status == 200, answer
        return answer

    def post(self, path: str, **body: Any) -> Any:
        status, answer = self.ask(path, body)
        assert status == 200, answer
        return answer


@pytest.fixture
def fan(spark_context, tmp_path):
    handle = application().start(
        context=spark_context,
        checkpoint=str(tmp_path / "checkpoint"),
        event_log=str(tmp_path / "log.jsonl"),
        quiet=True,
    )
    with handle:
        yield handle, Rest(handle)


def queue(rest: Rest) -> Any:
    (row,) = rest.get("/progress")["queues"]
    return row


def test_a_region_is_stopped_and_started(fan, wait_until, tmp_path):
    handle, rest = fan
    wait_until(lambda: len(handle.collected("slow")) >= 50, "some at the sink")
    names = {row["name"]: row for row in rest.get("/regions")["regions"]}
    assert {name: row["state"] for name, row in names.items()} == {"numbers": "RUNNING", "gate": "RUNNING"}
    assert names["gate"]["operators"] == ["numbers_to_gate", "gate", "slow"]

    assert rest.post("/regions/gate/stop")["state"] == "STOPPED"
    seen = len(handle.collected("fast"))
    wait_until(lambda: len(handle.collected("fast")) > seen + 100, "the other region goes on")
    wait_until(lambda: queue(rest)["backlogRecords"] > 100, "the queue keeps what comes")
    row = queue(rest)
    assert row["backlogSeconds"] > 0
    assert row["readPerSecond"] == 0
    assert row["fullInSeconds"] is not None
    sentence = rest.get("/sentence")["text"]
    assert "region gate is stopped, queue numbers keeps " in sentence
    assert "and has room for 59 min" in sentence
    with pytest.raises(ChangeError, match="region `gate` is stopped; start it first"):
        handle.set_property("gate", "note", "x")
    assert rest.ask("/regions/gate/stop", {})[0] == 409
    status, answer = rest.ask("/regions/gaet/start", {})
    assert (status, "did you mean `gate`" in answer["hint"]) == (404, True)

    assert rest.post("/regions/gate/start")["state"] == "RUNNING"
    assert rest.ask("/regions/gate/start", {})[0] == 409
    wait_until(lambda: queue(rest)["backlogRecords"] < 100, "the queue is processed")
    for name in ("log-gate.jsonl", "log-gate-2.jsonl"):
        assert any(isinstance(event, WindowCommitted) for event in read_event_log(str(tmp_path / name)))
    assert all(region.watch.subscribers_dropped == 0 for region in handle.watch.regions)
    for sink in ("fast", "slow"):
        values = [number.value for number in handle.collected(sink)]
        assert values == list(range(values[0], values[0] + len(values)))


def test_changes_go_to_their_region(fan, wait_until):
    handle, rest = fan
    wait_until(lambda: len(handle.collected("slow")) >= 10, "some at the sink")
    handle.set_property("gate", "note", "one")
    (row,) = [one for one in rest.get("/changes")["changes"] if "note" in one["what"]]
    number = next(one["number"] for one in rest.get("/regions")["regions"] if one["name"] == "gate")
    assert row["id"] // IDS == number
    assert row["state"] == "APPLIED"
    assert rest.get(f"/changes/{row['id']}")["what"] == row["what"]
    edit = {"do": "set-property", "operator": "gate", "property": "note", "value": "by REST"}
    changed = rest.post("/changes", edits=[edit])
    assert (changed["id"] // IDS, changed["state"]) == (number, "APPLIED")
    assert rest.get("/logicalPlan/operators/gate/properties")["note"] == "by REST"
    edits = [
        {"do": "set-attribute", "operator": "numbers", "attribute": "memory_mb", "value": 300},
        {"do": "set-property", "operator": "gate", "property": "note", "value": "two"},
    ]
    status, answer = rest.ask("/changes", {"edits": edits})
    assert status == 409
    assert "several regions (`numbers` is in region `numbers`, `gate` is in" in answer["error"]
    assert "change one region at a time" in answer["hint"]
    handle.repartition("gate", 2)
    titles = {one["operator"] for one in rest.get("/physicalPlan/operators")["operators"]}
    assert {"gate[0]", "gate[1]"} <= titles
    assert rest.post("/pause")["state"] == "APPLIED"
    wait_until(lambda: {r["state"] for r in rest.get("/regions")["regions"]} == {"PAUSED"}, "all pause")
    assert rest.post("/resume")["state"] == "APPLIED"
    wait_until(lambda: {r["state"] for r in rest.get("/regions")["regions"]} == {"RUNNING"}, "all run")
    assert "decoupled" in json.dumps(rest.get("/specification"))


def test_a_line_of_the_driver_is_kept_once_for_all_regions(fan):
    _, rest = fan
    extra = {"application": "fan", "operator": "gate", "partition": 0}
    logging.getLogger("ridgeline.test").warning("about the gate", extra=extra)
    lines = [line for line in rest.post("/log")["lines"] if line["text"] == "about the gate"]
    assert [(line["operator"], line["region"]) for line in lines] == [("gate", "gate")]


def test_data_of_each_region_can_be_looked_at(fan, wait_until):
    handle, rest = fan
    wait_until(lambda: len(handle.collected("slow")) >= 10, "some at the sink")
    for stream in ("numbers", "passed", "gate.passed"):
        assert handle.tail(stream, 3, timeout=PATIENCE_SECONDS)
    tables = handle.query("select count(*) as n from passed", times=1, timeout=PATIENCE_SECONDS)
    assert next(iter(tables)).num_rows == 1
    with pytest.raises((QueryError, ChangeError), match="of several regions"):
        next(handle.query("select * from nearby join passed using (value)", times=1))
    recording = handle.start_recording("gate", windows=1_000, timeout=PATIENCE_SECONDS)
    wait_until(lambda: handle.recordings()[0]["tuples"] > 0, "it records")
    handle.stop_recording(recording, timeout=PATIENCE_SECONDS)
    (row,) = rest.get("/recordings")["recordings"]
    assert (row["id"], row["region"]) == (recording, "gate")
    dump = rest.get("/debugDump")
    assert {event["region"] for event in dump["events"]} == {"numbers", "gate"}
    assert [event["at"] for event in dump["events"]] == sorted(event["at"] for event in dump["events"])
    keys = rest.get("/keys")
    assert "operators" in keys


def test_figures_cross_the_queue(fan, wait_until):
    handle, rest = fan
    paths: list[Any] = []

    def crosses() -> bool:
        paths.append(rest.get("/criticalPath"))
        return "waits in queue" in str(paths[-1]["path"])

    wait_until(crosses, "a path through it")
    path = paths[-1]
    titles = [step["operator"] for step in path["path"]]
    assert titles[0] == "numbers"
    assert titles.index("waits in queue numbers") < titles.index("numbers_to_gate")
    assert set(path["windows"]) == {"numbers", "gate"}
    assert sum(step["ms"] for step in path["blame"]) == pytest.approx(path["windowLatencyMs"], abs=0.01)
    status, answer = rest.ask("/latency?windowId=1")
    assert (status, answer["error"]) == (400, "window 1 may be one of each region")
    assert {row["region"] for row in rest.get("/latency?region=gate")["operators"]} == {"gate"}
    window = rest.get("/windows?region=gate&limit=1")["windows"][0]
    assert rest.get(f"/windows/{window['windowId']}?region=gate")["windowId"] == window["windowId"]
    assert handle.critical_path().num_rows > 0
    assert handle.latency().num_rows == 7
