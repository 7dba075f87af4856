"""Every kind of damage to Spark's log: it is repaired to continue the commit exactly, or reported."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from ridgeline import CheckpointError
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.spark_source.offset_log import SparkLog
from ridgeline.engine.files.storage import LocalStorage
from support.damage import KINDS, cases, names_file_and_remedy

FILES = '{{"logOffset":{0}}}'
KAFKA = '{{"clicks":{{"0":{0}00,"1":{0}50}}}}'
SETTINGS = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1795321753835,"conf":{"spark.sql.shuffle.partitions":"200"}}'
)


def plan(spark, window_id):
    """What Spark writes before a window runs: which files it reads, then the offsets."""
    listed = [f'{{"path":"file:///in/{window_id}.json","timestamp":1,"batchId":{window_id}}}']
    name = f"{window_id}.compact" if window_id % 10 == 9 else str(window_id)
    if window_id % 10 == 9:
        listed = [
            f'{{"path":"file:///in/{number}.json","timestamp":1,"batchId":{number}}}'
            for number in range(window_id + 1)
        ]
    (spark / "sources" / "0" / name).write_text("\n".join(["v1", *listed]))
    (spark / "offsets" / str(window_id)).write_text(
        "\n".join(["v1", SETTINGS, FILES.format(window_id), KAFKA.format(window_id + 1)])
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A log with 12 windows committed and one planned, the last commit, and an older copy of the log."""
    folder = tmp_path_factory.mktemp("log")
    spark = folder / "whole" / "spark"
    for name in ("offsets", "commits", "sources/0", "sources/1"):
        (spark / name).mkdir(parents=True)
    (spark / "metadata").write_text(json.dumps({"id": "bb62985a-98ee-47d5-9126-affd960c18e1"}))
    (spark / "sources" / "1" / "0").write_bytes(b'\0v1\n{"clicks":{"0":0,"1":0}}')
    log = SparkLog(LocalStorage(str(folder / "whole")), ["files", "kafka"])
    for window_id in range(12):
        plan(spark, window_id)
        offsets = log.offsets(window_id)
        (spark / "commits" / str(window_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        if window_id == 5:
            shutil.copytree(folder / "whole", folder / "earlier")
    plan(spark, 12)
    return folder, Manifest(11, 1, 0, {}, [], {}, False, offsets)


def is_right(checkpoint, manifest):
    """Whether Spark goes on with window 12 right behind the commit, or repeats micro-batch 11 as it was."""
    spark = checkpoint / "spark"
    known = manifest.offsets
    assert (spark / "offsets" / "11").read_text() == known.entry
    assert (spark / "metadata").read_text() == known.metadata
    assert {path.name for path in (spark / "sources" / "0").glob("1?")} >= {"10", "11"}
    done = max(
        (int(path.name) for path in (spark / "commits").glob("*") if path.name.isdecimal()), default=-1
    )
    planned = max(int(path.name) for path in (spark / "offsets").iterdir() if path.name.isdecimal())
    assert done <= 11 == planned  # what was planned beyond the commit is planned anew
    assert not (spark / "sources" / "0" / "12").exists()
    assert (spark / "sources" / "1" / "0").read_bytes() == b'\0v1\n{"clicks":{"0":0,"1":0}}'
    before = (spark / "offsets" / "10").read_text().split("\n") if done < 11 else ["v1", "{}", "{}", "{}"]
    assert before[0] == "v1"
    assert [json.loads(line) is not None for line in before[1:]] == [True, True, True]
    assert done < 0 or (spark / "commits" / str(done)).read_text().startswith("v1\n{")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["metadata", "offsets/1[0-2]", "commits/1[01]", "sources/*/*"])
def test_the_log_continues_the_commit_or_it_is_reported(whole, tmp_path, pattern, kind):
    folder, manifest = whole
    outcomes = Counter()
    for name, damage in cases(folder / "whole" / "spark", folder / "earlier" / "spark", pattern, [kind]):
        checkpoint = shutil.copytree(folder / "whole", tmp_path / "checkpoint")
        damage(checkpoint / "spark")
        try:
            SparkLog(LocalStorage(str(checkpoint)), ["files", "kafka"]).check(manifest)
        except CheckpointError as error:
            assert names_file_and_remedy(error, name.split(" ")[0], "spark/x"), f"{name}: {error}"  # noqa: PT017
            outcomes["reported"] += 1
        else:
            is_right(checkpoint, manifest)
            outcomes["right"] += 1
        shutil.rmtree(checkpoint)
    print(pattern, kind, dict(outcomes))


@pytest.mark.parametrize("version", ["older", "gone"])
@pytest.mark.parametrize(
    "folders",
    [["offsets"], ["commits"], ["offsets", "commits"], ["sources"], ["offsets", "commits", "sources"]],
)
def test_folders_that_are_older_or_gone(whole, tmp_path, folders, version):
    folder, manifest = whole
    checkpoint = shutil.copytree(folder / "whole", tmp_path / "checkpoint")
    for name in folders:
        shutil.rmtree(checkpoint / "spark" / name)
        if version == "older":
            shutil.copytree(folder / "earlier" / "spark" / name, checkpoint / "spark" / name)
    log = SparkLog(LocalStorage(str(checkpoint)), ["files", "kafka"])
    if "sources" in folders:
        with pytest.raises(
            CheckpointError,
            match=r"sources/0/.*` is missing, and it says which files were read; restore the whole",
        ):
            log.check(manifest)
        return
    log.check(manifest)
    is_right(checkpoint, manifest)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A log whose first window is planned and was begun, and nothing is committed."""
    folder = tmp_path_factory.mktemp("begun")
    spark = folder / "whole" / "spark"
    for name in ("offsets", "commits", "sources/0", "sources/1"):
        (spark / name).mkdir(parents=True)
    (spark / "metadata").write_text(json.dumps({"id": "bb62985a-98ee-47d5-9126-affd960c18e1"}))
    (spark / "sources" / "1" / "0").write_bytes(b'\0v1\n{"clicks":{"0":0,"1":0}}')
    plan(spark, 0)
    SparkLog(LocalStorage(str(folder / "whole")), ["files", "kafka"]).offsets(0)
    return folder / "whole"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noted", [True, False])
def test_before_the_first_commit_all_is_planned_anew_from_where_sources_began(begun, tmp_path, kind, noted):
    for name, damage in cases(begun / "spark", begun / "spark", kinds=[kind]):
        checkpoint = shutil.copytree(begun, tmp_path / "checkpoint")
        if not noted:
            (checkpoint / "spark" / "begun").unlink()
        try:
            damage(checkpoint / "spark")
        except FileNotFoundError:  # it would have been the note
            shutil.rmtree(checkpoint)
            continue
        try:
            SparkLog(LocalStorage(str(checkpoint)), ["files", "kafka"]).check(None)
        except CheckpointError as error:
            assert "is at micro-batch 99, but nothing is committed" in str(error)  # noqa: PT017
        else:
            left = [path for path in (checkpoint / "spark").rglob("*/*") if path.name.isdecimal()]
            left = [path.relative_to(checkpoint / "spark").as_posix() for path in left if path.is_file()]
            whole = noted and not name.startswith("begun")
            if whole:
                assert left == ["sources/1/0"], name
            if whole or not name.startswith(("sources", "begun")):
                start = checkpoint / "spark" / "sources" / "1" / "0"
                assert start.read_bytes() == b'\0v1\n{"clicks":{"0":0,"1":0}}', name
            assert not (checkpoint / "spark" / "metadata").exists()
        shutil.rmtree(checkpoint)


def test_a_state_that_spark_keeps_is_refused(whole, tmp_path):
    folder, manifest = whole
    checkpoint = shutil.copytree(folder / "whole", tmp_path / "checkpoint")
    log = SparkLog(LocalStorage(str(checkpoint)), ["files", "kafka"])
    log.check(manifest)
    (checkpoint / "spark" / "state" / "0" / "_metadata").mkdir(parents=True)
    (checkpoint / "spark" / "state" / "0" / "_metadata" / "metadata").write_text("v1")
    (checkpoint / "spark" / "offsets" / "12").write_text(manifest.offsets.entry)
    said = r"a `transform` keeps a state in Spark, which no commit of a window holds; keep it in an operator"
    with pytest.raises(CheckpointError, match=said):
        log.offsets(12)
    with pytest.raises(CheckpointError, match=said):
        SparkLog(LocalStorage(str(checkpoint)), ["files", "kafka"]).check(manifest)


@pytest.mark.parametrize("gone", [12, 11])
def test_manifests_behind_the_log_are_reported(whole, gone):
    folder, manifest = whole
    log = SparkLog(LocalStorage(str(folder / "whole")), ["files", "kafka"])
    last = None if gone == 12 else replace(manifest, offsets=replace(manifest.offsets, batch=10))
    with pytest.raises(CheckpointError) as error:
        log.check(last)
    newest = "the last commit is of micro-batch 10" if last else "nothing is committed"
    remedy = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"
    assert (
        str(error.value) == f"Spark's log `{folder}/whole/spark` is at micro-batch 12, but {newest}; {remedy}"
    )


def test_other_sources_are_reported(whole):
    folder, manifest = whole
    log = SparkLog(LocalStorage(str(folder / "whole")), ["kafka", "files"])
    with pytest.raises(CheckpointError) as error:
        log.check(manifest)
    assert str(error.value) == (
        f"checkpoint folder `{folder}/whole`: its windows had the Spark sources `files`, "
        f"`kafka`, this application has `kafka`, `files`: "
        "offsets are kept for the sources in their order, and windows that are committed are passed over; "
        "run it with the same Spark sources in the same order, or give another `--checkpoint`"
    )
    with pytest.raises(
        CheckpointError, match="its windows had the Spark sources none, this application has `kafka`, `files`"
    ):
        log.check(replace(manifest, offsets=None))


def test_a_manifest_keeps_only_the_files_that_reading_on_depends_on(whole):
    _, manifest = whole
    assert sorted(manifest.offsets.files) == ["0/10", "0/11", "0/9.compact", "1/0"]
    assert manifest.offsets.texts == {"1/0": '\0v1\n{"clicks":{"0":0,"1":0}}'}
