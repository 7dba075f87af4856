"""1,000 requests for changes that cannot be: each is refused with its reason, and nothing has changed."""

import http.client
import json
from random import Random

import pytest

from support.service.bad_requests import BASE, GOOD, bad_request
from support.service.living import living
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow
TOKENS = {"all": "everything", "read": "only-reading", "wrong": "everythin", "none": None}
REQUESTS = 250


def send(server, bad):
    """Status and decoded body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    token = TOKENS[bad.token]
    headers = {"Content-Type": bad.media_type, **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        connection.request(bad.method, bad.path, bad.body, {**headers, **bad.headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("seed", range(4))
def test_each_is_refused_and_the_application_is_untouched(seed, wait_until):
    random = Random(seed)
    with living(token=TOKENS["all"], read_token=TOKENS["read"]) as app:
        plan, kept = app.run.plan, app.planner.kept
        for number in range(REQUESTS):
            bad = bad_request(random)
            status, answer = send(app.server, bad)
            assert status in bad.statuses, (number, bad, answer)
            assert answer["error"].strip(), (number, bad, answer)
            assert "Error" not in answer["error"], (number, bad, answer)
        assert {row["state"] for row in app.run.changes.rows()} <= {"REFUSED"}
        assert app.run.plan is plan
        assert (app.planner.kept, app.planner.kept_edits) == (kept, ())
        before = app.run.next_window
        wait_until(lambda: app.run.next_window > before + 5, "windows after all of them")
        app.end_windows()
        values = [number.value for number in app.collected()]
        assert sorted(values) == list(range(len(values)))
        assert len(values) == 3 * app.run.next_window


def test_who_asks_too_late_is_told():
    with living(token=TOKENS["all"]) as app:
        good = json.dumps({"edits": [GOOD]}).encode()
        status, row = send(app.server, request("changes", good))
        assert (status, row["state"]) == (200, "APPLIED")
        status, answer = send(app.server, request("changes/1/withdraw"))
        assert (status, answer["error"]) == (409, "change 1 does not wait any more: it is APPLIED")
        assert send(app.server, request("changes/2/withdraw"))[0] == 404
        app.end_windows()
        for path in ("pause", "resume", "shutdown", "kill"):
            assert send(app.server, request(path)) == (
                409,
                {"error": "the application has ended", "hint": ""},
            )
        status, answer = send(app.server, request("changes", good))
        assert (status, answer["error"]) == (409, "the application has ended")
        dry = json.dumps({"edits": [GOOD], "dryRun": True}).encode()
        assert send(app.server, request("changes", dry))[0] == 409


def request(path, body=b"{}"):
    from support.service.bad_requests import Bad

    return Bad(f"{BASE}/{path}", body)
