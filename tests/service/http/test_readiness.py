"""Readiness by `/readyz` from the start of a driver to its end, asked over HTTP."""

import json

import pytest

from ridgeline.measure.events import ApplicationChanged, ApplicationEnded, WindowPlanned, WindowStarted
from ridgeline.observe.watch import Watch
from support.service.watched import Now, feed, serving, watched


def readiness(client):
    status, headers, body = client.ask("/readyz")
    assert ("retry-after" in headers) == (status == 503)
    said = json.loads(body)
    return status, said.get("status") or said["error"]


def test_it_is_ready_once_a_window_is_committed():
    for until, expected in (
        (0, (503, "not ready: it has not committed its first window")),
        (1, (200, "ready")),
    ):
        watch, plan, _, _ = watched(until=until)
        with serving(watch, plan) as client:
            assert readiness(client) == expected


def test_before_the_run_is_planned_it_is_not_ready():
    _, plan, _, _ = watched(until=0)
    with serving(Watch(Now()), plan) as client:
        assert readiness(client) == (503, "not ready: it starts: nothing is planned yet")


@pytest.mark.parametrize("outcome", ["failed", "finished", "stopped"])
def test_one_that_has_ended_is_not_ready(outcome):
    watch, plan, _, now = watched(until=3)
    feed(watch, now, ApplicationEnded(now.seconds, outcome, ""))
    with serving(watch, plan) as client:
        assert readiness(client) == (503, f"not ready: it is {outcome}")


def test_a_pause_is_ready_and_a_window_that_hangs_is_not():
    watch, plan, _, now = watched(until=3)
    with serving(watch, plan) as client:
        feed(watch, now, ApplicationChanged(now.seconds, 1, "ann", "", "pause", "APPLIED"))
        assert readiness(client) == (200, "ready")
        feed(watch, now, ApplicationChanged(now.seconds, 2, "ann", "", "resume", "APPLIED"))
        feed(watch, now, WindowPlanned(now.seconds, 3, 0, now.seconds), WindowStarted(now.seconds, 3, 0))
        now.seconds += 3600
        assert readiness(client) == (503, "not ready: it is stuck")


def test_it_needs_no_token_and_shows_no_figures_of_operators():
    watch, plan, _, _ = watched(until=3)
    with serving(watch, plan, token="s3cret") as client:
        client.token = None
        assert readiness(client) == (200, "ready")
        assert client.ask("/ws/v2/stram/info")[0] == 401
