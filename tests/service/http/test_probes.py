"""What `/healthz` and `/readyz` say of an application, from the start of its driver to its end."""

import json

import pytest

from ridgeline.measure.events import (
    ApplicationChanged,
    ApplicationEnded,
    ContainerHeartbeat,
    RunningOperator,
    WindowPlanned,
    WindowStarted,
)
from ridgeline.observe.watch import Watch
from support.service.watched import Now, feed, serving, watched


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
