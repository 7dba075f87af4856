"""Outputs of an application with a Spark source are published by time, also when nothing new arrives."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ridgeline import Application
from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.measure.events import OutputPublished, WindowCommitted
from ridgeline.operators import FileOutput, SparkInput
from ridgeline.plan.planner import plan_application

pytestmark = pytest.mark.spark
ROLL_SECONDS = 2.0


class Running:
    """An application that runs in a thread of its own until it is stopped; `see` follows each event there."""

    def __init__(self, app: Application, context: Any, folder: Path, see: Callable[[Any], None]) -> None:
        self.events: list[Any] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self._run = lambda: launch(
            plan_application(app),
            Options(checkpoint=str(folder)),
            observe=lambda event: (self.events.append(event), see(event)),
            stop=self.stop,
            context=context,
        )
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self._thread.join()


def application(tmp_path: Path) -> Application:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    app = Application("idle", window="100ms")
    rows = app.add_operator(
        "source",
        SparkInput(format="json", options={"path": str(source)}, schema=pa.schema([("n", pa.int64())])),
    )
    out = app.add_operator(
        "out", FileOutput(path=tmp_path / "out", format="jsonl", roll_seconds=ROLL_SECONDS)
    )
    app.add_stream("rows", rows.output, out.input)
    return app


def test_committed_rows_come_into_sight_though_the_source_is_idle(
    spark_context: Any, tmp_path: Path, wait_until: Any
) -> None:
    running = Running(application(tmp_path), spark_context, tmp_path / "checkpoint", lambda _event: None)
    try:
        wait_until(lambda: running.error or list((tmp_path / "out").glob("out-*")), "a published file")
    finally:
        running.end()
    assert running.error is None
    [file] = (tmp_path / "out").glob("out-*")
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [1, 2]
    committed = [event for event in running.events if isinstance(event, WindowCommitted)]
    published = [
        event for event in running.events if isinstance(event, OutputPublished) and event.operator == "out"
    ]
    assert (len(committed), [event.window_id for event in published]) == (1, [0])
    assert published[0].at >= committed[0].began + ROLL_SECONDS - 0.1
