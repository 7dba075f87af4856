"""A large micro-batch of Spark becomes several windows, and each row counts once."""

import json
import threading
from collections import Counter

import pytest

from ridgeline import Application
from ridgeline.engine.driver.checkpoint.manifest import SourceOffsets
from ridgeline.operators import FileOutput, SparkInput
from support.engine.applications import Number
from support.engine.on_spark import planner_of, run_on_spark
from support.manifests import last_of

pytestmark = pytest.mark.spark
ROWS = 40_000


def application(tmp_path):
    """All rows are there at once: one file, one micro-batch."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(exist_ok=True)
    (folder / "a.json").write_text("".join(f"{json.dumps({'value': n})}\n" for n in range(ROWS)))
    app = Application("cut", window="1ms", window_work="500ms", windows_kept=30)
    source = SparkInput(format="json", options={"path": str(folder)}, schema=Number)
    rows = app.read("numbers", source, partitions=2)
    rows.write("out", FileOutput(out, format="jsonl", roll_seconds=0))
    return app, out


def values(out):
    return [
        json.loads(line)["value"]
        for path in sorted(out.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def offsets(checkpoint) -> SourceOffsets:
    return last_of(checkpoint).offsets


def test_windows_share_a_micro_batch_over_stops_and_a_rewind(spark_context, tmp_path):
    app, out = application(tmp_path)
    checkpoint = tmp_path / "checkpoint"
    first = run_on_spark(app, spark_context, checkpoint, windows=1)
    assert first.ids == [0]
    assert 0 < len(values(out)) <= 1_000  # nothing is known of the work of a row yet
    assert offsets(checkpoint).waiting == ROWS - len(values(out))
    second = run_on_spark(app, spark_context, checkpoint, windows=1)
    assert second.ids == [1]
    assert offsets(checkpoint).batch == 0
    back = planner_of(app, resume={"from_window": 0})
    run_on_spark(app, spark_context, checkpoint, windows=2, planner=back)
    assert offsets(checkpoint).waiting
    more = tmp_path / "in" / "b.json"
    more.write_text(json.dumps({"value": ROWS}))

    stop = threading.Event()

    def all_are_there(*_):
        if len(values(out)) > ROWS:
            stop.set()

    run_on_spark(app, spark_context, checkpoint, each=all_are_there, stop=stop)
    assert offsets(checkpoint).waiting == 0
    assert Counter(values(out)) == Counter(range(ROWS + 1))
