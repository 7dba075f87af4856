"""`MariaDbInput` against a real server: each row once, whatever order transactions are committed in."""

from __future__ import annotations

import datetime as dt
import threading
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pymysql
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.api.clock import SystemClock
from ridgeline.operators.mariadb import MariaDbInput
from ridgeline.testing import CollectorSink, Faults, run_local
from support.services import MariaDB

pytestmark = pytest.mark.slow


class Order(NamedTuple):
    id: int
    text: str | None
    cents: float | None


def connected(url: str, **more: Any) -> Any:
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 0,
        user=parts.username,
        database=parts.path.strip("/"),
        charset="utf8mb4",
        **{"autocommit": True, **more},
    )


def fetch(url: str, *statements: str) -> list[Any]:
    with closing(connected(url)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture
def url(mariadb: MariaDB) -> str:
    url = mariadb.database()
    columns = "id bigint auto_increment primary key, text text charset utf8mb4, cents float"
    fetch(url, f"create table orders ({columns})")
    return url


def application(url: str, partitions: int = 1, kind: Any = Order, **properties: Any) -> Application:
    attributes = {"on_error": properties.pop("on_error")} if "on_error" in properties else {}
    app = Application("orders")
    made: MariaDbInput[Any] = MariaDbInput(
        **{"url": url, "table": "orders", "schema": kind, "lag": 0.0, **properties}
    )
    orders = app.add_operator("orders", made, partitions=partitions, **attributes)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("orders", orders.output, sink.input)
    return app


def insert(connection: Any, count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"insert into orders (text, cents) select concat('Zürich ', seq), seq / 4 from seq_1_to_{count}"
        )


def rows(url: str) -> list[Any]:
    return fetch(url, "select id, text, cents from orders order by id")


@pytest.mark.parametrize(("partitions", "shards"), [(1, 1), (2, 3), (3, 5), (5, 2)])
def test_each_row_is_read_once(url: str, partitions: int, shards: int, tmp_path: Path) -> None:
    fetch(url, "insert into orders values (-7, null, null)")
    with closing(connected(url)) as connection:
        insert(connection, 20_000)
    fetch(url, "insert into orders values (90000000000, 'far', 1)")
    faults = Faults(seed=partitions, rate=0.3, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
    app = application(url, partitions, until="end", window_records=3000, shards=shards)
    run = run_local(app, checkpoint=tmp_path, faults=faults)
    wanted = rows(url)
    assert sorted(run.collected("sink")) == wanted
    if shards == 1:
        assert run.collected("sink") == wanted


def test_a_row_that_is_committed_late_is_not_passed_over(url: str, tmp_path: Path) -> None:
    def write(seed: int) -> None:
        random, pause = Random(seed), threading.Event()
        with closing(connected(url, autocommit=False)) as connection:
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
        app = application(url, lag=0.05)
        found += run_local(app, checkpoint=tmp_path, windows=20, clock=SystemClock()).collected("sink")
    app = application(url, until="end", lag=0.05)
    found += run_local(app, checkpoint=tmp_path, clock=SystemClock(), windows=40).collected("sink")
    assert [row.id for row in found] == sorted(row.id for row in found)
    assert found == rows(url)


def test_a_server_that_is_killed_is_waited_for(url: str, mariadb: MariaDB, tmp_path: Path) -> None:
    with closing(connected(url)) as connection:
        insert(connection, 3000)
    wanted = rows(url)
    mariadb.kill()
    found: list[Any] = []

    def read() -> None:
        app = application(url, until="end", window_records=500)
        found.extend(run_local(app, checkpoint=tmp_path, clock=SystemClock()).collected("sink"))

    reading = threading.Thread(target=read)
    reading.start()
    mariadb.restart()
    reading.join(60)
    assert found == wanted


class Every(NamedTuple):
    id: int
    big: int | None
    small: float | None
    yes: bool | None
    bits: int | None
    price: Decimal | None
    day: dt.date | None
    local: dt.datetime | None
    at: dt.datetime | None
    clock: dt.time | None
    took: dt.timedelta | None
    text: str | None
    data: bytes | None
    parts: dict[str, list[int]] | None
    kind: str | None


EVERY = """create table every (id int auto_increment primary key, big bigint unsigned, small float,
    yes tinyint(1), bits bit(9), price decimal(30, 5), day date, local datetime(6), at timestamp(6) null,
    clock time(6), took time, text varchar(99) charset utf8mb4, data blob, parts json, kind enum('a', 'b'))"""


def test_values_are_as_they_are_in_the_table(url: str) -> None:
    fetch(
        url,
        "set names utf8mb4",
        "set time_zone = '+02:00'",
        EVERY,
        """insert into every values (1, 9223372036854775807, 16777217, 1, b'100000001', 1234567890.12345,
        '2026-01-31', '2026-01-31 12:00:00.000001', '2026-01-31 12:00:00', '23:59:59.999999', '-800:00:00',
        '🌊', x'00ff', '{"a": [1, 2]}', 'b')""",
        "insert into every (id) values (2)",
    )
    [first, second] = run_local(application(url, kind=Every, table="every", until="end")).collected("sink")
    assert first == Every(
        1,
        2**63 - 1,
        16777216.0,  # a float has 24 bits; as text it would be 16777200
        True,
        257,
        Decimal("1234567890.12345"),
        dt.date(2026, 1, 31),
        dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC),
        dt.time(23, 59, 59, 999999),
        dt.timedelta(hours=-800),
        "🌊",
        b"\x00\xff",
        {"a": [1, 2]},
        "b",
    )
    assert second == Every(2, *[None] * (len(Every._fields) - 1))


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("big", "18446744073709551615", "column `big` is no int64"),
        ("yes", "2", "2 is no boolean"),
        ("day", "'0000-00-00'", "'0000-00-00' is no date"),
        ("local", "'2026-00-00'", "is no datetime"),
        ("clock", "'24:00:00'", "is no time of day"),
        ("parts", "'[1]'", "column `parts` is no map"),
    ],
)
def test_a_value_that_does_not_fit_is_left_out(url: str, column: str, value: str, why: str) -> None:
    fetch(
        url,
        "set sql_mode = ''",
        EVERY,
        f"insert into every (id, {column}) values (1, null), (2, {value}), (3, null)",
    )
    properties: dict[str, Any] = {"kind": Every, "table": "every", "until": "end"}
    with pytest.raises(RidgelineError, match=why):
        run_local(application(url, **properties))
    run = run_local(application(url, **properties, on_error=OnError.SKIP))
    assert [row.id for row in run.collected("sink")] == [1, 3]
    if "0000" in value:
        run = run_local(application(url, **properties, zero_dates_as_null=True))
        assert [(row.id, row.day) for row in run.collected("sink")] == [(1, None), (2, None), (3, None)]


def test_a_query_is_read_as_a_table_is(url: str, tmp_path: Path) -> None:
    with closing(connected(url)) as connection:
        insert(connection, 1000)
    query = "select id, text, cents * 2 as cents from orders where text like '%7' and id % 2 = 1"
    app = application(url, table=None, query=query, until="end", window_records=20)
    wanted = [(one, text, cents * 2) for one, text, cents in rows(url) if one % 10 == 7]
    assert run_local(app, checkpoint=tmp_path).collected("sink") == wanted
    with pytest.raises(RidgelineError, match="leave `table`, `query` and `shards` as they were"):
        run_local(application(url, table=None, query=query, shards=2), checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("statement", "properties", "what"),
    [
        ("drop table orders", {}, r"orders' doesn't exist; check `table`"),
        ("select 1", {"column": "nothing"}, "Unknown column 'nothing'"),
        ("select 1", {"column": "text"}, "which is no integer; name a column"),
        ("alter table orders drop column cents", {}, "Unknown column 'cents'"),
        ("select 1", {"begin": "2026-01-01T00:00:00Z"}, "cannot begin at a time"),
        ("select 1", {"query": "select 1 as id"}, "either `table` or `query`"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    url: str, statement: str, properties: dict[str, Any], what: str
) -> None:
    with closing(connected(url)) as connection:
        insert(connection, 3)
    fetch(url, statement)
    with pytest.raises(RidgelineError, match=what):
        run_local(application(url, until="end", **properties))
