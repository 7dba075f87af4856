from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeline.api import RidgelineError
from ridgeline.api.errors import FencedError
from ridgeline.api.support.files import StoreAwayError
from ridgeline.connect.output_files import OutputFiles
from ridgeline.operators import SparkOutput
from support.crash.disks import full, small_disk
from support.operators.harness import Driven, Published, batch


class Spark:
    """Stands for a session: remembers what was written, and fails when asked to."""

    def __init__(self, *, dies: str = "") -> None:
        self.written: list[tuple[str, dict[str, Any], str, list[int]]] = []
        self.dies = dies
        self.read = self

    def parquet(self, *paths: str) -> Any:
        self.rows = [
            n for path in paths for n in pq.read_table(path.removeprefix("file://"))["n"].to_pylist()
        ]
        return self

    @property
    def write(self) -> Any:
        return self

    def format(self, name: str) -> Any:
        self.name = name
        return self

    def options(self, **options: Any) -> Any:
        self.given = options
        return self

    def mode(self, name: str) -> Any:
        self.chosen = name
        return self

    def save(self) -> None:
        if self.dies == "before":
            raise KeyboardInterrupt
        self.written.append((self.name, self.given, self.chosen, self.rows))
        if self.dies == "after":
            raise KeyboardInterrupt


def staged(folder: Path) -> list[Path]:
    return sorted((folder / "staging").rglob("*.parquet"))


def parts_of(output: SparkOutput, folder: Path, partitions: int) -> list[Driven]:
    return [
        Driven(output, partition=p, partitions=partitions, staging=str(folder / "staging"), rotate=True)
        for p in range(partitions)
    ]


def test_a_window_is_written_once_with_its_id_and_staged_no_longer(tmp_path: Path) -> None:
    output = SparkOutput(
        format="delta", options={"path": "out/{window_id}", "mergeSchema": True}, mode="overwrite"
    )
    spark = Spark()
    driver = Published(output, tmp_path, spark=spark)
    parts = parts_of(output, tmp_path, 2)
    for window in range(2):
        values = [value for p, part in enumerate(parts) for value in part.window(batch(n=[window, p]))[1]]
        driver.stage(window, values)
        assert len(staged(tmp_path)) == 2
        assert len(spark.written) == window
        driver.publisher.publish(window)
        driver.publisher.publish(window)
        assert staged(tmp_path) == []
    driver.commit(2, [])
    options = [
        {"path": f"out/{w}", "mergeSchema": True, "txnAppId": "test/under_test/run1", "txnVersion": w}
        for w in range(2)
    ]
    assert spark.written == [
        ("delta", options[0], "overwrite", [0, 0, 0, 1]),
        ("delta", options[1], "overwrite", [1, 0, 1, 1]),
    ]


@pytest.mark.guide("004", "Database/Window Synchronization Operator")
@pytest.mark.parametrize(("dies", "times"), [("before", 1), ("after", 2)])
def test_a_driver_that_dies_writes_the_window_again(tmp_path: Path, dies: str, times: int) -> None:
    output = SparkOutput(format="parquet")
    spark = Spark(dies=dies)
    driver = Published(output, tmp_path, spark=spark)
    [part] = parts_of(output, tmp_path, 1)
    part.window(batch(n=[5]), commit=False)
    values = part.window(batch(n=[5]))[1]
    with pytest.raises(KeyboardInterrupt):
        driver.commit(0, values)
    assert len(staged(tmp_path)) == 2
    spark.dies = ""
    driver.crash()
    assert staged(tmp_path) == []
    assert spark.written == [("parquet", {}, "append", [5])] * times
    driver.crash()
    assert len(spark.written) == times


def test_a_driver_that_dies_while_it_deletes_does_not_write_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = SparkOutput(format="parquet")
    spark = Spark()
    driver = Published(output, tmp_path, spark=spark)
    values = [value for part in parts_of(output, tmp_path, 2) for value in part.window(batch(n=[5]))[1]]
    monkeypatch.setattr(OutputFiles, "delete", dies)
    with pytest.raises(KeyboardInterrupt):
        driver.commit(0, values)
    monkeypatch.undo()
    assert len(staged(tmp_path)) == 2
    driver.crash()
    assert len(spark.written) == 1
    assert staged(tmp_path) == []


def dies(*_arguments: Any) -> None:
    raise KeyboardInterrupt


def waiting(tmp_path: Path, spark: Spark) -> Published:
    """A driver that died between the commit and the writing of window 1, of two partitions."""
    output = SparkOutput(format="parquet")
    driver = Published(output, tmp_path, spark=spark)
    parts = parts_of(output, tmp_path, 2)
    driver.commit(0, [value for part in parts for value in part.window(batch(n=[1]))[1]])
    driver.stage(1, [value for part in parts for value in part.window(batch(n=[2]))[1]])
    return driver


def renamed(driver: Published, name: str) -> None:
    """The next start has the operator under another name."""
    driver.context = replace(driver.context, operator=name)
    driver.crash()


@pytest.mark.parametrize("committed", [True, False])
def test_a_renamed_output_writes_each_window_once(tmp_path: Path, committed: bool) -> None:
    """`committed`: a window that is committed and not written waits when the name changes."""
    spark = Spark()
    driver = waiting(tmp_path, spark)
    if not committed:
        driver.publisher.publish(1)
    renamed(driver, "kept")
    assert [rows for *_, rows in spark.written] == [[1, 1], [2, 2]]
    driver.crash()
    assert staged(tmp_path) == []
    for window, name in ((2, "under_test"), (3, "kept"), (4, "again")):
        output = SparkOutput(format="parquet", options={"path": "out/{window_id}"})
        own = str(tmp_path / "staging")
        part = Driven(output, staging=own, rotate=True, name=driver.context.operator)
        part.window_id = window
        driver.stage(window, part.window(batch(n=[window + 1]))[1])
        renamed(driver, name)
        driver.crash()
    assert [rows[0] for *_, rows in spark.written] == [1, 2, 3, 4, 5]
    assert staged(tmp_path) == []


def test_a_renamed_output_whose_rows_are_gone_says_so(tmp_path: Path) -> None:
    driver = waiting(tmp_path, Spark())
    file_gone(tmp_path)
    with pytest.raises(RidgelineError, match="committed rows of window 1, is damaged"):
        renamed(driver, "kept")


def folder_gone(folder: Path) -> None:
    shutil.rmtree(folder / "staging")


def marker_gone(folder: Path) -> None:
    (folder / "staging" / "under_test" / "written-0").unlink()


def file_gone(folder: Path) -> None:
    staged(folder)[0].unlink()


def flipped(folder: Path) -> None:
    data = bytearray(staged(folder)[1].read_bytes())
    data[10] ^= 1
    staged(folder)[1].write_bytes(data)


def cut(folder: Path) -> None:
    staged(folder)[1].write_bytes(staged(folder)[1].read_bytes()[:-4])


def swapped(folder: Path) -> None:
    first, second = staged(folder)
    held = first.read_bytes() + b" "
    first.write_bytes(second.read_bytes() + b" ")
    second.write_bytes(held)


@pytest.mark.parametrize("harm", [folder_gone, marker_gone, file_gone, flipped, cut, swapped])
def test_staged_rows_that_are_gone_or_damaged_are_reported_and_not_written(tmp_path: Path, harm: Any) -> None:
    spark = Spark()
    driver = waiting(tmp_path, spark)
    shutil.copytree(tmp_path / "staging", tmp_path / "copy")
    harm(tmp_path)
    give_up = r"restore .*`staging`.*; to give these rows up, create the empty file `.*/written-1`$"
    damaged = r"^`under_test`: `.*/w0000000001-p\d-a\d\.parquet`, committed rows of window 1, is damaged"
    with pytest.raises(RidgelineError, match=f"{damaged}: .*{give_up}"):
        driver.crash()
    assert len(spark.written) == 1
    shutil.rmtree(tmp_path / "staging", ignore_errors=True)
    (tmp_path / "copy").rename(tmp_path / "staging")
    driver.crash()
    assert [rows for *_, rows in spark.written] == [[1, 1], [2, 2]]
    shutil.rmtree(tmp_path / "staging")
    with pytest.raises(RidgelineError, match=give_up):
        driver.crash()
    (tmp_path / "staging" / "under_test").mkdir(parents=True)
    (tmp_path / "staging" / "under_test" / "written-1").touch()
    driver.crash()
    assert len(spark.written) == 2


def test_an_older_checkpoint_is_reported(tmp_path: Path) -> None:
    spark = Spark()
    driver = waiting(tmp_path, spark)
    older = driver.manifest
    driver.crash()
    driver.commit(2, [("w0000000002-p0-a9.parquet", *made(tmp_path, "w0000000002-p0-a9.parquet"))])
    driver.manifest = older
    older_copy = "older copy.*window 2 is written, window 1 is committed; restore the newer checkpoint"
    with pytest.raises(RidgelineError, match=older_copy):
        driver.crash()


def made(folder: Path, name: str) -> tuple[int, int, str, int]:
    with OutputFiles(str(folder / "staging")).writing(f"{folder}/staging/under_test/{name}") as out:
        pq.write_table(pa.table({"n": [3]}), out)
    return 1, out.size, "", out.crc32


def test_who_is_fenced_off_writes_and_deletes_nothing(tmp_path: Path) -> None:
    spark = Spark()
    driver = waiting(tmp_path, spark)
    driver.fenced = True
    with pytest.raises(FencedError):
        driver.publisher.publish(1)
    assert len(spark.written) == 1
    assert len(staged(tmp_path)) == 2


def test_files_that_another_driver_may_be_about_to_commit_stay(tmp_path: Path) -> None:
    driver = waiting(tmp_path, Spark())
    driver.crash()
    made(tmp_path, "w0000000002-p0-a9.parquet")
    made(tmp_path, "w0000000001-p0-a9.parquet")
    driver.crash()
    assert [path.name for path in staged(tmp_path)] == ["w0000000002-p0-a9.parquet"]


def test_a_type_that_spark_does_not_have(tmp_path: Path) -> None:
    [part] = parts_of(SparkOutput(format="parquet"), tmp_path, 1)
    rows = pa.RecordBatch.from_arrays([pa.array([(1, 2, 3)], pa.month_day_nano_interval())], names=["n"])
    with pytest.raises(RidgelineError, match=r"column `n`: .* no type for month_day_nano_interval"):
        part.window(rows)


@pytest.fixture
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession(spark_context)


@pytest.mark.spark
def test_spark_writes_windows_into_folders_of_their_own(spark: Any, tmp_path: Path) -> None:
    output = SparkOutput(
        format="parquet",
        options={"path": str(tmp_path / "out" / "window={window_id}")},
        mode="overwrite",
        transform=lambda frame, window_id: frame.selectExpr("n", "at", f"n + {window_id} as m"),
    )
    publisher = output.publisher()
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    parts = [
        Driven(SparkOutput(format="parquet"), partition=p, partitions=2, staging=str(tmp_path / "staging"))
        for p in range(2)
    ]
    driver = Published(SparkOutput(format="parquet"), tmp_path, spark=spark)
    driver.publisher = publisher
    publisher.open(driver.context, None)
    for window in range(2):
        values = [value for p, part in enumerate(parts) for value in part.window(batch(n=[p], at=[at]))[1]]
        driver.commit(window, values)
        publisher.open(driver.context, json.loads(driver.manifest))
        publisher.publish(window)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("window", "n").collect()
    assert [(row.window, row.n, row.m) for row in rows] == [(w, n, n + w) for w in range(2) for n in range(2)]
    assert rows[0].at.astimezone(UTC) == at


@pytest.mark.spark
def test_an_older_copy_of_a_checkpoint_does_not_mix_with_later_windows(spark: Any, tmp_path: Path) -> None:
    out, staging, older = (tmp_path / name for name in ("out", "staging", "older"))
    out.mkdir()
    (out / "window=notes").mkdir()
    output = SparkOutput(
        format="json", options={"path": f"{out}/window={{window_id}}/rows"}, mode="overwrite"
    )
    driver = Published(output, tmp_path, spark=spark)
    [part] = parts_of(output, tmp_path, 1)

    def commit(window: int) -> None:
        driver.commit(window, part.window(batch(n=[window]))[1])

    commit(0)
    shutil.copytree(staging, older)
    manifest = driver.manifest
    commit(1)
    driver.crash()
    commit(2)
    shutil.rmtree(staging)
    older.rename(staging)
    driver.manifest = manifest
    driver.start()
    with pytest.raises(
        RidgelineError, match=rf"`{out}` is newer than the checkpoint .* it has window 2, window 1"
    ):
        commit(1)
    folders = sorted(path.parent.parent.name for path in out.rglob("*.json"))
    assert folders == ["window=0", "window=1", "window=2"]


@pytest.mark.spark
def test_a_driver_that_is_taken_over_while_spark_writes_touches_no_rows(spark: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    overtakes: list[int] = []

    def overtaken(frame: Any, window_id: int) -> Any:
        driver.fenced = window_id in overtakes
        return frame

    options = {"path": f"{out}/window={{window_id}}"}
    output = SparkOutput(format="json", options=options, mode="overwrite", transform=overtaken)
    driver = Published(SparkOutput(format="json"), tmp_path, spark=spark)
    [part] = parts_of(SparkOutput(format="json"), tmp_path, 1)
    driver.publisher = output.publisher()
    driver.publisher.open(driver.context, None)
    (out / "_ridgeline-window=0-0").mkdir(parents=True)  # of one that was killed
    others = ["_ridgeline-day=0-0", "_ridgeline-window=0-late-0"]  # other outputs write there
    for name in others:
        (out / name).mkdir()
    driver.commit(0, part.window(batch(n=[0]))[1])
    overtakes.append(1)
    (out / "window=1").mkdir()
    (out / "window=1" / "part.json").write_text('{"n": 1}\n')
    with pytest.raises(FencedError):
        driver.commit(1, part.window(batch(n=[1]))[1])
    assert sorted(path.name for path in out.iterdir()) == [*others, "window=0", "window=1"]
    assert [path.name for path in (out / "window=1").iterdir()] == ["part.json"]


@pytest.mark.spark
def test_a_disk_that_is_full_is_waited_for_once_spark_has_written(spark: Any, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2) as disk:
        options = {"path": f"{disk}/out/window={{window_id}}"}
        output = SparkOutput(format="parquet", options=options, mode="overwrite")
        driver = Published(output, tmp_path, spark=spark)
        [part] = parts_of(output, tmp_path, 1)
        with full(disk):
            values = part.window(batch(n=[0]))[1]
            with pytest.raises(RidgelineError, match="No space left on device") as raised:
                driver.commit(0, values)
            assert not isinstance(raised.value, StoreAwayError)  # it never could: its options may be wrong
        driver.publisher.publish(0)
        driver.stage(1, part.window(batch(n=[1]))[1])
        with full(disk):
            with pytest.raises(StoreAwayError, match="cannot write window 1 as `parquet`") as raised:
                driver.publisher.publish(1)
            assert "No space left on device" in raised.value.why
            assert "\n" not in raised.value.why
        driver.publisher.publish(1)
        assert staged(tmp_path) == []
        assert sorted(row.n for row in spark.read.parquet(f"{disk}/out").collect()) == [0, 1]


def test_times_that_spark_would_cut_are_refused(tmp_path: Path) -> None:
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns")):
        for array in (
            pa.array([1], kind),
            pa.array([[1]], pa.list_(kind)),
            pa.array([{"t": 1}], pa.struct([("t", kind)])),
        ):
            rows = pa.RecordBatch.from_arrays([array], names=["t"])
            with pytest.raises(
                RidgelineError, match=r"cannot write column `t`: Spark's times have microseconds"
            ):
                Driven(SparkOutput(format="parquet", options={"path": str(tmp_path)})).window(rows)
