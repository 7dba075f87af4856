"""What happened, what readers see, what the run can go back to, and what configured it, over REST."""

import json
from dataclasses import replace

import pytest

from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    ContainerHeartbeat,
    PromiseChanged,
    RunningOperator,
    SourceAsked,
    WindowPlanned,
    WindowRetried,
    WindowStarted,
)
from ridgeline.measure.marks import MarkFold
from ridgeline.observe.watch import Watch
from ridgeline.plan.edits import SetProperty
from ridgeline.service.origin import origin_of
from ridgeline.stram.changes import EditPlan
from support.service.living import living, numbers
from support.service.watched import Client, Now, feed, serving, watched
from support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def app():
    with living() as app:
        app.web.state.origin = origin_of(numbers(), app.planner, {"sums.factor": 2}, {})
        asked = app.run.changes.ask(
            EditPlan((SetProperty("sums", "factor", 3), SetProperty("numbers", "password", "sesame")), "why"),
            "ann",
        )
        assert asked.done.wait(PATIENCE_SECONDS)
        app.change = asked
        yield app


@pytest.fixture(scope="module")
def client(app):
    return Client(app.server.url, app.server.token)


def test_failures_and_promises_make_marks_once():
    fold = MarkFold(lambda number: f"operator {number}")
    promise = PromiseChanged(1.0, "latency_p99:store", "latency", "store", True, 1.0, 2.0, "s")
    events = [
        promise,
        WindowRetried(2.0, 7, 1, "the disk is full"),
        WindowRetried(2.5, 8, 1, "", final=True),
        replace(promise, at=3.0, kept=False, figure=3.0),
        replace(promise, at=4.0),
        SourceAsked(5.0, -1, 3, problem="gone"),
        SourceAsked(6.0, -1, 3, problem="gone for long"),
        SourceAsked(7.0, -1, 3),
    ]
    for event in events:
        fold.add(event)
    rows = fold.rows()
    assert [(row["at"], row["kind"], row["level"]) for row in rows] == [
        (2.0, "failure", "bad"),
        (3.0, "promise", "bad"),
        (4.0, "promise", "good"),
        (5.0, "source", "bad"),
        (7.0, "source", "good"),
    ]
    assert (rows[0]["windowId"], rows[0]["text"]) == (7, "window 7 runs again (attempt 2): the disk is full")
    assert fold.rows(1) == rows[-1:]


def test_a_sink_says_what_readers_see(client):
    [sink] = client.get("/sinks")["sinks"]
    assert (sink["operator"], sink["protocol"], sink["problem"]) == ("sink", "staged", "")
    assert sink["visibleWindow"] >= 0
    assert sink["timesPublished"] > 0


def test_a_source_has_its_partitions(client):
    answer = client.get("/progress")
    assert [row["operator"] for row in answer["sources"]] == ["numbers"]
    detail = client.get("/sources/numbers")
    assert (detail["operator"], detail["position"]) == ("numbers", None)
    assert "did you mean `numbers`" in str(client.get("/sources/number", 404))


def test_the_windows_to_go_back_to_have_their_command(app, client):
    answer = client.get("/checkpoints?limit=2")
    assert answer["note"] == ""
    newest, before = answer["windows"]
    assert newest["windowId"] == before["windowId"] + 1
    assert newest["command"].endswith(f"--from-window {newest['windowId']}")
    assert newest["stateBytes"] > 0


def test_values_have_their_layers_and_secrets_stay_hidden(client):
    answer = client.get("/configuration")
    values = {row["key"]: row for row in answer["values"]}
    assert answer["known"]
    assert (values["operator.sums.factor"]["value"], values["operator.sums.factor"]["layer"]) == (3, "change")
    assert [one["layer"] for one in values["operator.sums.factor"]["insteadOf"]] == ["program"]
    assert values["operator.numbers.per_window"]["layer"] == "default"
    assert values["operator.sums.partitions"]["layer"] == "code"
    assert values["operator.numbers.password"]["value"] == "***"
    assert "hunter2" not in str(answer)
    assert "sesame" not in str(answer)


# What `/healthz` and `/readyz` say of an application, from the start of its driver to its end ---------------


def health(client):
    status, _, body = client.ask("/healthz")
    assert status == 200
    return json.loads(body)["status"]


def readiness(client):
    status, headers, body = client.ask("/readyz")
    assert ("retry-after" in headers) == (status == 503)
    said = json.loads(body)
    return said.get("status") or said["error"].removeprefix("not ready: ")


@pytest.mark.parametrize("outcome", ["failed", "finished", "stopped"])
def test_from_the_start_to_the_end(outcome):
    watch, plan, rest, now = watched(until=0)
    with serving(Watch(Now()), plan) as client:
        assert health(client) == "pending"
    with serving(watch, plan, token="s3cret") as client:
        client.token = None  # neither needs one
        assert readiness(client) == "it has not committed its first window"
        feed(watch, now, *rest)
        now.seconds += 60  # nothing waits, and no window is under way
        assert (health(client), readiness(client)) == ("ok", "ready")
        feed(watch, now, ApplicationChanged(now.seconds, 1, "ann", "", "pause", "APPLIED"))
        assert health(client) == "paused"
        feed(watch, now, ApplicationChanged(now.seconds, 2, "ann", "", "resume", "APPLIED"))
        assert health(client) == "ok"
        feed(watch, now, ApplicationEnded(now.seconds, outcome, ""))
        assert (health(client), readiness(client)) == (outcome, f"it is {outcome}")


def test_a_window_that_does_not_move_is_stuck_and_one_that_moves_is_not():
    watch, plan, _, now = watched(until=3)
    began = now.seconds

    def beat(seconds, done):
        now.seconds = began + seconds
        running = RunningOperator(2, "running", seconds, {"payments": done}, {"payments": 100 - done})
        feed(watch, now, ContainerHeartbeat(now.seconds, 1, "vm", 1, now.seconds, 3, 0, began, (running,)))
        now.seconds += 0.5

    with serving(watch, plan) as client:
        feed(watch, now, WindowPlanned(began, 3, 0, began), WindowStarted(began, 3, 0))
        for second in range(1, 20):
            beat(second, second)
            assert health(client) == "ok", second
        for second in range(20, 30):
            beat(second, 19)  # its process lives, and its operator hangs
        assert health(client) == "stuck"
        beat(30, 25)
        assert health(client) == "ok"
