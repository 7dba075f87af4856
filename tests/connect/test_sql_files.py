"""SQLite and DuckDB as outputs: what is in their tables, whatever happens."""

from __future__ import annotations

import datetime as dt
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.connect import PartitionedOutput
from ridgeline.operators.sql_files import DuckDbOutput, SqliteOutput
from ridgeline.testing import (
    ListInput,
    run_local,
)

KINDS: list[Any] = [SqliteOutput, DuckDbOutput]


def fetch(kind: Any, path: Path, query: str) -> list[Any]:
    if kind is SqliteOutput:
        connection = sqlite3.connect(path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
    with duckdb.connect(str(path)) as other:
        return other.execute(query).fetchall()


def application(output: PartitionedOutput, kind: Any, rows: Sequence[Any], **attributes: Any) -> Application:
    app = Application("sales")
    source = app.add_operator("source", ListInput(kind, rows))
    out = app.add_operator("out", output, **attributes)
    app.add_stream("rows", source.output, out.input)
    return app


class Price(NamedTuple):
    symbol: str
    price: float


PRICES = [("IBM", 1.0), ("SAP", 2.0)]


class Measured(NamedTuple):
    value: float
    count: int
    price: Decimal
    moment: dt.datetime


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (
            "value int, count int, price double, moment timestamp",
            "`value` is INTEGER in the table and double",
        ),
        (
            "value double, count boolean, price double, moment timestamp",
            "`count` is BOOLEAN in the table and int",
        ),
        (
            "value double, count int, price utinyint, moment timestamp",
            "`price` is UTINYINT in the table and decimal",
        ),
        ("value double, count int, price double, moment date", "`moment` is DATE in the table and timestamp"),
    ],
)
def test_duckdb_rounds_and_cuts_nothing_unasked(tmp_path: Path, columns: str, what: str) -> None:
    path = tmp_path / "a.db"
    fetch(DuckDbOutput, path, f"create table measured ({columns})")
    rows = [Measured(1.7, 2, Decimal("2.5"), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC))]
    with pytest.raises(RidgelineError, match=f"column {what}.*; convert it upstream, or alter the table"):
        run_local(application(DuckDbOutput(path=path, table="measured"), Measured, rows))
    assert fetch(DuckDbOutput, path, "select * from measured") == []


def test_a_file_of_duckdb_that_is_open_elsewhere_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    output = DuckDbOutput(path=path, table="prices", drain_seconds=0.3)
    with pytest.raises(RidgelineError, match=r"is unavailable .* lock .* nothing is lost; start it again"):
        run_local(application(output, Price, PRICES), checkpoint=tmp_path / "checkpoint")
    other.communicate("")
    run_local(application(output, Price, PRICES), checkpoint=tmp_path / "checkpoint")
    assert fetch(DuckDbOutput, path, "select * from prices") == PRICES


def written(path: Path, declared: str, kind: pa.DataType, values: Sequence[Any]) -> list[Any]:
    """What a table of SQLite has once values were written, those left out that the output refuses."""
    fetch(SqliteOutput, path, f"create table rows (n integer, value {declared})")
    schema = pa.schema([("n", pa.int64()), ("value", kind)])
    app = Application("values")
    source = app.add_operator("source", ListInput(schema, list(enumerate(values))))
    sink = app.add_operator("sink", SqliteOutput(path=path, table="rows"), on_error=OnError.SKIP)
    app.add_stream("rows", source.output, sink.input)
    run_local(app)
    return fetch(SqliteOutput, path, "select n, value from rows order by n")


TEXTS = [
    "007",
    "7",
    "-7",
    "+7",
    " 7",
    "1e3",
    "1.50",
    "1.5",
    "1.0",
    "x7",
    "",
    "9" * 19,
    "0x10",
    "inf",
    "7\n",
    ".",
]
DECIMALS = [
    Decimal(text) for text in ("12.30", "0.1", "-7", "12345678901234567.123456789", "123456789012345")
]


@pytest.mark.parametrize(
    "declared", ["integer", "numeric", "real", "string", "decimal(10, 2)", "text", "blob", ""]
)
def test_sqlite_keeps_texts_and_decimals_whatever_the_type_of_their_column(
    tmp_path: Path, declared: str
) -> None:
    """What SQLite has made of each row that was taken has the digits of the value."""
    found = written(tmp_path / "texts.db", declared, pa.string(), TEXTS)
    assert all(str(value) == TEXTS[number] for number, value in found)
    assert {TEXTS.index("x7"), TEXTS.index(""), TEXTS.index("1.5")} <= {number for number, _ in found}
    found = written(tmp_path / "decimals.db", declared, pa.decimal128(38, 18), DECIMALS)
    assert all(Decimal(str(value)) == DECIMALS[number] for number, value in found)
    assert {0, 1, 2} <= {number for number, _ in found}


@pytest.mark.parametrize("strict", ["", "strict"])
def test_a_value_that_sqlite_would_change_is_named(tmp_path: Path, strict: str) -> None:
    path = tmp_path / "a.db"
    fetch(SqliteOutput, path, f"create table rows (a text, n real) {strict}")
    schema = pa.schema([("a", pa.float64()), ("n", pa.int64())])

    def write(*row: Any) -> None:
        app = Application("values")
        source = app.add_operator("source", ListInput(schema, [row]))
        sink = app.add_operator("sink", SqliteOutput(path=path, table="rows"))
        app.add_stream("rows", source.output, sink.input)
        run_local(app)

    write(0.5, 2**53)
    with pytest.raises(
        RidgelineError, match=r"`sink` .* column `n` is REAL in the table, .* 9007199254740993"
    ):
        write(0.5, 2**53 + 1)
    with pytest.raises(
        RidgelineError, match=r"`sink` .* column `a` is TEXT in the table, .* 0.30000000000000004"
    ):
        write(0.1 + 0.2, 1)
    assert fetch(SqliteOutput, path, "select a, n from rows") == [("0.5", 2.0**53)]


def test_texts_in_a_column_of_any_type_of_a_strict_table_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    fetch(SqliteOutput, path, "create table rows (value any) strict")
    app = Application("values")
    source = app.add_operator("source", ListInput(pa.schema([("value", pa.string())]), [("007",)]))
    sink = app.add_operator("sink", SqliteOutput(path=path, table="ROWS"))
    app.add_stream("rows", source.output, sink.input)
    run_local(app)
    assert fetch(SqliteOutput, path, "select value, typeof(value) from rows") == [("007", "text")]


@pytest.mark.parametrize("kind", KINDS)
def test_upper_and_lower_case_are_those_of_the_database(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "a.db"
    fetch(kind, path, "create table Rows (ID integer, Value integer)")
    if kind is DuckDbOutput:
        fetch(kind, path, "create schema other; create table other.apart (n integer)")

    def write(table: str, *names: str) -> None:
        app = Application("values")
        schema = pa.schema([(name, pa.int64()) for name in names])
        source = app.add_operator("source", ListInput(schema, [(1, 2)]))
        sink = app.add_operator("sink", kind(path=path, table=table))
        app.add_stream("rows", source.output, sink.input)
        run_local(app)

    write("rows", "id", "value")
    write("apart", "id", "value")
    assert fetch(kind, path, "select id, value from rows") == [(1, 2)]
    assert fetch(kind, path, "select id, value from apart") == [(1, 2)]
    with pytest.raises(RidgelineError, match=r"`sink` .* `a` and `A` are one column there"):
        write("other", "a", "A")
    with pytest.raises(RidgelineError, match="`ridgeline_deleted`, a name that the output uses itself"):
        write("others", "id", "ridgeline_deleted")
