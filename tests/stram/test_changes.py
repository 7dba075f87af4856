"""What STRAM makes of changes that somebody asks for."""

from __future__ import annotations

from typing import Any

from ridgeline import Application
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
    StartExactRecording,
    StartRecording,
    StopRecording,
    What,
)
from ridgeline.testing import CollectorSink
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


def test_an_exact_recording_has_all_inputs_and_outputs_and_there_is_one_at_a_time() -> None:
    recorder = Recorder(PLAN, 1)
    begun = ask(recorder, 1, StartExactRecording(windows=9, limit_bytes=10), 5)
    assert isinstance(begun, BeginRecording)
    assert (begun.recording.ports, begun.recording.outputs) == (("numbers.numbers",), ("store.input",))
    names = {one.id: one.name for one in PLAN.physical.operators}
    found = sorted((names[operator], port) for operator, port in recorder.records_exactly(5))
    assert found == [("numbers", "numbers")] * 2 + [("store", "input")]
    assert not recorder.records(5)
    assert not recorder.records_exactly(4)
    other = ask(recorder, 2, StartExactRecording(windows=9, limit_bytes=10), 6)
    assert isinstance(other, RefuseChange)
    assert "runs beside already, with the recording `1-1`" in other.reason
    ask(recorder, 3, StopRecording("1-1"), 6)
    assert isinstance(ask(recorder, 4, StartExactRecording(windows=9, limit_bytes=10), 6), BeginRecording)


def test_an_exact_recording_ends_where_inputs_or_outputs_become_others() -> None:
    begun = ask(Recorder(PLAN, 1), 1, StartExactRecording(windows=9, limit_bytes=10), 5)
    assert isinstance(begun, BeginRecording)
    for app, fault in (
        (two_stages(Sum(), partitions=1), ""),
        (read_twice(two_stages(Sum())), "inputs or outputs of the application are others now"),
    ):
        [resumed] = Recorder(plan_application(app), 2).handle(RecordingsFound((begun.recording,)), 6)
        assert resumed == ResumeRecording(begun.recording, fault)


def read_twice(app: Application) -> Application:
    """The application with another sink."""
    stream: Any = app.streams.pop()
    again = app.add_operator("again", CollectorSink(stream.source.schema.type))
    app.add_stream(stream.name, stream.source, *stream.sinks, again.input)
    return app


def test_what_is_asked_after_the_end_is_refused() -> None:
    changes = Changes()
    waiting = changes.ask(StopRecording("1-1"), "test")
    changes.close()
    late = changes.ask(StopRecording("1-1"), "test")
    assert [one.state for one in (waiting, late)] == ["REFUSED", "REFUSED"]
    assert [row["reason"] for row in changes.rows()] == ["the application has ended"] * 2
    assert not changes.take()
