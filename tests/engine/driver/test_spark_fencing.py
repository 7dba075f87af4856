"""Checkpoints on file systems of Hadoop, without locks: whoever took the folder last owns it."""

import re

import pytest

from ridgeline.api.errors import FencedError
from ridgeline.engine.driver.checkpoint.folder import Checkpoint
from ridgeline.engine.spark.hadoop import HadoopStorage
from support.engine.applications import sum_application
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark

SUMS = [sum(range(10 * window + 10)) for window in range(30)]


def sums(run):
    return [number.value for number in run.collected("store")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that the driver reaches through Hadoop's FileSystem, as it does HDFS."""
    monkeypatch.setattr("ridgeline.engine.driver.run.launch.is_local", lambda uri: False)
    return f"file:{tmp_path}/checkpoint"


def test_runs_and_purges_on_a_file_system_of_hadoop(spark_context, folder, tmp_path):
    """The first driver purges after its 16th commit: of what it keeps, the oldest picture is file 10."""
    first = run_on_spark(sum_application(count=300), spark_context, folder, windows=27)
    second = run_on_spark(sum_application(count=300), spark_context, folder)

    assert first.ids + second.ids == list(range(30))
    assert sums(first) + sums(second) == SUMS
    journal = [
        path for path in (tmp_path / "checkpoint" / "journal").iterdir() if not path.name.startswith(".")
    ]
    assert len(journal) <= 23  # of 32, two of them seals
    assert not (tmp_path / "checkpoint" / "lock").exists()


def test_first_driver_is_fenced_off_by_the_second(spark_context, folder):
    from ridgeline.engine.spark.hadoop import HadoopStorage

    def take_over(run, summary):
        if summary.window_id == 2:
            Checkpoint(HadoopStorage(folder, spark_context), "sums").close()

    first, error = run_on_spark(sum_application(), spark_context, folder, each=take_over, expect=FencedError)
    second = run_on_spark(sum_application(), spark_context, folder)

    assert (
        str(error)
        == f"checkpoint folder `{folder}` was taken over by another driver; this one stops, nothing is lost"
    )
    assert len(first.ids) >= 3  # a window behind the third may have been committed meanwhile
    assert first.ids + second.ids == list(range(10))
    assert sums(first) + sums(second) == SUMS[:10]


def test_a_driver_that_sleeps_while_another_takes_over_stops_with_its_slots(
    spark_context, folder, wait_until
):
    """As one that was stopped, its slots with windows in flight, and wakes up again."""
    others = []

    def sleep(run, summary):
        if summary.window_id == 2:
            others.append(run_on_spark(sum_application(), spark_context, folder, windows=4))

    first, error = run_on_spark(sum_application(), spark_context, folder, each=sleep, expect=FencedError)
    third = run_on_spark(sum_application(), spark_context, folder)

    assert "was taken over by another driver; this one stops, nothing is lost" in str(error)
    assert (len(first.ids) >= 3, len(others[0].ids)) == (True, 4)
    assert first.ids + others[0].ids + third.ids == list(range(10))
    assert sums(first) + sums(others[0]) + sums(third) == SUMS[:10]
    jobs = spark_context.statusTracker().getActiveJobsIds
    wait_until(lambda: not jobs(), "the slots of all three to end")


def test_window_that_another_driver_has_committed_is_not_committed_again(spark_context, folder, tmp_path):
    """The second driver has come between the first one's look at the owner and its commit."""
    journal = tmp_path / "checkpoint" / "journal"
    others = []

    def commit_next(run, summary):
        if summary.window_id == 1:
            newest = max(int(file.name) for file in journal.iterdir() if file.name.isdecimal())
            others.append(journal / f"{newest + 2:08d}")  # the next one may be on its way
            others[0].write_text("another driver's")

    first, error = run_on_spark(
        sum_application(count=300), spark_context, folder, each=commit_next, expect=FencedError
    )

    told = f"window ([0-9]+) was committed to `{folder}` by another driver; this one stops, nothing is lost"
    ended = re.fullmatch(told, str(error))
    assert ended
    assert 2 <= len(first.ids) <= int(ended[1])
    assert first.ids == list(range(len(first.ids)))
    assert others[0].read_text() == "another driver's"


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
