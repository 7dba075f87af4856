"""`PostgresInput` against a real server: what `lag` means."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from ridgeline import Application
from ridgeline.api.clock import SystemClock
from ridgeline.operators.postgres import PostgresInput
from ridgeline.testing import CollectorSink, run_local
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
