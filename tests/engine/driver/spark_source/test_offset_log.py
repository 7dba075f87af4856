"""Spark's own log is lost, older or damaged, the commits are whole: no row is skipped or read twice."""

import json
import shutil

import pytest

from ridgeline import Application, CheckpointError
from ridgeline.measure.events import StateWarning
from ridgeline.operators import SparkInput
from support.engine.applications import Counter, Number, sink
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import folder_application, rate_application
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
    """Two windows more: all numbers up to then are in the sum, once. Or the error."""
    app = folder_application("json", files[0])
    if expect:
        return str(run_on_spark(app, spark_context, checkpoint, windows=2, expect=expect)[1])
    run = run_on_spark(app, spark_context, checkpoint, windows=2)
    assert run.ids == [12, 13]
    assert run.collected("store")[-1].value == sum(1 << int(name) for name in read_until(checkpoint, 13))
    assert not run.of_type(StateWarning)
    return None


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
    for name in names:
        shutil.rmtree(checkpoint / "spark" / name)
        shutil.copytree(files[1].parent / "older" / name, checkpoint / "spark" / name)


def lost_from(window):
    def harm(_files, checkpoint):
        for path in (checkpoint / "spark" / "offsets").glob("[0-9]*"):
            if int(path.name) >= window:
                path.unlink()

    return harm


def older_folders(*names):
    return lambda files, checkpoint: older(files, checkpoint, *names)


def gone(name):
    return lambda _files, checkpoint: shutil.rmtree(checkpoint / name)


def changed(name, change):
    """The file has other bytes; without `change` it is gone."""

    def harm(_files, checkpoint):
        path = checkpoint / "spark" / name
        data = path.read_bytes()
        path.unlink()
        if change is not None:
            path.write_bytes(change(data))

    return harm


def of_another_window(_files, checkpoint):
    shutil.copy(checkpoint / "spark" / "offsets" / "9", checkpoint / "spark" / "offsets" / "11")


ANOTHER_ID = b'{"id": "00000000-0000-0000-0000-000000000000"}'


@pytest.mark.parametrize(
    "harm",
    [
        lambda *_: None,
        lost_from(0),
        lost_from(8),
        lost_from(11),
        older_folders("offsets"),
        older_folders("commits"),
        older_folders("offsets", "commits"),
        gone("spark/commits"),
        changed("metadata", None),
        changed("metadata", lambda _: ANOTHER_ID),
        changed("offsets/11", lambda data: data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]),
        changed("offsets/11", lambda data: data[:-9]),
        changed("offsets/11", lambda data: bytes(len(data))),
        of_another_window,
    ],
)
def test_what_the_commit_has_is_written_again(files, checkpoint, spark_context, harm):
    id_of_query = (checkpoint / "spark" / "metadata").read_bytes()
    harm(files, checkpoint)
    go_on(files, checkpoint, spark_context)
    assert (checkpoint / "spark" / "metadata").read_bytes() == id_of_query


REMEDY = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (changed("sources/0/11", None), "sources/0/11` is missing"),
        (changed("sources/0/9.compact", None), "sources/0/9.compact` is missing"),
        (
            changed("sources/0/9.compact", lambda data: data.replace(b".json", b".jsom", 1)),
            "sources/0/9.compact` is damaged, or another one",
        ),
        (older_folders("sources"), "sources/0/9.compact` is missing"),
        (older_folders("offsets", "commits", "sources"), "sources/0/9.compact` is missing"),
        (gone("spark"), "sources/0/9.compact` is missing"),
    ],
)
def test_a_lost_list_of_files_is_reported(files, checkpoint, spark_context, harm, said):
    harm(files, checkpoint)
    error = go_on(files, checkpoint, spark_context, CheckpointError)
    assert error == f"Spark's log `{checkpoint}/spark/{said}, and it says which files were read; {REMEDY}"


def test_a_log_ahead_of_the_commits_is_reported(files, checkpoint, spark_context):
    planned = max(int(path.name) for path in (checkpoint / "spark" / "offsets").glob("[0-9]*"))
    assert planned in {11, 12}  # Spark may have planned one more when the run was ended
    forget_last(checkpoint)
    error = go_on(files, checkpoint, spark_context, CheckpointError)
    assert "what follows was written and synced, but is gone or damaged" in error
    (checkpoint / "committed" / "last").unlink()
    error = go_on(files, checkpoint, spark_context, CheckpointError)
    said = f"is at micro-batch {planned}, but the last commit is of micro-batch 10"
    assert error == f"Spark's log `{checkpoint}/spark` {said}; {REMEDY}"


def test_what_was_planned_and_not_committed_is_planned_anew(files, checkpoint, spark_context):
    spark = checkpoint / "spark"
    head, _, _ = (spark / "offsets" / "11").read_bytes().rpartition(b"\n")
    (spark / "offsets" / "12").write_bytes(head + b'\n{"logOffset":12}')
    listed = (spark / "sources" / "0" / "11").read_text()
    last = json.loads(listed.split("\n")[-1])
    name = last["path"].rpartition("/")[2]
    wrong = listed.replace(name, "00.json").replace('"batchId":11', '"batchId":12')
    (spark / "sources" / "0" / "12").write_text(wrong)
    go_on(files, checkpoint, spark_context)


def test_a_log_lost_altogether_is_written_again_where_the_commit_has_it_all(spark_context, tmp_path):
    whole = run_on_spark(rate_application(), spark_context, tmp_path / "whole", windows=6).collected("store")
    app, checkpoint = rate_application(), tmp_path / "checkpoint"
    first = run_on_spark(app, spark_context, checkpoint, windows=3)
    shutil.rmtree(checkpoint / "spark")
    second = run_on_spark(app, spark_context, checkpoint, windows=3)
    assert second.ids == [3, 4, 5]
    assert first.collected("store") + second.collected("store") == whole


def test_a_source_is_not_added_to_windows_without_one(spark_context, tmp_path):
    def application(name, source, port):
        app = Application("grows", window="1ms")
        operator = app.add_operator(name, source)
        app.add_stream("numbers", getattr(operator, port), sink(app, "store", Number))
        return app

    checkpoint = tmp_path / "checkpoint"
    app = application("numbers", Counter(count=1000, per_window=10), "numbers")
    run_on_spark(app, spark_context, checkpoint, windows=3)
    source = SparkInput(
        format="rate-micro-batch",
        options={"rowsPerBatch": 50},
        schema=Number,
        transform=lambda frame: frame.select("value"),
    )
    assert last_of(checkpoint).offsets is None
    app = application("others", source, "output")
    _, error = run_on_spark(app, spark_context, checkpoint, windows=1, expect=CheckpointError)
    assert "`--drop-state numbers` drops it" in str(error)
