"""The lines that a bundle keeps: chosen as live ones are, and for who has the token alone."""

import http.client
import json
import zipfile

import pytest

from ridgeline.service.history.asking import LogAsks
from ridgeline.service.history.bundling import LOG, entry_of, make_bundle
from support.service.history import BASE, events, history, place, write_log

LINES = [
    {
        "number": 1,
        "at": 1.0,
        "operator": "numbers",
        "partition": 0,
        "level": "",
        "text": "one",
        "region": "shop",
    },
    {"number": 2, "at": 2.0, "operator": "sum.first", "partition": 0, "level": "", "text": "two"},
    {"number": 3, "at": 3.0, "operator": "sum.first", "partition": 1, "level": "ERROR", "text": "three"},
    {"number": 4, "at": 4.0, "operator": "", "partition": None, "level": "", "text": "four"},
]


@pytest.fixture
def log(tmp_path):
    return write_log(tmp_path / "one.jsonl", events(3))


def bundle(log, answer):
    file = log.with_suffix(".zip")
    make_bundle(LogAsks(log), file, made=2_000.0)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr(entry_of(LOG, {}), answer if isinstance(answer, str) else json.dumps(answer))
    return file


def lines(client, file, body, *, token=None, status=200, **headers):
    """The answer to `/log` of a run."""
    connection = http.client.HTTPConnection(client.host, client.port, timeout=30)
    sent = {"content-type": "application/json", **headers}
    sent |= {"authorization": f"Bearer {token}"} if token else {}
    connection.request("POST", f"{place(file)}{BASE}/log", json.dumps(body), sent)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    assert response.status == status, answer
    return answer


def test_lines_need_the_token_and_figures_do_not(log):
    file = bundle(log, {"lines": LINES, "last": 4, "leftOut": 0})
    with history(file) as client:
        assert "the token is missing" in lines(client, file, {}, status=401)["error"]
        assert "token" in lines(client, file, {}, token="wrong", status=401)["error"]
        token = client.server.write_token
        assert len(lines(client, file, {}, token=token)["lines"]) == 4
        other = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        lines(client, file, {}, status=401, **other)
        assert "text" not in json.dumps(client.of(file, "/info"))
        assert client.ask(f"{place(file)}{BASE}/log", "GET")[0] == 401


def test_lines_are_chosen_as_live_ones_are(log):
    file = bundle(log, {"lines": LINES, "last": 4, "leftOut": 0})
    with history(file) as client:
        token = client.server.write_token

        def texts(**body):
            return [line["text"] for line in lines(client, file, body, token=token)["lines"]]

        assert texts(operator="sum") == texts(operator="sum.first") == ["two", "three"]
        assert texts(operator="sum", partition=1) == ["three"]
        assert texts(after=2) == ["three", "four"]
        assert texts(limit=1) == ["four"]
        assert texts(region="shop") == ["one"]
        assert "by container" in lines(client, file, {"container": 1}, token=token, status=400)["error"]
        assert "there is no `op`" in lines(client, file, {"op": "x"}, token=token, status=400)["error"]


@pytest.mark.parametrize("damage", ["{", "[]", '{"lines": 3}', '{"lines": [{}]}', '{"lines": ["x"]}', "null"])
def test_damaged_lines_are_refused(log, damage):
    file = bundle(log, damage)
    with history(file) as client:
        assert "damaged" in lines(client, file, {}, token=client.server.write_token, status=409)["error"]


def test_an_event_log_keeps_none(log):
    with history(log) as client:
        answer = lines(client, log, {}, token=client.server.write_token, status=404)
        assert "ridgeline bundle APP" in answer["hint"]
        assert client.json(f"{place(log)}/page/session")["log"] is False
