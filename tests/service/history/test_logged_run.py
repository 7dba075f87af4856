"""Runs that are read from their event logs: their list, and the answers of the running application."""

import json
import random
import re
from pathlib import Path

import pytest

from ridgeline.engine.files.rotation import Rotation
from ridgeline.measure.encoding import to_dict
from ridgeline.measure.events import ApplicationEnded
from ridgeline.service.event_log import EventLogWriter, RunFiles, head_of
from ridgeline.service.history import runs
from ridgeline.service.history.logged_run import LoggedRun
from ridgeline.service.http.endpoint import BASE
from ridgeline.service.http.endpoints import ENDPOINTS
from support.cli.windows import watch_of
from support.service.history import PLAN, events, history, make_old, write_log
from support.service.watched import events_of, payments, serving
from support.waiting import wait_until

EARLIER = Path(__file__).parents[2] / "support" / "service" / "log-of-0.1.0.jsonl"


@pytest.mark.parametrize("name", ["run.jsonl", "run.json"])
def test_the_page_gets_the_figures_of_the_runs_end(tmp_path, name):
    found = events(5)
    live = watch_of(PLAN, found[1:], now=found[-1].at)
    log = write_log(tmp_path / name, found)
    with history(log) as client:
        whole, then = client.whole(log)
        assert then == "end"
        assert whole["sentence"]["state"] == "ended"
        assert [window["windowId"] for window in whole["windows"]] == [0, 1, 2, 3, 4]
        assert whole["windows"] == json.loads(json.dumps(live.windows()))
        assert client.of(log, "/windows/2") == json.loads(json.dumps(live.window(2)))
        assert client.of(log, "/latency?windowId=2") == json.loads(json.dumps(live.latency(2)))
        overview = json.loads(json.dumps(live.overview()))
        assert whole["overview"]["criticalPath"] == overview["criticalPath"]
        assert whole["overview"]["operators"] == {str(row["id"]): row for row in overview["operators"]}


def test_the_plan_is_the_applications(tmp_path):
    plan, found = events_of(payments())
    log = write_log(tmp_path / "run.jsonl", found)
    with serving(watch_of(PLAN, ()), plan) as running, history(log) as client:
        assert client.of(log, "/logicalPlan") == running.get("/logicalPlan")
        for part in ("ports", "attributes", "properties"):
            path = f"/logicalPlan/operators/balances/{part}"
            assert client.of(log, path) == running.get(path)
    assert "hunter2" not in log.read_text()


def test_every_path_answers_or_says_that_it_needs_the_running_application(tmp_path):
    _, found = events_of(payments())
    log = write_log(tmp_path / "run.jsonl", [*found, ApplicationEnded(found[-1].at + 1, "finished")])
    given = {"name": "balances", "port": "payments", "metric": "taken", "id": "2"}
    refused = set()
    with history(log) as client:
        for endpoint in ENDPOINTS:
            path = re.sub(r"\{(\w+)\}", lambda match: given[match[1]], endpoint.path)
            prefix = f"/run/{next(iter(client.runs()))}"
            status, _, body = client.ask(prefix + path, endpoint.method)
            assert status in {200, 404, 409}, (endpoint.path, body)
            assert status == 409 or endpoint.method == "GET", endpoint.path
            if status == 409:
                refused.add((endpoint.method, endpoint.path.removeprefix(BASE)))
                assert "needs the running application" in json.loads(body)["hint"]
    gets = {path for method, path in refused if method == "GET"}
    assert gets == {"/keys", "/debugDump", "/specification", "/loggers", "/changes/{id}"}


def test_a_log_of_an_earlier_version_is_refused(tmp_path):
    log = tmp_path / "old.jsonl"
    log.write_bytes(EARLIER.read_bytes())
    with history(log) as client:
        answer = client.of(log, "/info", 409)
    assert "`old.jsonl` is of an earlier version" in answer["error"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it has no events"),
        (b'{"eve', "it has no events"),
        (b'{"name": "ann"}\n', "line 1 is no event"),
        (b"\x00\xff\xfe\n", "line 1 is no event"),
        (b"[" * 100_000 + b"\n", "line 1 is no event"),
        (b'{"event":"ApplicationEnded","at":1.0,"outcome":"finished"}\n', "in the middle of a run"),
        (b'{"event":"ApplicationPlanned","at":1.0}\n', "line 1 is no event"),
    ],
)
def test_what_is_no_log_is_refused_with_its_name(tmp_path, content, why):
    log = tmp_path / "some.jsonl"
    log.write_bytes(content)
    with history(log) as client:
        answer = client.of(log, "/info", 409)
    assert "`some.jsonl`" in answer["error"]
    assert why in answer["error"]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (b'{"event":"WindowComm', "breaks off"),
        (b'{"event":"Unheard","at":1}\n', "is damaged: `cut.jsonl`, line 14 is no event"),
    ],
)
def test_a_log_that_breaks_off_or_is_damaged_shows_what_it_has(tmp_path, end, why):
    log = write_log(tmp_path / "cut.jsonl", events(3, end=None))
    log.write_bytes(log.read_bytes() + end + (b"\n" if end.endswith(b"\n") else b""))
    with history(log) as client:
        make_old(log)
        info = client.of(log, "/info")
        assert info["state"] == "FAILED"
        assert why in info["reason"]
        assert info["stats"]["windowsCommitted"] == 3
        assert [mark["kind"] for mark in client.of(log, "/marks")["marks"]] == ["end"]


def test_any_damage_leaves_an_answer(tmp_path):
    whole = write_log(tmp_path / "whole.jsonl", events(4)).read_bytes()
    chance = random.Random(7)
    logs = []
    for number in range(40):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 3, 30])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        log = tmp_path / f"{number}.jsonl"
        log.write_bytes(damaged[: chance.randrange(len(damaged))] if number % 3 == 0 else damaged)
        make_old(log)
        logs.append(log)
    with history(*logs) as client:
        for run in client.runs():
            status, _, _ = client.ask(f"/run/{run}{BASE}/info")
            assert status in {200, 409}
            status, _, _ = client.ask(f"/run/{run}{BASE}/live")
            assert status in {200, 409}


def test_a_log_that_is_written_on_after_it_broke_off_is_read_again(tmp_path):
    found, log = events(6), tmp_path / "run.jsonl"
    writer = EventLogWriter(str(log))
    for event in found[: len(found) // 2]:
        writer.write(event)
    wait_until(lambda: len(log.read_bytes().splitlines()) >= len(found) // 2, "the first half of the log")
    make_old(log)
    with history(log) as client:
        info = client.of(log, "/info")
        assert info["state"] == "FAILED"
        assert "breaks off" in info["reason"]
        for event in found[len(found) // 2 :]:
            writer.write(event)
        writer.close()
        info = client.of(log, "/info")
        assert (info["state"], info["stats"]["windowsCommitted"]) == ("FINISHED", 6)


def test_all_files_of_a_run_are_one_and_what_is_missing_is_noted(tmp_path):
    found, log = events(12), tmp_path / "run.jsonl"
    half = len(found) // 2
    writer = EventLogWriter(str(log), rotation=Rotation(size_bytes=10_000))
    for event in found[:half]:
        writer.write(event)
    with history(log, runs=lambda app: app == "numbers-1") as client:
        assert client.of(log, "/info")["state"] == "RUNNING"
        for event in found[half:]:
            writer.write(event)
        writer.close()
        wait_until(lambda: client.of(log, "/info")["state"] == "FINISHED", "the end of the log")
        assert [row["windowId"] for row in client.of(log, "/windows")["windows"]] == list(range(12))
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    files[0].unlink()
    run = LoggedRun(log, lambda _: False)
    run.load()
    [note] = run.notes
    assert note == "it begins in the middle of the run: a file is missing"
    assert run.watch.info()["state"] == "FINISHED"
    assert len(run.watch.windows()) < 12


def test_a_file_with_the_number_of_one_that_was_removed_is_read(tmp_path):
    log = tmp_path / "run.jsonl"
    writer = EventLogWriter(str(log), rotation=Rotation(size_bytes=20_000))
    for event in events(20):
        writer.write(event)
    writer.close()
    files = RunFiles(log, head_of(log).run)
    parts = {path: head.part for path, head in files.of_run()}
    oldest = min(parts, key=parts.__getitem__)
    oldest.write_bytes(log.read_bytes())
    assert 0 == parts[oldest] < parts[log]
    assert dict(files.of_run())[oldest].part == parts[log]


def test_hostile_names_stay_data(tmp_path):
    name = "</script><script>alert(1)</script>\u2028\n\ndata: x"
    found = [
        json.loads(json.dumps(to_dict(event)).replace('"numbers"', json.dumps(name))) for event in events()
    ]
    log = tmp_path / "run.jsonl"
    log.write_text("".join(json.dumps(one) + "\n" for one in found))
    with history(log) as client:
        whole, _ = client.whole(log)
        assert whole["overview"]["info"]["name"] == name
        assert whole["plan"]["application"] == name


# The list of runs of a folder: each in a few words, whatever else is in the folder --------------------------


def rows_of(client, state="asking"):
    """The rows, once all logs were read."""
    wait_until(lambda: all(row["state"] != state for row in client.json("/runs")["runs"]), "the list")
    return {row["file"]: row for row in client.json("/runs")["runs"]}


def test_a_run_whose_driver_is_killed_is_failed_though_its_log_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "AGAIN_SECONDS", 0.05)
    alive = {"numbers-1"}
    log = write_log(tmp_path / "run.jsonl", events(2, end=None))
    make_old(log)
    with history(tmp_path, runs=alive.__contains__) as client:
        assert rows_of(client)["run.jsonl"]["state"] == "running"
        alive.clear()
        assert rows_of(client, "running")["run.jsonl"]["state"] == "failed"


def test_a_file_that_is_no_log_is_said_where_it_was_given(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"account": 1}\n')
    with history(tmp_path / "results.jsonl") as client:
        [row] = rows_of(client).values()
        assert row["state"] == "strange"
        assert "is no event log" in row["problem"]
