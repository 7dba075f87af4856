"""`PostgresInput` against a real server: each row once, whatever order transactions are committed in."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest

from ridgeline import Application, DeadLetter, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.operators.postgres import PostgresInput
from ridgeline.testing import CollectorSink, Faults, run_local
from support.services import Postgres

pytestmark = pytest.mark.slow


class Order(NamedTuple):
    id: int
    text: str | None
    cents: float | None


@pytest.fixture
def dsn(postgres: Postgres) -> str:
    dsn = postgres.database()
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "create table orders (id bigint generated always as identity, text text, cents float8)"
        )
    return dsn


def application(dsn: str, partitions: int = 1, **properties: Any) -> Application:
    app = Application("orders")
    orders = app.add_operator(
        "orders",
        PostgresInput(**{"dsn": dsn, "table": "public.orders", "schema": Order, "lag": 0.0, **properties}),
        partitions=partitions,
    )
    sink = app.add_operator("sink", CollectorSink(properties.get("schema", Order)))
    app.add_stream("orders", orders.output, sink.input)
    return app


def insert(connection: Any, count: int) -> None:
    query = "insert into orders (text, cents) select 'Zürich ' || n, n / 4.0 from generate_series(1, %s) n"
    connection.execute(query, (count,))


def rows(dsn: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("select id, text, cents from orders order by id").fetchall()


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_each_row_is_read_once(dsn: str, partitions: int, tmp_path: Path) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 30_000)
        connection.execute("insert into orders default values")
    faults = Faults(seed=partitions, rate=0.3, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    app = application(dsn, partitions, until="end", window_records=3000)
    run = run_local(app, checkpoint=tmp_path, faults=faults)
    assert run.collected("sink") == rows(dsn)


def test_a_row_that_is_committed_late_is_not_passed_over(dsn: str, tmp_path: Path) -> None:
    def write(seed: int) -> None:
        random, pause = Random(seed), threading.Event()
        with psycopg.connect(dsn) as connection:
            for _ in range(60):
                insert(connection, random.randrange(1, 4))
                pause.wait(random.random() * 0.02)  # others take greater numbers, and commit before
                if random.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for writer in writers:
        writer.start()
    found: list[Any] = []
    while any(writer.is_alive() for writer in writers):
        run = run_local(application(dsn), checkpoint=tmp_path, windows=20, clock=SystemClock())
        found += run.collected("sink")
    found += run_local(
        application(dsn, until="end"), checkpoint=tmp_path, clock=SystemClock(), windows=40
    ).collected("sink")
    assert [row.id for row in found] == sorted(row.id for row in found)
    assert found == rows(dsn)


def test_a_server_that_is_killed_is_waited_for(dsn: str, postgres: Postgres, tmp_path: Path) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 3000)
    wanted = rows(dsn)
    postgres.kill()
    found: list[Any] = []

    def read() -> None:
        app = application(dsn, until="end", window_records=500)
        found.extend(run_local(app, checkpoint=tmp_path, clock=SystemClock()).collected("sink"))

    reading = threading.Thread(target=read)
    reading.start()
    postgres.restart()
    reading.join(60)
    assert found == wanted


def test_the_end_is_that_of_rows_whose_lag_is_not_over(dsn: str, tmp_path: Path) -> None:
    properties = {"lag": "200ms", "until": "end", "shards": 2}
    assert run_local(application(dsn, **properties), checkpoint=tmp_path / "empty").collected("sink") == []
    with psycopg.connect(dsn) as connection:
        insert(connection, 1000)
    found = run_local(application(dsn, 2, **properties), checkpoint=tmp_path / "full").collected("sink")
    assert sorted(found) == rows(dsn)


def test_the_latest_row_is_known_before_its_lag_is_over(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 1000)
    app = application(dsn, lag="200ms", begin="latest")
    found = run_local(app, checkpoint=tmp_path, clock=SystemClock(), windows=5).collected("sink")
    with psycopg.connect(dsn) as connection:
        insert(connection, 10)
    app = application(dsn, lag="200ms", begin="latest", until="end")
    found += run_local(app, checkpoint=tmp_path, clock=SystemClock()).collected("sink")
    assert found == rows(dsn)[1000:]


@pytest.mark.parametrize(("partitions", "shards"), [(1, 3), (3, 2), (5, 5)])
def test_each_row_is_read_once_in_shards(dsn: str, partitions: int, shards: int, tmp_path: Path) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 10_000)
        connection.execute("insert into orders overriding system value values (-7, 'below zero', 1)")
    faults = Faults(seed=partitions, rate=0.3, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    app = application(dsn, partitions, until="end", window_records=3000, shards=shards)
    assert sorted(run_local(app, checkpoint=tmp_path, faults=faults).collected("sink")) == rows(dsn)
    with pytest.raises(RidgelineError, match="leave `table`, `query` and `shards` as they were"):
        run_local(application(dsn, until="end", shards=shards + 1), checkpoint=tmp_path)


def test_a_query_is_read_as_a_table_is(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 1000)
    query = "select id, text || '{}%s' as text, cents * 2 as cents from orders where text like '%7'"
    app = application(dsn, table=None, query=query, until="end", window_records=20, shards=2)
    wanted = [(one, f"{text}{{}}%s", cents * 2) for one, text, cents in rows(dsn) if text.endswith("7")]
    assert sorted(run_local(app).collected("sink")) == wanted


class Whole(NamedTuple):
    id: int
    cents: int


def test_a_value_that_does_not_fit_is_left_out(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 8)
    given: dict[str, Any] = {"table": None, "query": "select * from orders", "schema": Whole, "until": "end"}
    app = application(dsn, **given)
    with pytest.raises(RidgelineError, match=r"column `cents` is no int64: 0.25 is no whole number"):
        run_local(app)
    app = application(dsn, **given)
    letters = app.add_operator("letters", CollectorSink(DeadLetter))
    app.dead_letters(letters.input)
    run = run_local(app, attributes={"orders.on_error": "SKIP"})
    assert run.collected("sink") == [(4, 1), (8, 2)]
    assert len(run.collected("letters")) == 6


@pytest.mark.parametrize(
    ("statement", "properties", "what"),
    [
        ("drop table orders", {}, 'relation "public.orders" does not exist.*; check `table`'),
        ("select 1", {"column": "nothing"}, 'column "nothing" does not exist'),
        ("alter table orders drop column cents", {}, 'column "cents" does not exist'),
        ("select 1", {"column": "text"}, "'Zürich 1', which is no integer; name a column of integers"),
        ("select 1", {"begin": "2026-01-01T00:00:00Z"}, "cannot begin at a time"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    dsn: str, statement: str, properties: dict[str, Any], what: str
) -> None:
    with psycopg.connect(dsn) as connection:
        insert(connection, 3)
        connection.execute(statement)  # type: ignore[call-overload,unused-ignore]
    with pytest.raises(RidgelineError, match=what):
        run_local(application(dsn, until="end", **properties))
