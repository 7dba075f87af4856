"""SQLite and DuckDB as outputs and inputs: which values their tables have and give."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.connect.stores import FILES, PRICES, Everything, InDuckDb, InSqlite, Price, Sql, reading, writing

from ridgeline import RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.testing import run_local


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
    store = InDuckDb(None, tmp_path)
    store.execute(f"create table items ({columns})")
    rows = [Measured(1.7, 2, Decimal("2.5"), dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC))]
    with pytest.raises(RidgelineError, match=f"column {what}.*; convert it upstream, or alter the table"):
        run_local(writing(store.output(), Measured, rows))
    assert store.execute("select * from items") == []


def test_a_file_of_duckdb_that_is_open_elsewhere_is_waited_for(tmp_path: Path) -> None:
    store = InDuckDb(None, tmp_path)
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(store.place)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    app = writing(store.output(drain_seconds=2.0), Price, PRICES)
    with pytest.raises(RidgelineError, match=r"is unavailable .* lock .* nothing is lost; start it again"):
        run_local(app, checkpoint=tmp_path / "checkpoint")
    other.communicate("")
    run_local(writing(store.output(), Price, PRICES), checkpoint=tmp_path / "checkpoint")
    assert len(store.fetch("symbol")) == 3


def written(folder: Path, declared: str, kind: pa.DataType, values: Sequence[Any]) -> list[Any]:
    """What a table of SQLite has once values were written, those left out that the output refuses."""
    store = InSqlite(None, folder)
    store.execute(f"create table items (n integer, value {declared})")
    schema = pa.schema([("n", pa.int64()), ("value", kind)])
    run_local(writing(store.output(), schema, list(enumerate(values)), on_error=OnError.SKIP))
    return sorted(store.fetch("n", "value"))


TEXTS = ["007", "7", "-7", "+7", "1e3", "1.50", "1.5", "1.0", "x7", "0x10", "inf", ".", "9999999999999999999"]
TEXTS += [" 7", "", "7\n"]
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
    found = written(tmp_path, declared, pa.string(), TEXTS)
    assert all(str(value) == TEXTS[number] for number, value in found)
    assert {TEXTS.index("x7"), TEXTS.index(""), TEXTS.index("1.5")} <= {number for number, _ in found}
    found = written(tmp_path, declared, pa.decimal128(38, 18), DECIMALS)
    assert all(Decimal(str(value)) == DECIMALS[number] for number, value in found)
    assert {0, 1, 2} <= {number for number, _ in found}


@pytest.mark.parametrize("strict", ["", "strict"])
def test_a_value_that_sqlite_would_change_is_named(tmp_path: Path, strict: str) -> None:
    store = InSqlite(None, tmp_path)
    store.execute(f"create table items (a text, n real) {strict}")
    schema = pa.schema([("a", pa.float64()), ("n", pa.int64())])

    def write(*row: Any) -> None:
        run_local(writing(store.output(), schema, [row]))

    write(0.5, 2**53)
    with pytest.raises(RidgelineError, match=r"`out` .*`n` is REAL in the table, .* 9007199254740993"):
        write(0.5, 2**53 + 1)
    with pytest.raises(RidgelineError, match=r"`out` .*`a` is TEXT in the table, .* 0.30000000000000004"):
        write(0.1 + 0.2, 1)
    assert store.fetch("a", "n") == [("0.5", 2.0**53)]


def test_texts_in_a_column_of_any_type_of_a_strict_table_are_kept(tmp_path: Path) -> None:
    store = InSqlite(None, tmp_path)
    store.execute("create table items (value any) strict")
    run_local(writing(store.output(table="ITEMS"), pa.schema([("value", pa.string())]), [("007",)]))
    assert store.execute("select value, typeof(value) from items") == [("007", "text")]


@pytest.mark.parametrize(
    ("rows", "seats"),
    [
        ([(1, "B"), (2, "A")], "BA"),
        ([(1, "B"), (2, "C"), (1, "D")], "DC"),
        ([(3, "A"), (1, "C")], "CBA"),
        ([(1, "B"), (2, "A"), (3, None), (4, "B")], "BA"),
        ([(1, "X"), (2, "A")], "AB"),
    ],
)
def test_rows_exchange_values_of_a_unique_column(
    tmp_path: Path, rows: list[tuple[Any, ...]], seats: str
) -> None:
    store = InSqlite(None, tmp_path)
    store.execute(
        "create table items (id integer primary key, seat text unique not null, more text)",
        "insert into items values (1, 'A', 'a'), (2, 'B', 'b'), (9, 'X', 'x')",
    )
    schema = pa.schema([("id", pa.int64()), ("seat", pa.string())])
    run_local(writing(store.output(key="id"), schema, rows, on_error=OnError.SKIP))
    found = store.execute("select seat, more from items order by id")
    assert found == [*zip(seats, ("a", "b", None), strict=False), ("X", "x")]


@pytest.mark.parametrize("kind", FILES)
def test_upper_and_lower_case_are_those_of_the_database(tmp_path: Path, kind: type[Sql]) -> None:
    store = kind(None, tmp_path)
    store.execute("create table Items (ID integer, Value integer)")
    if kind is InDuckDb:
        store.execute("create schema other", "create table other.apart (n integer)")

    def write(table: str, *names: str) -> None:
        schema = pa.schema([(name, pa.int64()) for name in names])
        run_local(writing(store.output(table=table), schema, [(1, 2)]))

    write("items", "id", "value")
    write("apart", "id", "value")
    assert store.execute("select id, value from items") == [(1, 2)]
    assert store.execute("select id, value from apart") == [(1, 2)]
    with pytest.raises(RidgelineError, match="`a` and `A` are one column there"):
        write("other", "a", "A")
    with pytest.raises(RidgelineError, match="`ridgeline_deleted`, a name that the output uses itself"):
        write("others", "id", "ridgeline_deleted")


WRITTEN = [
    Everything(-(2**63)),
    Everything(1, 0.5, "", True, b"\0", Decimal("1.5"), dt.date(2026, 1, 1), took=dt.timedelta(seconds=1)),
    Everything(2, text="\0 ' \"", at=dt.datetime(2026, 1, 1, 1, 2, 3, 4, dt.UTC), parts=[]),
    Everything(3, parts=[1]),
]


@pytest.mark.parametrize("kind", FILES)
def test_what_an_output_has_written_is_read_as_it_was(tmp_path: Path, kind: type[Sql]) -> None:
    store = kind(None, tmp_path)
    run_local(writing(store.output(), Everything, WRITTEN))
    app = reading(store.source(schema=Everything, column="number", until="end"), Everything)
    assert run_local(app).collected("sink") == WRITTEN


def read_leaving_out(store: Sql, schema: Any, what: str) -> list[Any]:
    """What is read if rows are left out that fail the run otherwise, with these words."""
    source = store.source(schema=schema, until="end")
    with pytest.raises(RidgelineError, match=what):
        run_local(reading(source, schema))
    return run_local(reading(source, schema, on_error=OnError.SKIP)).collected("sink")


class Order(NamedTuple):
    id: int
    text: str | None
    cents: float | None


def test_a_value_of_another_type_is_left_out(tmp_path: Path) -> None:
    store = InSqlite(None, tmp_path)
    store.execute(
        "create table items (id integer primary key, text, cents)",
        """insert into items values
        (1, 'a', 1), (2, 5, 1), (3, 'a', 'b'), (4, x'00', 2), (5, 'b', null), (6, 'c', 9007199254740993)""",
    )
    found = read_leaving_out(store, Order, "column `text` is no string: it is of type `int`, not text")
    assert found == [(1, "a", 1.0), (5, "b", None)]


class Moment(NamedTuple):
    id: int
    moment: dt.datetime


@pytest.mark.parametrize(
    ("kind", "declared", "fine", "whole"),
    [
        (InSqlite, "text", "2026-01-01T00:00:00,1234567Z", "2026-01-01T00:00:00,123456Z"),
        (InSqlite, "text", "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.123456Z"),
        (InDuckDb, "timestamp_ns", "2026-01-01 00:00:00.123456001", "2026-01-01 00:00:00.123456"),
    ],
)
def test_a_time_finer_than_microseconds_is_not_cut(
    tmp_path: Path, kind: type[Sql], declared: str, fine: str, whole: str
) -> None:
    store = kind(None, tmp_path)
    store.execute(
        f"create table items (id bigint, moment {declared})",
        f"insert into items values (1, '{whole}'), (2, '{fine}')",
    )
    found = read_leaving_out(store, Moment, "record 2 of `items` .*(no datetime of whole|finer than us)")
    assert found == [(1, dt.datetime(2026, 1, 1, 0, 0, 0, 123456, dt.UTC))]
