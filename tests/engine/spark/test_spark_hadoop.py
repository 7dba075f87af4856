"""Checkpoints through Hadoop's FileSystem, here on its local one."""

import pytest

from ridgeline import CheckpointError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.spark.hadoop import HadoopStorage

pytestmark = pytest.mark.spark


@pytest.fixture
def storage(spark_context, tmp_path):
    return HadoopStorage(f"file://{tmp_path}/checkpoint", spark_context)


def manifest(window_id, epoch):
    return Manifest(window_id, epoch, 0, {}, [], {}, ended=False, reports="")


@pytest.mark.guide("002", "HDFS")
def test_files_come_back_as_they_went(storage):
    storage.write("a/b", b"\x00\xff" * 1000)
    assert storage.read("a/b") == b"\x00\xff" * 1000
    assert storage.names("a") == ["b"]
    storage.delete(["a/b", "a/none"])
    assert storage.names("a") == storage.names("none") == []
    with pytest.raises(FileNotFoundError, match="a/b"):
        storage.read("a/b")


def test_a_file_is_created_once(storage):
    assert [storage.create("a/b", b"first"), storage.create("a/b", b"second")] == [True, False]
    assert storage.read("a/b") == b"first"
    assert storage.names("a") == ["b"]


def test_the_older_of_two_drivers_is_fenced_off(storage):
    first = Checkpoint(storage, "words")
    first.commit(manifest(0, first.epoch))
    second = Checkpoint(storage, "words")
    assert (second.run_id, second.last().window_id) == (first.run_id, 0)
    with pytest.raises(
        CheckpointError, match="was taken over by another driver; this one stops, nothing is lost"
    ):
        first.commit(manifest(1, first.epoch))
    second.commit(manifest(1, second.epoch))
    assert Checkpoint(storage, "words").last() == manifest(1, second.epoch)
