"""Files on HDFS: folders that Spark moves, and a keytab of Kerberos, without which nothing is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.depth import DEPTH
from support.operators import copy_files
from support.operators.hdfs import Hdfs
from support.operators.kerberos import Kdc
from support.operators.quick_writer import moves_where_another_writes
from support.waiting import wait_until

pytestmark = pytest.mark.slow
kerberos = pytest.mark.skipif(DEPTH < 2, reason="HDFS without Kerberos is enough")
ROWS = [(n, f"müller {n}") for n in range(400)]
SCRIPT = Path(copy_files.__file__)


@pytest.mark.spark
@pytest.mark.parametrize("when", ["deleted", "moved"])
def test_spark_moves_no_folder_into_one_that_is_there(
    tmp_path: Path, spark_context: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    from pyspark.sql import SparkSession

    with Hdfs(tmp_path / "cluster") as cluster:
        folder = f"{cluster.uri}/moved"
        moves_where_another_writes(SparkSession(spark_context), folder, when, monkeypatch)


def test_a_store_that_is_away_is_no_folder_without_files(tmp_path: Path) -> None:
    """A run that ends with what is there must not end with nothing."""
    with Hdfs(tmp_path / "cluster") as cluster:
        cluster.put(
            "/in/rows.jsonl", "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in ROWS).encode()
        )
        cluster.kill_names()
        words = [f"{cluster.uri}/in", str(tmp_path / "out"), "jsonl", "2", str(tmp_path / "state")]
        log = tmp_path / "run.log"
        with log.open("wb") as out:
            environment = {**os.environ, **cluster.environment}
            run = subprocess.Popen([sys.executable, SCRIPT, *words], env=environment, stdout=out, stderr=out)
        try:
            wait_until(lambda: b"getFileInfo error" in log.read_bytes(), "a question without an answer")
            cluster.start_names()
            cluster.wait()
            assert run.wait(300) == 0, log.read_text()[-3000:]
        finally:
            run.kill()
            run.wait()
    lines = [line for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted((row["n"], row["text"]) for row in map(json.loads, lines)) == ROWS


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kdc, Hdfs]]:
    home = tmp_path_factory.mktemp("hdfs")
    lines = "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in ROWS)
    (home / "rows.jsonl").write_text(lines)
    with Kdc(home / "kdc") as kdc, Hdfs(home / "cluster", kdc.settings, kdc.options, "localhost") as made:
        made.shell("-mkdir", "/in", **kdc.user)
        made.shell("-put", str(home / "rows.jsonl"), "/in/rows.jsonl", **kdc.user)
        yield kdc, made


def copied(cluster: Hdfs, out: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [f"{cluster.uri}/in/*.jsonl", f"{cluster.uri}{out}", "jsonl", "2", str(folder / "state")]
    given = {**os.environ, **cluster.environment, **environment}
    return subprocess.run(
        [sys.executable, SCRIPT, *words], env=given, capture_output=True, text=True, check=False
    )


@kerberos
def test_files_are_copied_with_a_keytab(secure: tuple[Kdc, Hdfs], tmp_path: Path) -> None:
    kdc, cluster = secure
    ran = copied(cluster, "/out", tmp_path, **kdc.user)
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = cluster.shell("-cat", "/out/*.jsonl", **kdc.user).splitlines()
    assert sorted((row["n"], row["text"]) for row in map(json.loads, lines)) == ROWS


@kerberos
def test_a_user_without_a_ticket_is_refused(secure: tuple[Kdc, Hdfs], tmp_path: Path) -> None:
    _, cluster = secure
    ran = copied(cluster, "/other", tmp_path, KRB5CCNAME=str(tmp_path / "none"))
    assert ran.returncode != 0
    assert "KRB5KEYTAB" in ran.stderr, ran.stderr[-3000:]
