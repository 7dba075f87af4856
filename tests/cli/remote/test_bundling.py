"""Bundles: made of a running application or of a log, opened in a history, and files that only look so."""

import json
import stat
import zipfile

import pytest

from ridgeline.service.history.asking import LogAsks
from ridgeline.service.history.bundling import INDEX, make_bundle
from ridgeline.service.history.listing import logs_in
from ridgeline.service.history.runs import id_of
from support.service.history import events, history, write_log
from support.service.living import living
from support.service.watched import BASE, events_of, payments
from support.waiting import wait_until

PARTS = (
    *("/logicalPlan", "/physicalPlan", "/configuration", "/windows", "/history", "/marks", "/debugDump"),
    *("/checkpoints", "/changes", "/decisions", "/versions", "/sinks", "/promises", "/advice"),
    *("/logicalPlan/operators/sums/history", "/logicalPlan/operators/numbers/properties"),
)


def run_at(bundle):
    [log] = logs_in(bundle)
    return f"/run/{id_of(log.path.resolve(), log.run)}"


def test_a_running_application_in_one_file_without_its_secrets(tmp_path, ridgeline_command):
    file = tmp_path / "ticket.zip"
    with living() as application:
        url = application.server.url
        wait_until(lambda: len(application.watch.windows()) > 5, "windows")
        reader = ridgeline_command("bundle", url, "-o", str(tmp_path / "reader.zip"), "--windows", "0")
        token = application.server.write_token
        result = ridgeline_command("bundle", url, "-o", str(file), "--windows", "4", "--token", token)
    assert "says: /log\n" in reader.stderr, "lines of operators may have tuples"
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{file}: numbers, ")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as opened:
        everything = b"".join(opened.read(name) for name in opened.namelist())
        index = json.loads(opened.read(INDEX))
        assert json.loads(opened.read("rest/log.json"))["lines"] == []
    assert b"hunter2" not in everything
    assert index["missing"] == {}
    assert index["versions"]["python"].startswith("3.")
    with history(file) as client:
        place = run_at(file)
        for path in PARTS:
            client.json(place + BASE + path)
        windows = client.json(f"{place}{BASE}/windows")["windows"]
        last, older = windows[-1]["windowId"], windows[-5]["windowId"]
        for path in (f"/windows/{last}", f"/latency?windowId={last}", f"/criticalPath?windowId={last}"):
            assert client.json(place + BASE + path)["windowId"] == last
        assert "does not have this" in client.json(f"{place}{BASE}/windows/{older}", 404)["error"]
        assert client.json(f"{place}{BASE}/marks?limit=1")["marks"] == []
        assert client.json(f"{place}{BASE}/pause", 409, "POST")["hint"]
        [row] = client.json("/runs")["runs"]
        assert row["file"] == "ticket.zip"


def test_a_bundle_of_a_log_opens_as_the_log_does(tmp_path, ridgeline_command):
    _, found = events_of(payments())
    log, file = write_log(tmp_path / "run.jsonl", found), tmp_path / "run.zip"
    result = ridgeline_command("bundle", str(log), "-o", str(file))
    assert result.exit_code == 0, result.stderr
    said = "not in the bundle, as its `index.json` says: /specification, /keys, /debugDump, /log"
    assert result.stderr.splitlines() == [said]
    with history(log, file, runs=lambda _: True) as client:
        [run] = logs_in(log)
        places = [f"/run/{id_of(log.resolve(), run.run)}", run_at(file)]
        for path in (
            "/windows/3",
            "/latency?windowId=2",
            "/criticalPath",
            "/sinks",
            "/metrics?operator=balances",
        ):
            first, second = (client.json(place + BASE + path) for place in places)
            assert first == second, path
        compared = client.json(f"{places[0]}{BASE}/compare?with={places[1].rpartition('/')[2]}")
        assert all(row["difference"] in (0, None) for row in compared["figures"])
    again = ridgeline_command("bundle", str(log), "-o", str(file))
    assert (again.exit_code, "exists already" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({}, "is no bundle"),
        ({INDEX: b"[1]"}, "is no bundle"),
        ({INDEX: b"[" * 100_000}, "is no bundle"),
        ({INDEX: b'{"bundle": "ridgeline", "format": 99}'}, "of another version"),
        ({INDEX: b'{"bundle": "ridgeline", "format": 1}'}, "does not have this"),
        ({INDEX: b'{"bundle": "ridgeline", "format": 1}', "rest/info.json": b"{"}, "is damaged"),
        ({INDEX: b"0" * 20_000_000}, "is no bundle"),
        (None, "is no bundle"),
    ],
)
def test_what_is_no_bundle_is_refused(tmp_path, entries, why):
    file = tmp_path / "some.zip"
    if entries is None:
        file.write_bytes(b"PK\x03\x04 torn")
    else:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
            for name, content in entries.items():
                opened.writestr(name, content)
    with history(file) as client:
        status, _, body = client.ask(f"{run_at(file)}{BASE}/info")
        assert status in {404, 409}
        assert why in json.loads(body)["error"]
        client.json("/runs")
    write_log(tmp_path / "run.jsonl", events(1))
    with history(tmp_path) as client:
        names = [row["file"] for row in client.json("/runs")["runs"]]
    assert "run.jsonl" in names


def test_a_bundle_that_another_one_replaces_is_read_again(tmp_path):
    for windows in (2, 5):
        log = write_log(tmp_path / f"{windows}.jsonl", events(windows))
        make_bundle(LogAsks(log), tmp_path / f"{windows}.zip", made=2_000.0)
    file = tmp_path / "2.zip"
    with history(file) as client:
        path = f"{run_at(file)}{BASE}/windows"
        assert len(client.json(path)["windows"]) == 2
        (tmp_path / "5.zip").replace(file)
        assert len(client.json(path)["windows"]) == 5
