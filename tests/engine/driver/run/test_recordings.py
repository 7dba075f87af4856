"""Which ports are recorded in which windows, as it was asked for."""

from pathlib import Path

from ridgeline import Application, SystemClock
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.run.changes import Asked
from ridgeline.engine.driver.run.recordings import Recordings
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.changes import Change, StartRecording, StopRecording
from ridgeline.testing import CollectorSink, ListInput
from support.engine.applications import Number, Sum
from support.engine.in_slots import two_stages

PLAN = plan_application(two_stages(Sum(), partitions=2))


def test_recordings_begin_and_end_with_windows_or_are_refused_in_words(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalStorage(str(tmp_path)), PLAN.logical.application)
    recordings = Recordings(checkpoint, SystemClock())
    count = 0

    def ask(what: StartRecording | StopRecording, window: int) -> Asked:
        nonlocal count
        count += 1
        asked = Asked(Change(count, "test", what))
        recordings.take(asked, PLAN, window)
        return asked

    def recorded(window: int) -> dict[tuple[int, str], int]:
        return dict(recordings.asked(WindowRequest(window, 0, 1), PLAN).recording)

    ask(StartRecording("total", "sums", windows=2, limit_bytes=10), 5)
    assert [one["id"] for one in recordings.rows()] == ["1-1"]
    ids = {one.id for one in PLAN.physical.operators if one.name == "total" and not one.unifier}
    assert [{operator for operator, _ in recorded(window)} for window in range(4, 8)] == [
        set(),
        ids,
        ids,
        set(),
    ]

    ask(StartRecording("total", None, limit_bytes=20), 5)
    assert {limit for (_, port), limit in recorded(5).items() if port == "sums"} == {20}
    ask(StopRecording("1-2"), 6)
    assert [{port for _, port in recorded(window)} for window in (5, 6)] == [{"numbers", "sums"}, {"sums"}]

    for what, text in (
        (StartRecording("totl"), "did you mean `total`?"),
        (StartRecording("../../etc"), "there is no operator"),
        (StartRecording("total", "sum"), "did you mean `sums`?"),
        (StartRecording("total", windows=0), "at least one window"),
        (StopRecording("1-7"), "no recording `1-7` goes on"),
    ):
        assert text in ask(what, 6).reason

    recordings.stage(plan_application(two_stages(Sum(), partitions=1)), 6, ())
    assert recorded(6)
    other = Application("two-stages")
    other.read("numbers", ListInput(Number, [])).write("store", CollectorSink(Number))
    recordings.stage(plan_application(other), 6, ())
    assert not recorded(6)
    assert "there is no operator `total`" in recordings.rows()[0]["reason"]
    checkpoint.close()
