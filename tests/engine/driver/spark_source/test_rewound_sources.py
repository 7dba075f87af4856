"""A run with Spark sources is rewound: they begin again where the window ended, and each row counts once."""

import json
import os
from collections import Counter

import pytest

from ridgeline import Application, CheckpointError
from ridgeline.measure.events import StateWarning
from ridgeline.operators import FileOutput, SparkInput
from support.engine.applications import Number
from support.engine.on_spark import planner_of, run_on_spark
from support.engine.spark_sources import odd
from support.manifests import last_of

pytestmark = pytest.mark.spark


def rates(out, tmp_path):
    options = {"rowsPerBatch": 100}
    source = SparkInput(format="rate-micro-batch", options=options, schema=Number, transform=odd)
    return written(source, out), lambda windows: range(1, 100 * windows, 2)


def files(out, tmp_path):
    """A file a window; Spark's list of those that were read is merged after ten."""
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for number in range(40):
        file = folder / f"{number:02d}.json"
        file.write_text(json.dumps({"value": number}))
        os.utime(file, (1_700_000_000 + number,) * 2)  # the oldest first
    options = {"path": str(folder), "maxFilesPerTrigger": 1}
    return written(SparkInput(format="json", options=options, schema=Number), out), range


def written(source, out):
    app = Application("rewound", window="1ms", windows_kept=30)
    app.read("numbers", source, partitions=2).write("out", FileOutput(out, format="jsonl", roll_seconds=0))
    return app


def rows(out):
    lines = [line for path in out.glob("*.jsonl") for line in path.read_text().splitlines()]
    return Counter(json.loads(line)["value"] for line in lines)


def warned(run):
    return [event.text for event in run.of_type(StateWarning)]


def back_to(app, window):
    return planner_of(app, resume={"from_window": window})


@pytest.mark.parametrize("of", [rates, files])
def test_each_row_is_there_once_after_rewinds(spark_context, tmp_path, of):
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    app, numbers = of(out, tmp_path)
    run_on_spark(app, spark_context, checkpoint, windows=13)
    for window, windows, left in ((8, 3, 12), (14, 2, 12), (5, 4, 10)):  # 14 is the 10th that counts
        last = last_of(checkpoint).window_id
        run = run_on_spark(app, spark_context, checkpoint, windows=windows, planner=back_to(app, window))
        assert run.ids == list(range(last + 2, last + 2 + windows))
        assert warned(run) == []
        assert rows(out) == Counter(numbers(left))
    run = run_on_spark(app, spark_context, checkpoint, windows=2)
    assert warned(run) == []
    assert rows(out) == Counter(numbers(12))


def test_what_spark_cannot_read_again_is_said_before_anything_changes(spark_context, tmp_path):
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    app, numbers = files(out, tmp_path)
    run_on_spark(app, spark_context, checkpoint, windows=13)
    read = tmp_path / "in/12.json"
    read.rename(tmp_path / "kept")
    with pytest.raises(
        CheckpointError, match=r"to window 11: the file `file:.*12.json`, .*, is gone; rewind"
    ):
        run_on_spark(app, spark_context, checkpoint, windows=1, planner=back_to(app, 11))
    (tmp_path / "kept").rename(read)
    for number in range(9):  # as Spark does ten minutes later
        (checkpoint / "spark/sources/0" / str(number)).unlink()
        (checkpoint / "spark/sources/0" / f".{number}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match=r"to window 8: Spark has merged its list .*rewind to a later"):
        run_on_spark(app, spark_context, checkpoint, windows=1, planner=back_to(app, 8))
    run_on_spark(app, spark_context, checkpoint, windows=1, planner=back_to(app, 10))
    run_on_spark(app, spark_context, checkpoint, windows=2)
    assert rows(out) == Counter(numbers(14))


def test_a_driver_that_dies_behind_the_record_of_a_rewind_is_continued(spark_context, tmp_path, monkeypatch):
    """Spark's log is that of before then, and may have planned a window more."""
    from ridgeline.engine.driver.spark_source.offset_log import SparkLog

    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    app, numbers = files(out, tmp_path)
    run_on_spark(app, spark_context, checkpoint, windows=6)
    planned = checkpoint / "spark/offsets/6"
    planned.write_text((checkpoint / "spark/offsets/5").read_text())

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SparkLog, "check", dies)
        with pytest.raises(KeyboardInterrupt):
            run_on_spark(app, spark_context, checkpoint, windows=1, planner=back_to(app, 2))
    assert last_of(checkpoint).rewound_to == 2
    run_on_spark(app, spark_context, checkpoint, windows=4)
    assert rows(out) == Counter(numbers(7))
