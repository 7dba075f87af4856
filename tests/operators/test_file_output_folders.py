"""`FileOutput(partition_by=...)`: each row once in the folder of its values, whatever dies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from ridgeline import Application, OperatorError, RidgelineError, ValidationError
from ridgeline.connect.window_output import WindowOutput
from ridgeline.operators import FileOutput
from ridgeline.testing import END_WINDOW, ConnectorTarget, Faults, ListInput, connector_checks, run_local
from support.depth import deep
from support.operators.harness import Driven, Published, batch
from support.operators.publishing import Driver, Life, Steps, Store, die_at_any_step, read
from support.testing.shares import share


class Order(NamedTuple):
    number: int
    country: str | None
    day: date


COUNTRIES = ["ch", "d e", None, "a/b", "ö", "1%", "..", ""]
ORDERS = [Order(n, COUNTRIES[n * 7 % 8], date(2026, 1, 1 + n % 3)) for n in range(200)]


def application(folder: Path, partitions: int = 1, **properties: Any) -> Application:
    app = Application("orders", window="1s")
    items = [item for n in range(0, 200, 20) for item in (*ORDERS[n : n + 20], END_WINDOW)]
    source = app.add_operator("source", ListInput(Order, items))
    output = app.add_operator("out", FileOutput(folder, **properties), partitions=partitions)
    app.add_stream("orders", source.output, output.input)
    return app


def expected() -> list[tuple[Any, ...]]:
    return sorted(((n, country or None, day) for n, country, day in ORDERS), key=repr)


@pytest.mark.parametrize(("seed", "format"), share(2, range(deep(4)), ["parquet", "jsonl"]))
def test_each_row_once_with_kills(seed: int, format: str, tmp_path: Path) -> None:
    partitions = (1, 2, 3, 5)[seed % 4]
    app = application(
        tmp_path, partitions, partition_by=["country", "day"], format=format, roll_seconds=seed % 3
    )
    faults = Faults(seed=seed, rate=0.15, kinds=["exception", "kill", "repeat", "restart"])
    run_local(app, faults=faults)
    schema = pa.schema([("country", pa.string()), ("day", pa.date32())])
    found = ds.dataset(
        tmp_path,
        format="parquet" if format == "parquet" else "json",
        partitioning=ds.partitioning(schema, flavor="hive"),
    ).to_table()
    rows = zip(*(found[name].to_pylist() for name in Order._fields), strict=True)
    assert sorted(rows, key=repr) == expected()


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    folder = tmp_path / "day=2026-01-01"
    folder.mkdir()
    (folder / "old.parquet").write_bytes(b"old")
    run_local(application(tmp_path, partition_by=["day"]))
    assert (folder / "old.parquet").exists()


def test_columns_that_make_no_folders(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"`partition_by` names `county`.*did you mean `country`"):
        run_local(application(tmp_path, partition_by=["county"]))
    with pytest.raises(ValidationError, match="must name each column once"):
        run_local(application(tmp_path, partition_by=["day", "day"]))
    output = FileOutput(path=tmp_path, partition_by=["n"])
    Published(output, tmp_path)
    part = Driven(output)
    with pytest.raises(RidgelineError, match=r"1001 folders.*fewer values"):
        part.window(batch(n=range(1001), m=range(1001)))
    with pytest.raises(RidgelineError, match="a value of double cannot name a folder"):
        part.window(batch(n=[0.5], m=[1]))
    for value, why in (("x" * 300, "longer than 255 bytes"), ("__HIVE_DEFAULT_PARTITION__", "for null")):
        rows = pa.RecordBatch.from_pydict({"n": pa.array([value, "y"]).dictionary_encode(), "m": [1, 2]})
        with pytest.raises(ValueError, match=f"column `n` has .* cannot name a folder: .*{why}"):
            part.window(rows)
        part.window(rows[1:])
    with pytest.raises(OperatorError, match="names all columns, so that files would have none"):
        run_local(application(tmp_path, partition_by=["number", "country", "day"]))


@pytest.mark.parametrize("target", [1, 3, 6])
def test_a_rewind_takes_back_what_came_after(target: int, tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "c"
    app = application(out, 2, partition_by=["day"], roll_seconds=2)
    run_local(app, windows=8, checkpoint=kept)
    run_local(app, checkpoint=kept, from_window=target)
    found = pl.read_parquet(out / "**/*.parquet", hive_partitioning=True)
    assert sorted(found.select("number", "country", "day").rows(), key=repr) == sorted(ORDERS, key=repr)


@pytest.mark.parametrize(("before", "after"), [(None, ["day"]), (["day"], None), (["day"], ["country"])])
def test_folders_that_change_between_runs(before: Any, after: Any, tmp_path: Path) -> None:
    out, kept = tmp_path / "out", tmp_path / "c"
    run_local(
        application(out, partition_by=before, roll_seconds=100, format="jsonl"), windows=4, checkpoint=kept
    )
    run_local(application(out, partition_by=after, roll_seconds=100, format="jsonl"), checkpoint=kept)
    rows = [row for file in out.rglob("*.jsonl") for row in pl.read_ndjson(file)["number"].to_list()]
    assert sorted(rows) == list(range(200))


WINDOWS = 4


class FoldersDriver(Driver):
    """Each window has rows for two folders."""

    def columns(self, row: int) -> dict[str, list[int]]:
        return {"n": [row, 100 + row], "even": [0, 1]}


def life(store: Store, output: FileOutput, steps: Steps) -> None:
    driver = FoldersDriver(store, output, steps)
    while len(store.manifests) < WINDOWS:
        driver.window()
        if len(store.manifests) == WINDOWS - 1:
            store.clock.seconds += 5
            driver.publisher.idle()
    driver.publisher.close()


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "roll", "copying"), [(1, 1, False), (2, 0, True), (1, 2, True)])
def test_a_driver_that_dies_at_any_step(
    partitions: int, roll: float, copying: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch, copying=copying)

    def visible(store: Store) -> list[int]:
        rows = [row for file in sorted(store.folder.glob("even=*/out-*")) for row in read(file)]
        assert len(set(rows)) == len(rows)
        assert {row % 100 for row in rows} <= set(store.committed)
        return rows

    def make(survive: int) -> Life:
        store = Store(tmp_path / str(survive), partitions)
        output = FileOutput(path=store.folder, format="jsonl", roll_seconds=roll, partition_by=["even"])

        def finish() -> None:
            rows = list(range(WINDOWS * partitions))
            assert sorted(visible(store)) == [*rows, *(100 + row for row in rows)]

        return partial(life, store, output, steps), partial(visible, store), finish

    die_at_any_step(steps, make)


class Folder(ConnectorTarget):
    count = 0

    def __init__(self, above: Path, by: list[str] | None) -> None:
        Folder.count += 1
        self.path, self.by = above / str(Folder.count), by

    def output(self) -> WindowOutput:
        return FileOutput(self.path, format="jsonl", partition_by=self.by, roll_seconds=0)

    def rows(self) -> Sequence[Any]:
        found = []
        for path in self.path.rglob("*.jsonl"):
            if any(part.startswith(".") for part in path.relative_to(self.path).parts):
                continue
            folder = path.parent.name.partition("=")[2]
            found += [
                (row["id"], row.get("key", folder and int(folder)), row["text"], row["value"])
                for row in map(json.loads, path.read_text().splitlines())
            ]
        return found


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, ["key"]])
def test_files_are_exactly_once(tmp_path: Path, by: list[str] | None) -> None:
    assert connector_checks(lambda: Folder(tmp_path, by)).guarantee == "exactly once"
