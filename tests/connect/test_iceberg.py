"""Iceberg tables as outputs: what is in them, whatever happens."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from ridgeline import Application, RidgelineError
from ridgeline.operators.lake import IcebergOutput
from ridgeline.testing import (
    END_WINDOW,
    ListInput,
    run_local,
)

UTC = dt.UTC


def catalog_of(folder: Path) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}


def fetch(folder: Path, name: str = "shop.rows") -> list[dict[str, Any]]:
    """The rows of a table: the files that pyiceberg lists, as DuckDB reads them."""
    with load_catalog("shop", **catalog_of(folder)) as catalog:
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            return []
        files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    if not files:
        return []
    with duckdb.connect() as connection:
        relation = connection.read_parquet(files, union_by_name=True, hive_partitioning=False)
        rows: list[dict[str, Any]] = relation.to_arrow_table().to_pylist()
        return rows


def application(output: Any, kind: Any, rows: Sequence[Any], **attributes: Any) -> Application:
    app = Application("sales")
    source = app.add_operator("source", ListInput(kind, rows))
    out = app.add_operator("out", output, **attributes)
    app.add_stream("rows", source.output, out.input)
    return app


def output(folder: Path, **properties: Any) -> IcebergOutput:
    return IcebergOutput("shop.rows", catalog="shop", properties=catalog_of(folder), **properties)


class Total(NamedTuple):
    country: str | None
    day: dt.date | None
    number: int


@pytest.mark.parametrize("by", [("country",), ("country", "day")])
def test_rows_of_a_window_replace_their_partitions(tmp_path: Path, by: tuple[str, ...]) -> None:
    random = Random(len(by))
    rows: list[Any] = []
    kept: dict[Any, list[Total]] = {}
    for _ in range(15):
        window = [
            Total(
                random.choice(["CH", "it's", "a b/c%d=e", None]),
                random.choice([dt.date(2026, 1, 1), dt.date(1, 1, 1), None]),
                random.randrange(3),
            )
            for _ in range(random.randrange(1, 4))
        ]
        replaced: dict[Any, list[Total]] = {}
        for row in window:
            replaced.setdefault(tuple(getattr(row, name) for name in by), []).append(row)
        kept.update(replaced)
        rows += [*window, END_WINDOW]
    run_local(application(output(tmp_path, partition_by=by, overwrite=True), Total, rows, partitions=2))
    found = [tuple(row[name] for name in Total._fields) for row in fetch(tmp_path)]
    wanted = [tuple(row) for part in kept.values() for row in part]
    assert sorted(found, key=hash) == sorted(wanted, key=hash)


ARROW = pa.schema(
    [
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("i8", pa.int8()),
        ("f16", pa.float16()),
        ("at", pa.timestamp("ns", "Europe/Berlin")),
        ("local", pa.timestamp("s")),
        ("time", pa.time64("ns")),
        ("kind", pa.dictionary(pa.int32(), pa.string())),
        ("price", pa.decimal128(38, 18)),
        ("parts", pa.list_(pa.int64())),
        ("inner", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])),
        ("pairs", pa.map_(pa.string(), pa.float64())),
        ("nothing", pa.null()),
    ]
)


def test_values_of_many_types_arrive_as_they_are(tmp_path: Path) -> None:
    at = dt.datetime(2026, 7, 1, 12, 0, 0, 7, tzinfo=UTC)
    full = (255, 65535, 2**32 - 1, -128, 1.5, at, at.replace(tzinfo=None, microsecond=0), dt.time(1, 2, 3, 4))
    rows = [(*full, "a", None, [1, None], {"x": None, "y": ["é"]}, [("k", 1.5)], None), (None,) * 14]
    run_local(application(output(tmp_path), ARROW, rows))
    with load_catalog("shop", **catalog_of(tmp_path)) as catalog:
        found = catalog.load_table("shop.rows").scan().to_arrow().to_pylist()
    assert found[0].pop("at") == at
    assert list(found[0].values()) == [*rows[0][:5], *rows[0][6:]]
    assert all(value is None for value in found[1].values())


def test_lists_of_structs(tmp_path: Path) -> None:
    schema = pa.schema([("parts", pa.list_(pa.struct([("x", pa.int64())])))])
    rows = [([{"x": 1}, {"x": None}, None],), ([],)]
    run_local(application(output(tmp_path), schema, rows))
    assert [tuple(row.values()) for row in fetch(tmp_path)] == rows
    with pytest.raises(RidgelineError, match="list of structs that is null, which pyiceberg writes as an em"):
        run_local(application(output(tmp_path), schema, [*rows, (None,)]))


class Price(NamedTuple):
    symbol: str
    price: float | None


PRICES = [("IBM", 12.5), ("SAP", 101.25), END_WINDOW, ("IBM", 13.0)]


def make(folder: Path, schema: pa.Schema) -> None:
    with load_catalog("shop", **catalog_of(folder)) as catalog:
        catalog.create_namespace_if_not_exists("shop")
        catalog.create_table("shop.rows", schema)


@pytest.mark.parametrize(
    ("fields", "properties", "what"),
    [
        ([("symbol", pa.string()), ("price", pa.float64())], {"partition_by": "symbol"}, "partitioned by no"),
        ([], {"table": "rows"}, "must name the namespace, too"),
        ([], {"properties": {"type": "sql"}}, "cannot write to Iceberg table shop.rows of catalog shop"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    tmp_path: Path, fields: list[Any], properties: dict[str, Any], what: str
) -> None:
    if fields:
        make(tmp_path, pa.schema(fields))
    given = {"table": "shop.rows", "catalog": "shop", "properties": catalog_of(tmp_path), **properties}
    with pytest.raises(RidgelineError, match=what):
        run_local(application(IcebergOutput(**given), Price, PRICES))


def test_no_secret_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    properties = {"type": "rest", "uri": "http://127.0.0.1:1", "token": "env:LAKE"}
    monkeypatch.setenv("LAKE", secret)
    made = IcebergOutput("shop.rows", properties=properties, drain_seconds=0.2)
    with pytest.raises(RidgelineError, match="nothing is lost") as raised:
        run_local(application(made, Price, PRICES))
    assert secret not in str(raised.value)
