"""What STRAM makes of changes that somebody asks for."""

from __future__ import annotations

from ridgeline.engine.driver.run.changes import Changes
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import (
    BeginRecording,
    Change,
    ChangeAsked,
    EndRecording,
    Recorder,
    RecordingsFound,
    RefuseChange,
    ResumeRecording,
    StartRecording,
    StopRecording,
    What,
)
from support.engine.applications import Sum
from support.engine.in_slots import two_stages

PLAN = plan_application(two_stages(Sum(), partitions=2))


def ask(recorder: Recorder, number: int, what: What, window: int) -> object:
    [instruction] = recorder.handle(ChangeAsked(Change(number, "test", what)), window)
    return instruction


def test_all_partitions_are_recorded_in_the_same_windows() -> None:
    recorder = Recorder(PLAN, 3)
    begun = ask(recorder, 1, StartRecording("total", "sums", windows=2, limit_bytes=10), 5)
    assert isinstance(begun, BeginRecording)
    assert begun.recording.id == "3-1"
    ids = {one.id for one in PLAN.physical.operators if one.name == "total" and not one.unifier}
    found = [{operator for operator, _ in recorder.records(window)} for window in range(4, 8)]
    assert found == [set(), ids, ids, set()]


def test_two_recordings_of_one_port_take_the_greater_limit_and_end_apart() -> None:
    recorder = Recorder(PLAN, 1)
    ask(recorder, 1, StartRecording("total", "sums", limit_bytes=10), 0)
    ask(recorder, 2, StartRecording("total", None, limit_bytes=20), 0)
    assert {limit for (_, port), limit in recorder.records(0).items() if port == "sums"} == {20}
    ended = ask(recorder, 3, StopRecording("1-2"), 4)
    assert isinstance(ended, EndRecording)
    assert {port for _, port in recorder.records(3)} == {"numbers", "sums"}
    assert {port for _, port in recorder.records(4)} == {"sums"}


def test_what_is_not_there_is_refused_in_words() -> None:
    recorder = Recorder(PLAN, 1)
    for what, text in (
        (StartRecording("totl"), "did you mean `total`?"),
        (StartRecording("../../etc"), "there is no operator"),
        (StartRecording("total", "sum"), "did you mean `sums`?"),
        (StartRecording("total", windows=0), "at least one window"),
        (StopRecording("1-7"), "no recording `1-7` goes on"),
    ):
        refused = ask(recorder, 1, what, 0)
        assert isinstance(refused, RefuseChange)
        assert text in refused.reason
    assert not recorder.records(0)


def test_recordings_go_on_after_a_restart_or_say_why_not() -> None:
    before = Recorder(PLAN, 1)
    begun = ask(before, 1, StartRecording("total"), 2)
    assert isinstance(begun, BeginRecording)
    other = plan_application(two_stages(Sum(), partitions=1))
    renamed = Recorder(other, 2)
    [resumed] = renamed.handle(RecordingsFound((begun.recording,)), 3)
    assert resumed == ResumeRecording(begun.recording, "")
    assert renamed.records(3)
    renamed.committed(begun.recording.end)
    assert not renamed.records(3)


def test_what_is_asked_after_the_end_is_refused() -> None:
    changes = Changes()
    waiting = changes.ask(StopRecording("1-1"), "test")
    changes.close()
    late = changes.ask(StopRecording("1-1"), "test")
    assert [one.state for one in (waiting, late)] == ["REFUSED", "REFUSED"]
    assert [row["reason"] for row in changes.rows()] == ["the application has ended"] * 2
    assert not changes.take()
