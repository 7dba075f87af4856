"""Files of Google Cloud Storage: read by `FileInput`, written by `FileOutput`, on an emulator."""

from __future__ import annotations

import gzip
import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl
import pytest

from ridgeline import Application
from ridgeline.operators import FileInput, FileOutput
from ridgeline.testing import run_local
from support.accounts.reports import Command
from support.ports import free_port
from support.waiting import wait_until


class Row(NamedTuple):
    n: int
    text: str


class Store:
    """Objects by HTTP alone, as Google's interface has them."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.settings = f"scheme=http&endpoint_override=127.0.0.1:{port}&retry_limit_seconds=10"

    def answers(self) -> bool:
        try:
            self._ask("/storage/v1/b/shop/o")
        except OSError:
            return False
        return True

    def put(self, name: str, data: bytes) -> None:
        quoted = urllib.parse.quote(name, safe="")
        self._ask(f"/upload/storage/v1/b/shop/o?uploadType=media&name={quoted}", data)

    def names(self, prefix: str) -> list[str]:
        found = json.loads(self._ask(f"/storage/v1/b/shop/o?prefix={prefix}"))
        return [one["name"] for one in found.get("items", [])]

    def get(self, name: str) -> bytes:
        return self._ask(f"/download/storage/v1/b/shop/o/{urllib.parse.quote(name, safe='')}?alt=media")

    def _ask(self, path: str, data: bytes | None = None) -> bytes:
        with urllib.request.urlopen(self.address + path, data, timeout=10) as answer:
            read: bytes = answer.read()
        return read


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    log = tmp_path_factory.mktemp("gcs") / "log"
    port = free_port()
    program = Path(sys.executable).with_name("gcp-storage-emulator")
    words = [program, "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", "--default-bucket=shop"]
    with log.open("wb") as out:
        server = Command(words, log=log, cwd=log.parent, stdout=out, stderr=out)
    made = Store(port)
    try:
        wait_until(lambda: server.poll() is not None or made.answers(), "the emulator")
        yield made
    finally:
        server.clean()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_files_are_copied_once_each(store: Store, tmp_path: Path, form: Literal["jsonl", "parquet"]) -> None:
    rows = [Row(n, f"müller {n}") for n in range(400)]
    for number in range(4):
        part = rows[number * 100 : number * 100 + 100]
        lines = "".join(json.dumps(row._asdict()) + "\n" for row in part).encode()
        store.put(f"{form}/in put/{'deep/' * (number % 2)}{number}.jsonl.gz", gzip.compress(lines))
    app = Application("copy", window="1s")
    address = f"gs://anonymous@shop/{form}"
    source = FileInput(
        f"{address}/in%20put/**/*.jsonl.gz?{store.settings}", Row, until="end", window_records=100
    )
    output = FileOutput(f"{address}/out?{store.settings}", format=form, roll_seconds=1)
    app.read("source", source, partitions=2).write("out", output, partitions=2)
    run_local(app, checkpoint=tmp_path / "state")
    read = pl.read_ndjson if form == "jsonl" else pl.read_parquet
    names = [name for name in store.names(f"{form}/out/") if name.endswith(f".{form}")]
    assert sorted(row for name in names for row in read(store.get(name)).rows()) == rows
