"""Readiness by `/readyz` from the start of a driver to its end, asked over HTTP."""

import json

import pytest

from ridgeline.measure.events import ApplicationEnded
from support.service.watched import feed, serving, watched


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


@pytest.mark.parametrize("outcome", ["failed", "finished", "stopped"])
def test_one_that_has_ended_is_not_ready(outcome):
    watch, plan, _, now = watched(until=3)
    feed(watch, now, ApplicationEnded(now.seconds, outcome, ""))
    with serving(watch, plan) as client:
        assert readiness(client) == (503, f"not ready: it is {outcome}")


def test_it_needs_no_token_and_shows_no_figures_of_operators():
    watch, plan, _, _ = watched(until=3)
    with serving(watch, plan, token="s3cret") as client:
        client.token = None
        assert readiness(client) == (200, "ready")
        assert client.ask("/ws/v2/stram/info")[0] == 401
