"""The list of runs of a folder: each in a few words, whatever else is in the folder."""

import pytest

from ridgeline.service.history import runs
from support.service.history import events, history, make_old, write_log
from support.waiting import wait_until


@pytest.fixture
def folder(tmp_path):
    write_log(tmp_path / "failed.jsonl", events(3, end="failed", reason="no room"))
    write_log(tmp_path / "ended.json", events(5))
    (tmp_path / "results.jsonl").write_text('{"account": 1}\n')
    (tmp_path / "huge.json").write_bytes(b"[" + b"1," * 2_000_000)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "sub").mkdir()
    return tmp_path


def rows_of(client, state="asking"):
    """The rows, once all logs were read."""
    wait_until(lambda: all(row["state"] != state for row in client.json("/runs")["runs"]), "the list")
    return {row["file"]: row for row in client.json("/runs")["runs"]}


def test_each_run_has_its_sentence_and_other_files_are_left_out(folder):
    with history(folder) as client:
        rows = rows_of(client)
        assert set(rows) == {"failed.jsonl", "ended.json"}
        failed, ended = rows["failed.jsonl"], rows["ended.json"]
        assert (failed["state"], failed["windows"], failed["name"]) == ("failed", 3, "numbers")
        assert "no room" in failed["sentence"]
        assert (ended["state"], ended["windows"]) == ("ended", 5)
        assert ended["sentence"].startswith("finished after 5 windows")
        assert ended["ended"] - ended["began"] > 2


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
