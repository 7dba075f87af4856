"""SQLite and DuckDB as inputs: which values they give."""

from __future__ import annotations

import datetime as dt
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.operators.sql_files import DuckDbInput, DuckDbOutput, SqliteInput, SqliteOutput
from ridgeline.testing import CollectorSink, ListInput, run_local

KINDS: list[Any] = [SqliteInput, DuckDbInput]
OUTPUTS: dict[Any, Any] = {SqliteInput: SqliteOutput, DuckDbInput: DuckDbOutput}


class Order(NamedTuple):
    id: int
    text: str | None
    cents: float | None


def execute(kind: Any, path: Path, *statements: str) -> list[Any]:
    connection: Any = sqlite3.connect(path) if kind is SqliteInput else duckdb.connect(str(path))
    found: list[Any] = []
    for statement in statements:
        found = connection.execute(statement).fetchall()
    if kind is SqliteInput:
        connection.commit()
    connection.close()
    return found


def application(
    kind: Any, path: Path, partitions: int = 1, schema: Any = Order, **properties: Any
) -> Application:
    attributes = {"on_error": properties.pop("on_error")} if "on_error" in properties else {}
    app = Application("orders")
    made = kind(**{"path": path, "table": "orders", "schema": schema, **properties})
    orders = app.add_operator("orders", made, partitions=partitions, **attributes)
    sink = app.add_operator("sink", CollectorSink(schema))
    app.add_stream("orders", orders.output, sink.input)
    return app


class Everything(NamedTuple):
    number: int
    text: str | None
    yes: bool | None
    data: bytes | None
    price: Decimal | None
    day: dt.date | None
    at: dt.datetime | None
    took: dt.timedelta | None
    parts: list[int] | None


EVERY = [
    Everything(1, "", True, b"\0", Decimal("1.5"), dt.date(2026, 1, 1), None, dt.timedelta(seconds=1), [1]),
    Everything(2, "\0 ' \"", None, None, None, None, dt.datetime(2026, 1, 1, 1, 2, 3, 4, dt.UTC), None, []),
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_output_has_written_is_read_as_it_was(tmp_path: Path, kind: Any) -> None:
    app = Application("sales")
    source = app.add_operator("source", ListInput(Everything, EVERY))
    out = app.add_operator("out", OUTPUTS[kind](path=tmp_path / "a.db", table="orders"))
    app.add_stream("rows", source.output, out.input)
    run_local(app)
    app = application(kind, tmp_path / "a.db", schema=Everything, column="number", until="end")
    assert run_local(app).collected("sink") == EVERY


def test_a_value_of_another_type_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    execute(SqliteInput, path, "create table orders (id integer primary key, text, cents)")
    values = (
        "(1, 'a', 1), (2, 5, 1), (3, 'a', 'b'), (4, x'00', 2), (5, 'b', null), (6, 'c', 9007199254740993)"
    )
    execute(SqliteInput, path, f"insert into orders values {values}")
    with pytest.raises(RidgelineError, match="column `text` is no string: 5 is no text"):
        run_local(application(SqliteInput, path, until="end"))
    run = run_local(application(SqliteInput, path, until="end", on_error=OnError.SKIP))
    assert run.collected("sink") == [(1, "a", 1.0), (5, "b", None)]


class Moment(NamedTuple):
    id: int
    moment: dt.datetime


@pytest.mark.parametrize(
    ("kind", "declared", "fine", "whole"),
    [
        (SqliteInput, "text", "2026-01-01T00:00:00,1234567Z", "2026-01-01T00:00:00,123456Z"),
        (SqliteInput, "text", "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:00.123456Z"),
        (DuckDbInput, "timestamp_ns", "2026-01-01 00:00:00.123456001", "2026-01-01 00:00:00.123456"),
    ],
)
def test_a_time_finer_than_microseconds_is_not_cut(
    tmp_path: Path, kind: Any, declared: str, fine: str, whole: str
) -> None:
    path = tmp_path / "a.db"
    insert = f"insert into orders values (1, '{whole}'), (2, '{fine}')"
    execute(kind, path, f"create table orders (id bigint, moment {declared})", insert)
    with pytest.raises(RidgelineError, match=r"record 2 of `orders` .*no datetime of whole microseconds"):
        run_local(application(kind, path, schema=Moment, until="end"))
    run = run_local(application(kind, path, schema=Moment, until="end", on_error=OnError.SKIP))
    assert run.collected("sink") == [(1, dt.datetime(2026, 1, 1, 0, 0, 0, 123456, dt.UTC))]
