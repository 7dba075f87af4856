"""A run on an archive of files is continued from its checkpoint with a live source in their place."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.connect.memory_source import LOGS, START, Entry, Log, MemoryInput

from ridgeline import Application
from ridgeline.operators import FileInput, Running, Windowed, tumbling
from ridgeline.operators import aggregate as agg
from ridgeline.testing import CollectorSink, run_local

SEAM, END = 95, 200


def application(name: str, source: Any, step: Any) -> Application:
    app = Application("totals", window="50ms")
    app.read(name, source).process("totals", step).write("sink", CollectorSink(Any))
    return app


def archive(folder: Path, **options: Any) -> FileInput[Entry]:
    rows = [
        {"partition": "p0", "place": place, "at": (START + timedelta(seconds=place)).isoformat()}
        for place in range(SEAM)
    ]
    (folder / "old.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return FileInput(f"{folder}/*.jsonl", Entry, settle=0.0, discover_every=0.01, **options)


def live(begin: Any) -> MemoryInput:
    log = LOGS["live"] = Log([{"p0": END}])
    log.step()
    return MemoryInput("live", begin=begin, timestamp="at", lateness="1s")


@pytest.mark.parametrize("begin", [{"p0": SEAM}, START + timedelta(seconds=SEAM)], ids=["position", "time"])
def test_an_archive_that_ends_and_then_a_live_source(begin: Any, tmp_path: Path) -> None:
    step = Running(key="partition", values={"count": agg.count(), "last": agg.max("place")})
    run_local(
        application("archive", archive(tmp_path, until="end"), step), checkpoint=tmp_path / "checkpoint"
    )
    run = run_local(
        application("live", live(begin), step), checkpoint=tmp_path / "checkpoint", drop_state=["archive"]
    )
    assert run.collected("sink")[-1] == {"partition": "p0", "count": END, "last": END - 1}


def test_windows_of_event_time_reach_across_the_seam_if_the_archive_does_not_end(tmp_path: Path) -> None:
    step = Windowed(tumbling("1m"), key="partition", values={"count": agg.count()})
    source = archive(tmp_path, timestamp="at", lateness="1s")
    app, checkpoint = application("archive", source, step), tmp_path / "checkpoint"
    first = run_local(app, checkpoint=checkpoint, until=lambda run: len(run.collected("sink")) > 0)
    then = run_local(
        application("live", live({"p0": SEAM}), step), checkpoint=checkpoint, drop_state=["archive"]
    )
    assert [row["count"] for row in first.collected("sink")] == [60]
    assert [row["count"] for row in then.collected("sink")][-3:] == [60, 60, 20]
