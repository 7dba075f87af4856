"""Requests for changes that cannot be: each is refused with its reason, and nothing has changed."""

import itertools
import json
from random import Random

import pytest

from support.service.asking import BASE, ask
from support.service.living import living

TOKENS = {"token": "everything", "read_token": "only-reading"}
GOOD = {"do": "set-property", "operator": "sums", "property": "factor", "value": 1}
ADD = {"do": "add-operator", "name": "more", "spec": {"class": "support.service.living.Words"}}
TO_ADDED = {"do": "add-sink", "stream": "sums", "sink": "more.input"}
CONSOLE = {"do": "add-operator", "name": "console", "spec": {"class": "ridgeline.operators.ConsoleOutput"}}
TO_CONSOLE = {"do": "add-sink", "stream": "sums", "sink": "console.input"}
RENAME = {"do": "rename-operator", "name": "sums", "new": "added"}
ATTRIBUTE = {"do": "set-attribute", "operator": "sums", "attribute": "partitions"}
NAMES = (" ", "cuont", "sums ", "../etc", "sums.input.x", "ä", "\x00", "a" * 5_000, "0")
"""Of nothing."""
NO_TEXTS = (7, 1.5, True, [], {}, ["a"], {"a": 1})


def send(server, path, body, method="POST", token=TOKENS["token"], **headers):
    """Status and answer."""
    return ask(server, f"{BASE}/{path}", method, body, token, **headers)[:2]


def no_requests():
    """Bodies for `/changes` that are no request."""
    whole = json.dumps({"edits": [GOOD]}).encode()
    yield from (whole[:end] for end in range(1, len(whole), 9))
    yield from (Random(seed).randbytes(1 + 40 * seed) for seed in range(5))
    yield from ([], 1, b"null", "x", [GOOD])
    yield from ({name: [GOOD]} for name in ("edit", "Edits", ""))
    for depth in (60, 500, 100_000):
        yield b'{"edits": ' + b"[" * depth + b"]" * depth + b"}"
    for value in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b"1" * 5_000):
        yield json.dumps({"edits": [{**GOOD, "value": "HERE"}]}).encode().replace(b'"HERE"', value)
    yield {"edits": [GOOD], "note": "n" * 1_001}


def no_edits():
    """Lists of edits that are none."""
    yield from ([], [[]], [None], ["x"], [GOOD] * 1_001, "edits", {}, 3)
    yield from ([{**GOOD, name: 1}] for name in NAMES)
    for field in GOOD:
        yield [{name: value for name, value in GOOD.items() if name != field}]
    for field, value in itertools.product(("do", "operator", "property"), NO_TEXTS):
        yield [{**GOOD, field: value}]
    yield from ([{**GOOD, "do": word}] for word in ("set_property", "drop", "", "SET-PROPERTY", "eval"))


def impossible():
    """Edits that this application cannot have."""
    for name in NAMES:
        yield [{**GOOD, "operator": name}]
        yield [{**GOOD, "property": name}]
        yield [{"do": "repartition", "operator": name, "partitions": 2}]
        yield [{**ADD, "spec": {"class": name}}, TO_ADDED]
        yield [{"do": "remove-operator", "name": name}]
        yield [{"do": "remove-stream", "name": name}]
        yield [CONSOLE, {**TO_CONSOLE, "stream": name}]
        yield [{**TO_ADDED, "sink": name}]
        yield [{**ATTRIBUTE, "attribute": name, "value": 1}]
        yield [{**ATTRIBUTE, "value": name, "port": "input"}]
    for value in ("x", [1], {"a": 1}, None, 1.5, "1.5"):
        yield [{**GOOD, "value": value}]
    for partitions in (0, -1, 10**9, 10**30):
        yield [{"do": "repartition", "operator": "sums", "partitions": partitions}]
    for kind in ("os.system", "no.such.Class", "json", "", "a b", "ridgeline.KeyedState"):
        yield [{**ADD, "spec": {"class": kind}}, TO_ADDED]
    for sink in ("sink", "sink.", ".input", "sink.output", "sink.input.x", "sums.sums"):
        yield [{**TO_ADDED, "sink": sink}]
    yield [{**ADD, "spec": {**ADD["spec"], "properties": {"nothing": 1}}}, TO_ADDED]
    yield [ADD, TO_ADDED]  # not its type
    yield [{"do": "remove-operator", "name": "numbers"}]
    yield [{"do": "remove-stream", "name": "numbers"}]


def conflicting():
    """Edits of which each could be, and all together cannot."""
    yield [{"do": "remove-operator", "name": "sums"}, GOOD]
    yield [CONSOLE, CONSOLE, TO_CONSOLE]
    yield [CONSOLE, TO_CONSOLE, TO_CONSOLE]
    yield [CONSOLE]  # nothing leads to it
    yield [
        CONSOLE,
        {"do": "add-stream", "name": "again", "source": "sums.output", "sinks": ["console.input"]},
    ]
    yield [{**TO_CONSOLE, "sink": "sums.input"}]
    yield [{**RENAME, "new": "sink"}]
    yield [RENAME, GOOD]


def bad_requests():
    """Path, body, and the statuses that are right."""
    yield from (("changes", body, {400}) for body in no_requests())
    yield "changes", b'{"edits": ["' + b"x" * 1_100_000 + b'"]}', {413}
    for edits in (*no_edits(), *impossible(), *conflicting()):
        yield "changes", {"edits": edits}, {400, 409}
    for name, value in itertools.product(("wait", "dryRun"), (-1, 31, "x", [])):
        yield "changes", {"edits": [GOOD], name: value}, {400, 409}


OF_OTHERS = (
    ("changes", {"edits": [{**GOOD, "value": 2}]}),
    ("pause", {}),
    ("shutdown", {}),
    ("kill", {}),
    ("recordings", {"operator": "sums"}),
    ("changes/1/withdraw", {}),
)
"""What would be done, if another had asked for it."""


@pytest.mark.slow
def test_each_is_refused_and_the_application_is_untouched(wait_until):
    with living(**TOKENS) as app:
        plan, kept = app.run.plan, app.planner.kept
        for path, body, statuses in bad_requests():
            status, answer = send(app.server, path, body)
            assert status in statuses, (path, body, answer)
            assert answer["error"].strip(), (path, body)
            assert "Error" not in answer["error"], (path, body, answer)
        for media_type in ("text/plain", "", "application/x-www-form-urlencoded", "multipart/a"):
            assert send(app.server, "changes", {"edits": [GOOD]}, Content_Type=media_type)[0] == 415
        for path, body in OF_OTHERS:
            for token in (None, "everythin", TOKENS["read_token"]):
                assert send(app.server, path, body, token=token)[0] in {401, 403}, (path, token)
            for host in ("evil.example", "evil.example:80", ""):
                assert send(app.server, path, body, Host=host)[0] in {401, 403}, (path, host)
            for method in ("PUT", "DELETE", "PATCH"):
                assert send(app.server, path, body, method=method)[0] in {404, 405}, (path, method)
        assert {row["state"] for row in app.run.changes.rows()} <= {"REFUSED"}
        assert app.run.plan is plan
        assert app.planner.kept == kept
        before = app.run.next_window
        wait_until(lambda: app.run.next_window > before + 5, "windows after all of them")
        app.end_windows()
        values = [number.value for number in app.collected()]
        assert sorted(values) == list(range(len(values)))
        assert len(values) == 3 * app.run.next_window


def test_who_asks_too_late_is_told():
    with living(**TOKENS) as app:
        status, row = send(app.server, "changes", {"edits": [GOOD]})
        assert (status, row["state"]) == (200, "APPLIED")
        status, answer = send(app.server, "changes/1/withdraw", {})
        assert (status, "does not wait any more: it is APPLIED" in answer["error"]) == (409, True)
        assert send(app.server, "changes/2/withdraw", {})[0] == 404
        app.end_windows()
        ended = {"error": "the application has ended", "hint": ""}
        for path in ("pause", "resume", "shutdown", "kill"):
            assert send(app.server, path, {}) == (409, ended)
        for body in ({"edits": [GOOD]}, {"edits": [GOOD], "dryRun": True}):
            assert send(app.server, "changes", body)[0] == 409
