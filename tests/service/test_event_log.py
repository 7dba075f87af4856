"""A run's events in a file, and its figures from the file."""

import errno
import json
import os
from dataclasses import replace
from functools import partial

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.files.rotation import Rotation, earlier, remove_old
from ridgeline.measure.encoding import from_dict, to_dict
from ridgeline.measure.events import (
    ApplicationEnded,
    ApplicationPlanned,
    MessagesRefused,
    WindowCommitted,
    WindowPlanned,
)
from ridgeline.service import event_log
from ridgeline.service.event_log import EventLogWriter, event_logs
from ridgeline.service.history.tail import read_event_log, replay
from ridgeline.testing import run_local
from support.testing.diamond import diamond

NAMES = ["log.jsonl", "log.json"]


@pytest.fixture(scope="module")
def run():
    return run_local(diamond(), windows=12)


def write(path, events):
    log = EventLogWriter(str(path), failed=pytest.fail)
    for event in events:
        log.write(event)
    return log


def test_json_lines_are_on_disk_after_every_window(tmp_path, run):
    log = write(tmp_path / "log.jsonl", [])
    for event in run.events:
        log.write(event)
        if isinstance(event, (WindowCommitted, WindowPlanned)):
            lines = (tmp_path / "log.jsonl").read_text().splitlines()
            assert json.loads(lines[-1])["window_id"] == event.window_id
    log.close()


def test_a_torn_last_line_is_skipped_with_a_note(tmp_path, run):
    path = tmp_path / "log.jsonl"
    write(path, run.events).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    notes = []

    events = list(read_event_log(str(path), notes.append))

    assert events == run.events[:-1]
    (note,) = notes
    assert f"event log `{path}`, line {len(run.events)}: the last event is torn and skipped" in note
    assert replay(str(path)).info()["state"] == "RUNNING"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"event": "WindowPlanned", "at": 1', "line 2 is no event: Expecting"),
        ('{"event": "Nonsense"}', "line 2 is no event: `Nonsense`"),
        ('{"event": "WindowPlanned"}', "line 2 is no event: `WindowPlanned.at`: Field required"),
        ("[1]", "line 2 is no event"),
        (
            '{"event": "WindowPlanned", "at": "now"}',
            "line 2 is no event: `WindowPlanned.at`: Input should be a valid number",
        ),
    ],
)
def test_any_other_line_that_is_no_event_is_named(tmp_path, run, line, text):
    path = tmp_path / "log.jsonl"
    write(path, run.events).close()
    lines = path.read_text().splitlines()
    lines[1] = line
    path.write_text("\n".join(lines) + "\n")

    with pytest.raises(RidgelineError, match=f"^event log `.*`: `log.jsonl`, {text}.*; was the file changed"):
        replay(str(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.txt", r"must end in `.jsonl` or `.json`; did you mean `.*log.jsonl`\?"),
        ("there.jsonl", "exists already, and is no event log; give another name, or remove it"),
        ("there.json", "exists already, and is no event log; give another name, or remove it"),
        ("no/log.jsonl", "cannot be written: No such file or directory; give a path in a folder that exists"),
    ],
)
def test_a_log_that_cannot_be_written_is_refused_at_once(tmp_path, name, text):
    (tmp_path / "there.jsonl").write_text('{"amount": 1}\n')
    (tmp_path / "there.json").mkdir()
    with pytest.raises(RidgelineError, match=text):
        EventLogWriter(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.jsonl", "cannot be read: No such file or directory; give a file that `--event-log` has written"),
        ("log.csv", "must end in"),
        ("empty.jsonl", "holds no events"),
        ("late.jsonl", "begins with `MessagesRefused` instead of `ApplicationPlanned`; give a whole log"),
        ("log.parquet", "must end in"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, name, text):
    (tmp_path / "empty.jsonl").touch()
    late = [MessagesRefused(1.0, "malformed"), ApplicationEnded(2.0, "finished")]
    write(tmp_path / "late.jsonl", late).close()
    with pytest.raises(RidgelineError, match=text):
        replay(str(tmp_path / name))


SMALL = Rotation(size_bytes=4000)


def rotated(path, events, rotation=SMALL):
    log = EventLogWriter(str(path), pytest.fail, rotation)
    for event in events:
        log.write(event)
    log.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_log_in_several_files_is_read_as_one(tmp_path, run, name):
    path = tmp_path / name
    rotated(path, run.events)
    files = earlier(path)
    assert len(files) > 2

    for one in (path, files[0], files[-1]):
        assert list(read_event_log(str(one), pytest.fail)) == run.events
    assert event_logs(str(tmp_path)) == [str(path)]

    remove_old(path, Rotation(keep_files=1))
    notes = []
    left = list(read_event_log(str(path), notes.append))
    (note,) = notes
    assert f"begins in the middle of the run: {len(files) - 1} files are missing" in note
    assert isinstance(left[0], ApplicationPlanned)
    assert left[-1] == run.events[-1]
    assert replay(str(path)).info()["state"] == "STOPPED"


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_that_a_missing_file_brought_is_read_from_the_next_one(tmp_path, run, name):
    path, notes = tmp_path / name, []
    cut = len(run.events) // 2
    changed = replace(run.events[0], at=run.events[cut].at, plan_version=7)
    assert isinstance(changed, ApplicationPlanned)
    events = [*run.events[:cut], changed, *run.events[cut:]]
    rotated(path, events)
    holder = next(one for one in earlier(path) if '"plan_version":7' in one.read_text())
    holder.unlink()

    assert replay(str(path), notes.append).info()["planVersion"] == 7
    left = list(read_event_log(str(path)))
    assert left == [event for event in events if event in left]
    assert "missing" in notes[0]


def test_a_log_that_is_renamed_is_begun_again(tmp_path, run):
    path = tmp_path / "log.jsonl"
    log = EventLogWriter(str(path), pytest.fail)
    for number, event in enumerate(run.events):
        log.write(event)
        if number == len(run.events) // 2:
            path.rename(tmp_path / "log.jsonl.1")
    log.close()
    path.rename(tmp_path / "log.000002.jsonl")
    (tmp_path / "log.jsonl.1").rename(tmp_path / "log.000001.jsonl")
    assert list(read_event_log(str(path), pytest.fail)) == run.events


def test_fields_of_newer_logs_are_ignored(run):
    event = run.events[-1]
    assert from_dict({**to_dict(event), "colour": "red"}) == event


def test_two_runs_do_not_write_the_same_log(tmp_path, run):
    log = write(tmp_path / "log.jsonl", run.events[:3])
    with pytest.raises(RidgelineError, match="is written by another run; give another name"):
        EventLogWriter(str(tmp_path / "log.jsonl"))
    log.close()


def test_after_a_full_disk_the_log_continues_and_says_what_is_missing(tmp_path, run, monkeypatch):
    monkeypatch.setattr(event_log, "RETRY_SECONDS", 0.0)
    path, said, notes = tmp_path / "log.jsonl", [], []
    log = EventLogWriter(str(path), said.append)
    cut = next(number for number, one in enumerate(run.events) if isinstance(one, WindowCommitted)) + 1
    for event in run.events[:cut]:
        log.write(event)
    monkeypatch.setattr(os, "write", partial(_half, os.write))
    for event in run.events[cut:-4]:
        log.write(event)
    monkeypatch.undo()
    for event in run.events[-4:]:
        log.write(event)
    log.close()

    events = list(read_event_log(str(path), notes.append))
    assert events == run.events[:cut] + run.events[len(run.events) - len(events) + cut :]
    assert events[-1] == run.events[-1]
    assert [text.partition(":")[0].split("`")[2] for text in said] == [
        " cannot be written",
        f" is written again; {len(run.events) - len(events)} events are missing in it",
    ]
    assert f"{len(run.events) - len(events)} events before `log.jsonl` are missing" in notes[0]


def _half(write, descriptor, data):
    """Half of what is given reaches the disk, then it is full."""
    if len(data) < 20:
        raise OSError(errno.ENOSPC, "No space left on device")
    return write(descriptor, data[: len(data) // 2])
