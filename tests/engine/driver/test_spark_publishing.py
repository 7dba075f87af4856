"""Outputs of an application with a Spark source are published by time, also when nothing new arrives."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ridgeline import Application
from ridgeline.measure.events import OutputPublished, WindowCommitted
from ridgeline.operators import FileOutput, SparkInput
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark
ROLL_SECONDS = 2.0


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
    app, stop = application(tmp_path), threading.Event()

    def stop_once_there_is_a_file() -> None:
        try:
            wait_until(lambda: list((tmp_path / "out").glob("out-*")), "a published file")
        finally:
            stop.set()

    threading.Thread(target=stop_once_there_is_a_file).start()
    run = run_on_spark(app, spark_context, tmp_path / "checkpoint", stop=stop)
    [file] = (tmp_path / "out").glob("out-*")
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [1, 2]
    [committed], [published] = run.of_type(WindowCommitted), run.of_type(OutputPublished)
    assert (published.operator, published.window_id) == ("out", 0)
    assert published.at >= committed.began + ROLL_SECONDS - 0.1
