"""Files of Azure's blob store: read by `FileInput`, written by `FileOutput`, on Azurite."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.fs
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.operators import FileInput, FileOutput
from ridgeline.testing import CollectorSink, run_local
from support.operators.azurite import KEY, Azurite

pytestmark = pytest.mark.slow


class Row(NamedTuple):
    n: int
    text: str


ROWS = [Row(n, f"müller {n}") for n in range(400)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with Azurite(tmp_path_factory.mktemp("azurite")) as made:
        yield made


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)


def put(store: Azurite, folder: str) -> None:
    files = store.files()
    for number in range(4):
        part = ROWS[number * 100 : number * 100 + 100]
        data = "".join(json.dumps(row._asdict()) + "\n" for row in part).encode()
        with files.open_output_stream(f"shop/{folder}/{'deep/' * (number % 2)}{number}.jsonl") as out:
            out.write(data)


def test_a_store_that_goes_away_is_waited_for(store: Azurite, tmp_path: Path) -> None:
    """It ends while a window is read and written, and starts again a second later."""
    put(store, "away/in")
    again: list[threading.Timer] = []

    def seen(row: Row) -> Row:
        if not again and row.n >= 150:
            store.stop()
            again.append(threading.Timer(1.0, store.start))
            again[0].start()
        return row

    app = Application("copy", window="1s")
    source = FileInput(
        f"{store.uri}/away/in/**/*.jsonl?{store.settings}", Row, window_records=20, until="end"
    )
    rows = app.read("source", source).map("seen", seen)
    rows.write("out", FileOutput(f"{store.uri}/away/out?{store.settings}", format="jsonl", roll_seconds=2))
    run_local(app, checkpoint=tmp_path / "state")
    again[0].join()
    files = store.files()
    infos = files.get_file_info(pyarrow.fs.FileSelector("shop/away/out"))
    data = [files.open_input_file(info.path).read() for info in infos if info.path.endswith(".jsonl")]
    assert sorted(Row(**json.loads(line)) for one in data for line in one.splitlines()) == ROWS


def test_who_has_no_key_learns_what_to_do(store: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "aaaa")
    app = Application("copy")
    app.read("source", FileInput(f"{store.uri}/jsonl/*.jsonl?{store.settings}", Row, until="end")).write(
        "sink", CollectorSink(Row)
    )
    with pytest.raises(RidgelineError, match="AZURE_STORAGE_KEY"):
        run_local(app)
