"""Files on HDFS: read by `FileInput`, written by `FileOutput`, compared by Hadoop's own shell."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.operators import copy_files
from support.operators.hdfs import Hdfs
from support.operators.quick_writer import moves_where_another_writes

pytestmark = pytest.mark.slow

ROWS = [(n, f"müller {n}") for n in range(400)]
SCRIPT = Path(copy_files.__file__)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    home = tmp_path_factory.mktemp("hdfs")
    folder = home / "in"
    (folder / "deep").mkdir(parents=True)
    for number in range(4):
        rows = ROWS[number * 100 : number * 100 + 100]
        lines = "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in rows).encode()
        file = folder / ("deep" if number % 2 else "") / f"{number}.jsonl.gz"
        file.write_bytes(gzip.compress(lines[:1000]) + gzip.compress(lines[1000:]))
    (folder / "9.jsonl.gz.tmp").write_bytes(b"not whole")
    with Hdfs(home / "cluster") as made:
        made.shell("-put", str(folder), "/")
        yield made


@pytest.mark.spark
@pytest.mark.parametrize("when", ["deleted", "moved"])
def test_spark_moves_no_folder_into_one_that_is_there(
    cluster: Hdfs, spark_context: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    from pyspark.sql import SparkSession

    folder = f"{cluster.uri}/moved-{when}"
    moves_where_another_writes(SparkSession(spark_context), folder, when, monkeypatch)
