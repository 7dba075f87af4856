"""SQLite and DuckDB as inputs: each row once, read-only, beside writers."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from ridgeline import Application, DeadLetter, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.api.clock import SystemClock
from ridgeline.operators.sql_files import DuckDbInput, DuckDbOutput, SqliteInput, SqliteOutput
from ridgeline.testing import CollectorSink, Faults, ListInput, run_local
from support.testing.shares import share

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


NUMBERS = "(with recursive n(i) as (select 1 union all select i + 1 from n where i < {}) select i from n)"


def make(kind: Any, path: Path, count: int) -> None:
    rows = f"insert into orders select i * 3, 'Zürich ' || i, i / 4.0 from {NUMBERS.format(count)}"
    execute(kind, path, "create table orders (id bigint, text text, cents double)", rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("partitions", "shards"), [(1, 1), (2, 3), (5, 2)])
def test_each_row_is_read_once(tmp_path: Path, kind: Any, partitions: int, shards: int) -> None:
    path = tmp_path / "a.db"
    make(kind, path, 2000)
    execute(kind, path, "insert into orders values (-7, null, null), (9000000000000, 'far', 1)")
    faults = Faults(seed=partitions, rate=0.1, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    app = application(kind, path, partitions, until="end", window_records=1000, shards=shards)
    found = run_local(app, checkpoint=tmp_path / "checkpoint", faults=faults).collected("sink")
    assert sorted(found) == execute(kind, path, "select * from orders order by id")
    assert shards > 1 or found == sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_come_while_it_runs_are_read(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "a.db"
    make(kind, path, 10)

    def write() -> None:
        for number in range(20):
            insert = f"insert into orders values ({1000 + number}, 'more', null)"
            for _ in range(1000):
                try:
                    execute(kind, path, insert)
                    break
                except (duckdb.Error, sqlite3.OperationalError):
                    threading.Event().wait(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    found: list[Any] = []
    while writer.is_alive():
        app = application(kind, path)
        run = run_local(app, checkpoint=tmp_path / "checkpoint", windows=5, clock=SystemClock())
        found += run.collected("sink")
    writer.join()
    app = application(kind, path, until="end")
    found += run_local(app, checkpoint=tmp_path / "checkpoint", clock=SystemClock()).collected("sink")
    assert found == execute(kind, path, "select * from orders order by id")


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_is_read_as_a_table_is(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "a.db"
    make(kind, path, 1000)
    query = "select id, text, cents * 2 as cents from orders where text like '%7'"
    app = application(kind, path, table=None, query=query, until="end", window_records=20)
    assert run_local(app).collected("sink") == execute(kind, path, f"{query} order by id")


@pytest.mark.parametrize(
    ("properties", "what", "kind"),
    share(
        2,
        [
            ({"table": "nothing"}, "nothing.*check `table`, `query`"),
            ({"column": "text"}, "which is no integer; name a column of integers"),
            ({"begin": "2026-01-01T00:00:00Z"}, "cannot begin at a time"),
        ],
        KINDS,
        spread=True,
    ),
)
def test_a_table_that_does_not_fit_is_refused(
    tmp_path: Path, kind: Any, properties: dict[str, Any], what: str
) -> None:
    make(kind, tmp_path / "a.db", 3)
    with pytest.raises(RidgelineError, match=f"(?s){what}"):
        run_local(application(kind, tmp_path / "a.db", until="end", **properties))


class Must(NamedTuple):
    id: int
    cents: int


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_that_the_schema_does_not_allow_is_left_out(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "a.db"
    make = "create table orders (id bigint, cents bigint)"
    execute(kind, path, make, "insert into orders values (1, 5), (2, null), (3, 7)")
    with pytest.raises(RidgelineError, match=r"record 2 of `orders` cannot be read: .*`cents` is null"):
        run_local(application(kind, path, schema=Must, until="end"))
    app = application(kind, path, schema=Must, until="end", on_error="SKIP")
    app.dead_letters(app.add_operator("letters", CollectorSink(DeadLetter)).input)
    run = run_local(app)
    assert run.collected("sink") == [(1, 5), (3, 7)]
    [letter] = run.collected("letters")
    assert "record 2 of `orders`" in letter.error


class Misspelt(NamedTuple):
    id: int
    txet: str | None


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_not_there_is_no_text(tmp_path: Path, kind: Any) -> None:
    """SQLite takes a name in quotes for a text, if no column has it."""
    path = tmp_path / "a.db"
    make(kind, path, 3)
    cases: list[dict[str, Any]] = [{}, {"table": None, "query": "select * from orders"}, {"shards": 2}]
    for more in cases:
        with pytest.raises(RidgelineError, match=r"(?s)cannot read .*txet.*check `table`"):
            run_local(application(kind, path, schema=Misspelt, until="end", **more))
    with pytest.raises(RidgelineError, match=r"(?s)cannot read .*idd.*check `table`"):
        run_local(application(kind, path, until="end", column="idd"))


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
