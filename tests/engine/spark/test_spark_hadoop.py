"""Checkpoints through Hadoop's FileSystem, here on its local one."""

import pytest

from ridgeline.engine.spark.hadoop import HadoopStorage

pytestmark = pytest.mark.spark


@pytest.fixture
def storage(spark_context, tmp_path):
    return HadoopStorage(f"file://{tmp_path}/checkpoint", spark_context)


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
