"""Spark's own log is lost, older or damaged, the commits are whole: no row is skipped or read twice."""

import json
import shutil

import pytest

from ridgeline import CheckpointError
from ridgeline.measure.events import StateWarning
from ridgeline.operators import SparkInput
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import folder_application, mixed_application, rate_application
from support.manifests import forget_last, last_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def files(spark_context, tmp_path_factory):
    """20 files of one number each, a checkpoint of 12 windows over them, Spark's log as of window 5."""
    folder = tmp_path_factory.mktemp("files")
    for number in range(20):
        (folder / f"{number:02d}.json").write_text(json.dumps({"value": 1 << number}))
    checkpoint = tmp_path_factory.mktemp("checkpoint") / "whole"
    app = folder_application("json", folder)
    first = run_on_spark(app, spark_context, checkpoint, windows=6)
    shutil.copytree(checkpoint / "spark", checkpoint.parent / "older")
    second = run_on_spark(app, spark_context, checkpoint, windows=6)
    assert first.ids + second.ids == list(range(12))
    return folder, checkpoint


@pytest.fixture
def checkpoint(files, tmp_path):
    _, whole = files
    return shutil.copytree(whole, tmp_path / "checkpoint")


def go_on(files, checkpoint, spark_context, expect=None):
    """Two windows more: all numbers up to then are in the sum, once."""
    folder, _ = files
    if expect:
        _, error = run_on_spark(
            folder_application("json", folder), spark_context, checkpoint, windows=2, expect=expect
        )
        return str(error)
    run = run_on_spark(folder_application("json", folder), spark_context, checkpoint, windows=2)
    assert run.ids == [12, 13]
    sums = [number.value for number in run.collected("store")]
    assert sums[-1] == sum(1 << int(name) for name in read_until(checkpoint, 13))
    return [event.text for event in run.of_type(StateWarning)]


def read_until(checkpoint, window):
    """The numbers of the files that Spark says it has read until a window: each once."""
    spark = checkpoint / "spark"
    last = json.loads((spark / "offsets" / str(window)).read_text().split("\n")[2])["logOffset"]
    entries = [spark / "sources" / "0" / str(number) for number in range(last + 1)]
    entries = [path if path.exists() else path.with_suffix(".compact") for path in entries]
    lines = {line for path in entries for line in path.read_text().splitlines()[1:]}
    names = sorted(json.loads(line)["path"].rpartition("/")[2].removesuffix(".json") for line in lines)
    assert len(names) == len(set(names)) == last + 1 >= window + 1
    return names


def older(files, checkpoint, *names):
    """Put back the copy of Spark's log, or of folders of it."""
    copy = files[1].parent / "older"
    for name in names:
        shutil.rmtree(checkpoint / "spark" / name)
        shutil.copytree(copy / name, checkpoint / "spark" / name)


def lose(checkpoint, folder, window):
    """Remove the entries of a window and those after it."""
    for path in (checkpoint / "spark" / folder).iterdir():
        if path.name.isdecimal() and int(path.name) >= window:
            path.unlink()


def test_what_is_whole_goes_on_without_a_word(files, checkpoint, spark_context):
    assert go_on(files, checkpoint, spark_context) == []


@pytest.mark.parametrize("window", [0, 8, 11])
def test_lost_offsets_are_written_again(files, checkpoint, spark_context, window):
    lose(checkpoint, "offsets", window)
    warnings = go_on(files, checkpoint, spark_context)
    assert any(
        text == f"Spark's log `{checkpoint}/spark/offsets/11` was missing or damaged; it was "
        f"written again from the last commit, nothing is lost"
        for text in warnings
    )


@pytest.mark.parametrize("folders", [["offsets"], ["commits"], ["offsets", "commits"]])
def test_older_entries_do_not_let_rows_be_passed_over(files, checkpoint, spark_context, folders):
    older(files, checkpoint, *folders)
    go_on(files, checkpoint, spark_context)


def test_lost_commits_are_no_harm(files, checkpoint, spark_context):
    shutil.rmtree(checkpoint / "spark" / "commits")
    go_on(files, checkpoint, spark_context)


@pytest.mark.parametrize("what", ["missing", "another"])
def test_the_id_of_the_query_is_written_again(files, checkpoint, spark_context, what):
    path = checkpoint / "spark" / "metadata"
    text = path.read_text()
    path.unlink()
    if what == "another":
        path.write_text(json.dumps({"id": "00000000-0000-0000-0000-000000000000"}))
    assert len(go_on(files, checkpoint, spark_context)) == 1
    assert path.read_text() == text


@pytest.mark.parametrize("how", ["flipped", "cut", "zeroed", "of another window"])
def test_a_damaged_entry_is_written_again(files, checkpoint, spark_context, how):
    path = checkpoint / "spark" / "offsets" / "11"
    data = path.read_bytes()
    damaged = {
        "flipped": data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
        "cut": data[:-9],
        "zeroed": bytes(len(data)),
        "of another window": (path.parent / "9").read_bytes(),
    }
    path.write_bytes(damaged[how])
    assert len(go_on(files, checkpoint, spark_context)) >= 1


@pytest.mark.parametrize("how", ["missing", "older", "flipped", "compact"])
def test_a_lost_list_of_files_is_reported(files, checkpoint, spark_context, how):
    folder = checkpoint / "spark" / "sources" / "0"
    path = folder / ("9.compact" if how in ("compact", "flipped") else "11")
    if how == "older":
        older(files, checkpoint, "sources")
        path = folder / "9.compact"
    elif how == "flipped":
        path.write_bytes(path.read_bytes().replace(b".json", b".jsom", 1))
    else:
        path.unlink()
    what = "damaged, or another one" if how == "flipped" else "missing"
    remedy = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    why = f"it says which files were read; {remedy}"
    assert (
        go_on(files, checkpoint, spark_context, CheckpointError)
        == f"Spark's log `{path}` is {what}, and {why}"
    )


def test_a_whole_log_that_is_older_is_reported(files, checkpoint, spark_context):
    older(files, checkpoint, "offsets", "commits", "sources")
    assert "Spark's log `" in go_on(files, checkpoint, spark_context, CheckpointError)


def test_a_lost_log_of_files_is_reported(files, checkpoint, spark_context):
    shutil.rmtree(checkpoint / "spark")
    assert "is missing, and it says which files were read" in go_on(
        files, checkpoint, spark_context, CheckpointError
    )


def test_a_log_ahead_of_the_commits_is_reported(files, checkpoint, spark_context):
    planned = max(int(path.name) for path in (checkpoint / "spark" / "offsets").glob("[0-9]*"))
    assert planned in {11, 12}  # Spark may have planned one more when the run was ended
    forget_last(checkpoint)
    error = go_on(files, checkpoint, spark_context, CheckpointError)
    assert "what follows was written and synced, but is gone or damaged" in error
    (checkpoint / "committed" / "last").unlink()
    error = go_on(files, checkpoint, spark_context, CheckpointError)
    assert error == (
        f"Spark's log `{checkpoint}/spark` is at window {planned}, but the last commit is that of window 10; "
        "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    )


def test_what_was_planned_and_not_committed_is_planned_anew(files, checkpoint, spark_context):
    spark = checkpoint / "spark"
    head, _, _ = (spark / "offsets" / "11").read_bytes().rpartition(b"\n")
    (spark / "offsets" / "12").write_bytes(head + b'\n{"logOffset":12}')
    listed = (spark / "sources" / "0" / "11").read_text()
    last = json.loads(listed.split("\n")[-1])
    name = last["path"].rpartition("/")[2]
    wrong = listed.replace(name, "00.json").replace('"batchId":11', '"batchId":12')
    (spark / "sources" / "0" / "12").write_text(wrong)
    assert go_on(files, checkpoint, spark_context) == []


def test_a_log_lost_altogether_is_written_again_where_the_commit_has_it_all(spark_context, tmp_path):
    whole = run_on_spark(rate_application(), spark_context, tmp_path / "whole", windows=6).collected("store")
    app, checkpoint = rate_application(), tmp_path / "checkpoint"
    first = run_on_spark(app, spark_context, checkpoint, windows=3)
    shutil.rmtree(checkpoint / "spark")
    second = run_on_spark(app, spark_context, checkpoint, windows=3)
    assert second.ids == [3, 4, 5]
    assert first.collected("store") + second.collected("store") == whole
    assert len(second.of_type(StateWarning)) >= 2


def test_other_sources_are_refused(spark_context, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    run_on_spark(rate_application(), spark_context, checkpoint, windows=2)
    assert list(last_of(checkpoint).offsets.sources) == ["numbers"]
    app = rate_application()
    source = SparkInput(
        format="rate-micro-batch", options={"rowsPerBatch": 50}, schema=app.operators[0].operator.schema
    )
    other = mixed_application((source, "output"))
    other.name = "rate"
    _, error = run_on_spark(other, spark_context, checkpoint, windows=1, expect=CheckpointError)
    assert "`--drop-state total` drops it" in str(error)


def test_a_source_is_not_added_to_windows_without_one(spark_context, tmp_path):
    from ridgeline import Application
    from support.engine.applications import Counter, Number, sink

    def application(source, port):
        app = Application("grows", window="1ms")
        numbers = app.add_operator("numbers", source)
        app.add_stream("numbers", getattr(numbers, port), sink(app, "store", Number))
        return app

    checkpoint = tmp_path / "checkpoint"
    run_on_spark(
        application(Counter(count=1000, per_window=10), "numbers"), spark_context, checkpoint, windows=3
    )
    source = SparkInput(
        format="rate-micro-batch",
        options={"rowsPerBatch": 50},
        schema=Number,
        transform=lambda frame: frame.select("value"),
    )
    app = Application("grows", window="1ms")
    numbers = app.add_operator("others", source)
    app.add_stream("numbers", numbers.output, sink(app, "store", Number))
    assert last_of(checkpoint).offsets is None
    _, error = run_on_spark(app, spark_context, checkpoint, windows=1, expect=CheckpointError)
    assert "`--drop-state numbers` drops it" in str(error)
