from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.harness import Driven, Published, batch
from ridgeline.api import RidgelineError
from ridgeline.api.operator import check_properties
from ridgeline.operators import SparkOutput


class Spark:
    """Stands for a session: remembers what was written, and dies when told to."""

    def __init__(self, *, dies: str = "") -> None:
        self.written: list[tuple[str, dict[str, Any], str, list[int]]] = []
        self.dies = dies
        self.read = self

    def parquet(self, *paths: str) -> Any:
        import pyarrow.parquet as pq

        self.rows = [n for path in paths for n in pq.read_table(path.removeprefix("file://"))["n"].to_pylist()]
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
    return [Driven(output, partition=p, partitions=partitions, staging=str(folder / "staging"), rotate=True) for p in range(partitions)]


def test_a_window_is_written_once_with_its_id_and_staged_no_longer(tmp_path: Path) -> None:
    output = SparkOutput(format="delta", options={"path": "out/{window_id}", "mergeSchema": True}, mode="overwrite")
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
    options = [{"path": f"out/{w}", "mergeSchema": True, "txnAppId": "test/under_test/run1", "txnVersion": w} for w in range(2)]
    assert spark.written == [("delta", options[0], "overwrite", [0, 0, 0, 1]), ("delta", options[1], "overwrite", [1, 0, 1, 1])]


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


def test_a_driver_that_dies_while_it_deletes_does_not_write_again(tmp_path: Path) -> None:
    output = SparkOutput(format="parquet")
    spark = Spark()
    driver = Published(output, tmp_path, spark=spark)
    driver.stage(0, [value for part in parts_of(output, tmp_path, 2) for value in part.window(batch(n=[5]))[1]])
    staged(tmp_path)[0].unlink()
    driver.crash()
    assert spark.written == []
    assert staged(tmp_path) == []


def test_a_mode_that_spark_does_not_have_is_a_fault() -> None:
    assert check_properties(SparkOutput(format="parquet", mode="merge"))[1] == [
        ("mode", "merge", "must be one of append, overwrite, error, errorifexists, ignore")
    ]


def test_a_type_that_spark_does_not_have(tmp_path: Path) -> None:
    [part] = parts_of(SparkOutput(format="parquet"), tmp_path, 1)
    rows = pa.RecordBatch.from_arrays([pa.array([(1, 2, 3)], pa.month_day_nano_interval())], names=["n"])
    with pytest.raises(
        RidgelineError, match="`under_test` cannot write column `n`: Spark has no type for month_day_nano_interval; leave it out"
    ):
        part.window(rows)


@pytest.mark.spark
def test_spark_writes_windows_into_folders_of_their_own(spark_context: Any, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession(spark_context)
    output = SparkOutput(
        format="parquet",
        options={"path": str(tmp_path / "out" / "window={window_id}")},
        mode="overwrite",
        transform=lambda frame, window_id: frame.selectExpr("n", "at", f"n + {window_id} as m"),
    )
    publisher = output.publisher()
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    parts = [Driven(SparkOutput(format="parquet"), partition=p, partitions=2, staging=str(tmp_path / "staging")) for p in range(2)]
    driver = Published(SparkOutput(format="parquet"), tmp_path, spark=spark)
    driver.publisher = publisher
    publisher.open(driver.context, None)
    for window in range(2):
        values = [value for p, part in enumerate(parts) for value in part.window(batch(n=[p], at=[at]))[1]]
        driver.commit(window, values)
        publisher.open(driver.context, {"window": window, "files": values})
        publisher.publish(window)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("window", "n").collect()
    assert [(row.window, row.n, row.m) for row in rows] == [(w, n, n + w) for w in range(2) for n in range(2)]
    assert rows[0].at.astimezone(UTC) == at


@pytest.mark.spark
def test_what_spark_refuses_is_told_and_not_lost(spark_context: Any, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    output = SparkOutput(format="no-such-thing")
    driver = Published(output, tmp_path, spark=SparkSession(spark_context))
    [part] = parts_of(output, tmp_path, 1)
    with pytest.raises(
        RidgelineError,
        match=r"^`under_test` cannot write window 0 as `no-such-thing`; Spark says: \[DATA_SOURCE_NOT_FOUND\] .*; mend that, then",
    ):
        driver.commit(0, part.window(batch(n=[1]))[1])
    assert len(staged(tmp_path)) == 1
