"""What all inputs of tables promise, one contract for each database: each row once, in order."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from tests.connect.stores import DATABASES, SERVERS, Sql, reading

from ridgeline import Application, DeadLetter, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.connectors.postgres.pgoutput import _loader
from ridgeline.connectors.sql.increasing import column_of
from ridgeline.testing import CollectorSink, Faults, LocalRun, run_local

FIELDS = [pa.field("id", pa.int64()), pa.field("text", pa.string()), pa.field("cents", pa.float64())]
COLUMNS = [field.name for field in FIELDS]


class Order(NamedTuple):
    id: int
    text: str | None
    cents: float | None


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Sql:
    """A database with an empty table."""
    made: Sql = request.param(request, tmp_path)
    made.make(*FIELDS)
    return made


every = pytest.mark.parametrize("database", DATABASES, indirect=True)
of_servers = pytest.mark.parametrize("database", SERVERS, indirect=True)


def insert(database: Sql, ids: Iterable[int]) -> None:
    values = ", ".join(f"({one}, 'Zürich {one}', {one / 4})" for one in ids)
    database.execute(f"insert into items values {values}")


def rows(database: Sql) -> list[Any]:
    return sorted(database.fetch(*COLUMNS))


def application(database: Sql, partitions: int = 1, kind: Any = Order, **properties: Any) -> Application:
    return reading(database.source(schema=kind, **properties), kind, partitions=partitions)


def read(app: Application, checkpoint: Path, **options: Any) -> list[Any]:
    return run_local(app, checkpoint=checkpoint, clock=SystemClock(), **options).collected("sink")


def read_with_skips(database: Sql, kind: Any) -> LocalRun:
    app = application(database, kind=kind, until="end")
    app.dead_letters(app.add_operator("letters", CollectorSink(DeadLetter)).input)
    return run_local(app, attributes={"orders.on_error": "SKIP"})


@every
@pytest.mark.parametrize(("partitions", "shards"), [(1, 1), (3, 2)])
def test_each_row_is_read_once(database: Sql, partitions: int, shards: int, tmp_path: Path) -> None:
    sparse = [1_700_000_000_000 + 1000 * n << 22 for n in range(20)]  # as of Snowflake
    insert(database, [-7, *range(3, 3000, 3), *sparse, database.farthest])
    faults = Faults(seed=partitions, rate=0.1, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    app = application(database, partitions, until="end", window_records=1000, shards=shards)
    found = run_local(app, checkpoint=tmp_path / "checkpoint", faults=faults).collected("sink")
    assert sorted(found) == rows(database)
    assert shards > 1 or found == sorted(found)
    with pytest.raises(RidgelineError, match="leave `table`, `query` and `shards` as they were"):
        run_local(application(database, until="end", shards=shards + 1), checkpoint=tmp_path / "checkpoint")


@every
def test_rows_that_come_while_it_runs_are_read(database: Sql, tmp_path: Path) -> None:
    def write() -> None:
        for number in range(-5, 15):
            for _ in range(1000):
                try:
                    insert(database, [number])
                    break
                except (duckdb.Error, sqlite3.OperationalError):  # as the input has the file open
                    threading.Event().wait(0.01)

    writer = threading.Thread(target=write)
    found = read(application(database), tmp_path / "checkpoint", windows=1)  # of a table without rows
    writer.start()
    while writer.is_alive():
        found += read(application(database), tmp_path / "checkpoint", windows=5)
    writer.join()
    found += read(application(database, until="end"), tmp_path / "checkpoint")
    assert found == rows(database)


@of_servers
def test_a_row_that_is_committed_late_is_not_passed_over(database: Sql, tmp_path: Path) -> None:
    database.execute("drop table items")
    database.execute(
        f"create table items (id {database.identity}, text varchar(9), cents {database.kinds['double']})"
    )

    def write(seed: int) -> None:
        random, pause = Random(seed), threading.Event()
        with closing(database.connect()) as connection:
            for _ in range(60):
                for _ in range(random.randrange(1, 4)):
                    connection.cursor().execute("insert into items (text, cents) values ('Zürich', 1)")
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
        found += read(application(database, lag=0.05), tmp_path / "checkpoint", windows=20)
    found += read(application(database, until="end", lag=0.05), tmp_path / "checkpoint", windows=40)
    assert found == rows(database)


@of_servers
def test_the_end_is_that_of_rows_whose_lag_is_not_over(database: Sql) -> None:
    properties = {"lag": "200ms", "until": "end", "shards": 2}
    assert run_local(application(database, **properties)).collected("sink") == []
    insert(database, range(1000))
    assert sorted(run_local(application(database, 2, **properties)).collected("sink")) == rows(database)


@of_servers
def test_the_latest_row_is_known_before_its_lag_is_over(database: Sql, tmp_path: Path) -> None:
    insert(database, range(1000))
    found = read(application(database, lag="200ms", begin="latest"), tmp_path, windows=5)
    insert(database, range(1000, 1010))
    found += read(application(database, lag="200ms", begin="latest", until="end"), tmp_path)
    assert found == rows(database)[1000:]


@of_servers
def test_a_server_that_is_killed_is_waited_for(database: Sql, tmp_path: Path) -> None:
    insert(database, range(3000))
    wanted, found = rows(database), []
    database.server.kill()

    def reads() -> None:
        found.extend(read(application(database, until="end", window_records=500), tmp_path / "checkpoint"))

    reading = threading.Thread(target=reads)
    reading.start()
    database.server.restart()
    reading.join(60)
    assert found == wanted


@every
def test_a_query_is_read_as_a_table_is(database: Sql) -> None:
    insert(database, range(1000))
    query = (
        "select id, replace(text, 'Z', '{}%s') as text, cents * 2 as cents from items where text like '%7'"
    )
    app = application(database, table=None, query=query, until="end", window_records=20, shards=2)
    wanted = [
        (one, text.replace("Z", "{}%s"), cents * 2)
        for one, text, cents in rows(database)
        if text.endswith("7")
    ]
    assert sorted(run_local(app).collected("sink")) == wanted


class Whole(NamedTuple):
    id: int
    cents: int


@every
def test_a_value_that_does_not_fit_is_left_out(database: Sql) -> None:
    insert(database, range(1, 9))
    database.execute("insert into items values (9, 'null', null)")
    with pytest.raises(RidgelineError, match=r"record 1 of `.*items`.*column `cents` is no int64: 0.25"):
        run_local(application(database, kind=Whole, until="end"))
    run = read_with_skips(database, Whole)
    assert run.collected("sink") == [(4, 1), (8, 2)]
    errors = [letter.error for letter in run.collected("letters")]
    assert len(errors) == 7
    assert any("record 9 of" in error and "`cents` is null" in error for error in errors)


def test_months_are_no_length_of_time() -> None:
    interval, kind = 1186, pa.duration("us")
    load = _loader(kind, interval)
    assert column_of([load("1 day 00:00:01")], kind).to_pylist() == [dt.timedelta(days=1, seconds=1)]
    for text in ("1 mon", "-1 years +3 days"):
        with pytest.raises(TypeError, match="is no date or time"):
            column_of([load(text)], kind)


class Misspelt(NamedTuple):
    id: int
    txet: str | None


@every
def test_a_table_that_does_not_fit_is_refused(database: Sql) -> None:
    insert(database, range(3))
    misfits: list[tuple[dict[str, Any], str]] = [
        ({"table": "nothing"}, "nothing.*check `table`"),
        ({"column": "idd"}, "idd"),
        ({"column": "text"}, "which is no integer; name a column of integers"),
        ({"begin": "2026-01-01T00:00:00Z"}, "cannot begin at a time"),
        ({"query": "select 1 as id"}, "either `table` or `query`"),
        ({"kind": Misspelt}, "txet"),
        ({"kind": Misspelt, "shards": 2}, "txet"),
        ({"kind": Misspelt, "table": None, "query": "select * from items"}, "txet"),
    ]
    for properties, what in misfits:
        with pytest.raises(RidgelineError, match=f"(?s){what}"):
            run_local(application(database, until="end", **properties))
