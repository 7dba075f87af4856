"""MariaDB against a real server: what outputs leave in a table, what inputs give, which faults are named."""

from __future__ import annotations

import datetime as dt
import threading
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.connect.stores import (
    PRICES,
    OnMariaDb,
    Price,
    check_that_no_secret_is_shown,
    reading,
    refused_rows,
    writing,
)

from ridgeline import RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.api.clock import SystemClock
from ridgeline.connect import SinkContext
from ridgeline.connectors.sql import MariaDbOutput
from ridgeline.connectors.sql.mariadb import MariaDbSink
from ridgeline.testing import END_WINDOW, run_local
from support import services

pytestmark = pytest.mark.slow

UTC = dt.UTC


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> OnMariaDb:
    return OnMariaDb(request, tmp_path)


@pytest.mark.parametrize(
    ("statement", "properties", "what"),
    [
        ("create table items (symbol text, price float)", {}, "`price` is float in the table and double"),
        ("create table items (symbol int, price double)", {}, r"`symbol` is int\(11\) in the table"),
        (
            "create table items (symbol text, price double, unique (symbol(3)))",
            {"key": "symbol"},
            "no unique index has exactly",
        ),
        (
            "create table items (symbol char(9) unique, price double unique)",
            {"key": "symbol"},
            "may be null, and `price` is unique, too; declare the column as not null",
        ),
        ("create table items (symbol text, price double) engine = MyISAM", {}, "MyISAM, has no transactions"),
        ("create table ridgeline_marks (name text) engine = Aria", {}, "engine of `ridgeline_marks`, Aria"),
        ("select 1", {"table": "no.prices"}, "Unknown database 'no'; fix that"),
        ("create view items as select 'a' as symbol, 1e0 as price", {}, "`items` is a view"),
        ("select 1", {"connection": {"ssl_cert_": "x"}}, "no setting `ssl_cert_`; did you mean `ssl_cert`"),
        ("select 1", {"connection": {"port": "99999"}}, "`port` is a number .* 65535 at most, not `99999`"),
        ("select 1", {"connection": {"read_timeout": "inf"}}, "`read_timeout` is a number above 0, .*`inf`"),
        ("select 1", {"connection": {"connect_timeout": "0"}}, "`connect_timeout` is a .*not `0`"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    store: OnMariaDb, statement: str, properties: dict[str, Any], what: str
) -> None:
    store.execute(statement)
    with pytest.raises(RidgelineError, match=what):
        run_local(writing(store.output(**properties), Price, PRICES))


def valued(kind: Any) -> Any:
    return NamedTuple("Valued", [("id", int), ("value", kind)])


NOW = dt.datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "kind", "good", "bad", "why"),
    [
        ("datetime", dt.datetime, NOW.replace(microsecond=0), NOW, "would be cut to datetime"),
        ("timestamp(3) null", dt.datetime, NOW, NOW.replace(microsecond=1), "would be cut to timestamp"),
        (
            "timestamp null",
            dt.datetime,
            NOW.replace(microsecond=0),
            dt.datetime(2200, 1, 1, tzinfo=UTC),
            "Incorrect datetime",
        ),
        (
            "timestamp not null",
            dt.datetime | None,
            NOW.replace(microsecond=0),
            None,
            "is null, and the column",
        ),
        ("decimal(6, 2)", Decimal, Decimal("1.25"), Decimal("1.125"), "Data truncated"),
        ("decimal(6, 2)", float, 1.25, 1.125, "Data truncated"),
        ("decimal(6, 2)", int, 17, 10**6, "Out of range"),
        ("double", int, 2**53 - 1, 2**53 + 1, "would be rounded to double"),
        ("tinyint unsigned", int, 255, -1, "Out of range"),
        ("char(5)", str, "a", "a ", "char cuts off"),
        ("varchar(2)", str, "a ", "a   ", "Data truncated|too long"),
        ("varchar(9) character set latin1", str, "ü", "🌊", "Incorrect string value"),
        ("text", str, "x" * 65_535, "x" * 65_536, "too long"),
        ("enum('a', '7')", str, "7", "1", "is not in enum"),
        ("binary(3)", bytes, b"abc", b"ab", "would be filled up to binary"),
        ("json", list[int], [1], None, ""),
        ("bit(1)", bool, True, None, ""),
        ("uuid", str, "123e4567-e89b-12d3-a456-426655440000", "x", "Incorrect uuid value"),
        ("time", dt.time, dt.time(1), dt.time(1, 0, 0, 1), "would be cut to time"),
        ("date", dt.date, dt.date(2026, 1, 1), None, ""),
    ],
)
def test_a_value_that_would_be_changed_is_refused(
    store: OnMariaDb, tmp_path: Path, column: str, kind: Any, good: Any, bad: Any, why: str
) -> None:
    store.execute(
        "set sql_mode = ''", f"create table items (id int auto_increment primary key, value {column})"
    )
    rows = [(1, good), *([(2, bad)] if why else []), (0, good)]
    run_local(writing(store.output(), valued(kind), rows, on_error=OnError.SKIP), checkpoint=tmp_path)
    assert sorted(store.fetch("id")) == [(0,), (1,)]
    refused = refused_rows(tmp_path)
    assert len(refused) == bool(why)
    assert all(any(part in line for part in why.split("|")) for line in refused)


def test_a_row_whose_other_unique_value_is_taken_is_refused(store: OnMariaDb, tmp_path: Path) -> None:
    store.execute("create table items (symbol varchar(9) primary key, price double unique)")
    rows = [("IBM", 1.0), ("SAP", 2.0), END_WINDOW, ("IBM", 3.0), ("TSLA", 2.0), ("SAP", 4.0)]
    app = writing(store.output(key="symbol"), Price, rows, on_error=OnError.SKIP)
    run_local(app, checkpoint=tmp_path)
    assert sorted(store.fetch("symbol", "price")) == [("IBM", 3.0), ("SAP", 4.0)]
    [line] = refused_rows(tmp_path)
    assert "a row with another key has its value of another unique index" in line


def test_a_row_above_the_servers_packet_is_refused(store: OnMariaDb, tmp_path: Path) -> None:
    before = store.server.execute("select @@global.max_allowed_packet")
    store.server.execute("set global max_allowed_packet = 1048576")
    try:
        rows = [("x" * 500_000, 1.0), ("x" * 2**20, 2.0), *((("y" * 300_000), 3.0) for _ in range(9))]
        app = writing(store.output(drain_seconds=60.0), Price, rows, on_error=OnError.SKIP)
        run_local(app, checkpoint=tmp_path)
        assert [len(one) for (one,) in store.fetch("symbol")] == [500_000] + [300_000] * 9
        [line] = refused_rows(tmp_path)
        assert "larger than the server's max_allowed_packet" in line
    finally:
        store.server.execute(f"set global max_allowed_packet = {before}")


class Gone(NamedTuple):
    symbol: str
    price: float
    off: bool


def test_keys_that_the_collation_takes_for_equal_are_one(store: OnMariaDb) -> None:
    collated = "symbol varchar(9) collate utf8mb4_general_ci primary key"
    store.execute(f"create table items ({collated}, price double, gone int)")
    rows = [("a", 1.0, False), ("B", 2.0, False), ("A", 3.0, False), ("b", 0.0, True), ("c ", 1.0, True)]
    run_local(writing(store.output(key="symbol", delete="off"), Gone, rows))
    assert store.fetch("symbol", "price") == [("A", 3.0)]


def test_no_secret_is_shown(store: OnMariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    store.execute(f"create or replace user ann identified by '{secret}'", "grant all on *.* to ann")
    given = store.url.replace("root@", f"ann:{secret}@")
    monkeypatch.setenv("SALES", given)
    monkeypatch.setenv("AWAY", f"mariadb://ann:{secret}@127.0.0.1:1/nothing")
    server = given.rpartition("/")[0]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"url": "env:AWAY", "drain_seconds": 0.2}, "nothing is lost"),
        ({"url": "env:NO_SALES"}, "environment variable `NO_SALES` is not set"),
        ({"url": f"postgres://ann:{secret}@h/d"}, "`url` is no address of a server"),
        ({"url": given, "password": f"{secret}-not"}, r"Access denied for user 'ann'.*; check `url`"),
        ({"url": f"{server}/nothing"}, "Unknown database 'nothing'; check `url`"),
        ({"url": server}, "`url` names no database"),
        ({"url": given, "connection": {"ssl_ca": "/nothing"}}, "No such file"),
    ]
    check_that_no_secret_is_shown(
        secret,
        [store.output(url=one) for one in ("env:SALES", given)],
        [(store.output(**properties), what) for properties, what in wrong],
    )


def test_a_user_without_rights_is_told(store: OnMariaDb) -> None:
    name = urlsplit(store.url).path.strip("/")
    store.execute("create or replace user bob identified by ''", f"grant select on {name}.* to bob")
    bob = writing(store.output(url=store.url.replace("root@", "bob@")), Price, PRICES)
    with pytest.raises(RidgelineError, match=r"CREATE command denied to user 'bob'"):
        run_local(bob)
    run_local(writing(store.output(), Price, PRICES))
    store.execute(f"grant insert, update on {name}.ridgeline_marks to bob")
    with pytest.raises(RidgelineError, match="INSERT command denied to user 'bob'"):
        run_local(bob)
    store.execute(f"grant insert on {name}.items to bob")
    run_local(bob)
    assert len(store.fetch("symbol")) == 6


class HastySink(MariaDbSink):
    """Waits a second for a lock."""

    def open(self, context: SinkContext) -> None:
        super().open(context)
        self.execute("set session innodb_lock_wait_timeout = 1")


class Hasty(MariaDbOutput):
    def sink(self) -> MariaDbSink:
        made: Any = super().sink()
        return HastySink(made._server, made.target)


def test_a_lock_that_is_held_for_long_and_a_deadlock_are_waited_for(store: OnMariaDb) -> None:
    columns = "symbol varchar(9) primary key, price double"
    store.execute(f"create table items ({columns})", "insert into items values ('IBM', 0), ('SAP', 0)")
    heavy = "insert into items select concat('x', seq), -1 from seq_1_to_1000"  # so the other one is chosen
    app = writing(Hasty(url=store.url, table="items", key="symbol"), Price, [("SAP", 1.0), ("IBM", 2.0)])
    pause = threading.Event()

    def wait_for_a_lock_wait() -> None:
        waits = "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
        while store.execute(waits) != [(1,)]:
            pause.wait(0.2)  # InnoDB says something new only if it was not asked for 0.1 s

    with closing(store.connect()) as other, other.cursor() as cursor:
        cursor.execute(heavy)
        cursor.execute("update items set price = 9 where symbol = 'IBM'")
        run = threading.Thread(target=run_local, args=(app,))
        run.start()
        wait_for_a_lock_wait()
        pause.wait(1.5)  # longer than it waits for a lock
        wait_for_a_lock_wait()
        cursor.execute("insert into items values ('SAP', 8) on duplicate key update price = 8")  # a deadlock
        other.commit()
    run.join(60)
    assert sorted(store.execute("select * from items where price > 0")) == [("IBM", 2.0), ("SAP", 1.0)]


def test_a_full_disk_is_waited_for() -> None:
    rows: list[Any] = []
    for number in range(30):
        rows += [(f"{number} {'x' * 2**18}", float(number)), END_WINDOW]
    small = {"innodb-log-file-size": "4M", "innodb-buffer-pool-size": "8M", "max-binlog-size": "4M"}
    with services.mariadb(settings=small, disk_bytes=400 * 2**20) as mariadb:
        url = mariadb.database()
        for time in (1, 2):  # no table can be made, then no row can be written
            app = writing(MariaDbOutput(url=url, table="prices", drain_seconds=120.0), Price, rows)
            mariadb.fill_disk()
            run = threading.Thread(target=run_local, args=(app,), kwargs={"clock": SystemClock()})
            run.start()
            threading.Event().wait(5)
            mariadb.free_disk()
            if not mariadb.running:
                mariadb.start()
            run.join(120)
            found = mariadb.execute(f"select count(*), sum(price) from {urlsplit(url).path[1:]}.prices")
            assert found.split() == [str(30 * time), str(435 * time)]


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


def test_an_input_gives_values_as_they_are_in_the_table(store: OnMariaDb) -> None:
    store.execute(
        "set names utf8mb4",
        "set time_zone = '+02:00'",
        EVERY,
        """insert into every values (1, 9223372036854775807, 16777217, 1, b'100000001', 1234567890.12345,
        '2026-01-31', '2026-01-31 12:00:00.000001', '2026-01-31 12:00:00', '23:59:59.999999', '-800:00:00',
        '🌊', x'00ff', '{"a": [1, 2]}', 'b')""",
        "insert into every (id) values (2)",
    )
    app = reading(store.source(schema=Every, table="every", until="end"), Every)
    [first, second] = run_local(app).collected("sink")
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
def test_a_value_that_does_not_fit_its_field_is_left_out(
    store: OnMariaDb, column: str, value: str, why: str
) -> None:
    store.execute(
        "set sql_mode = ''",
        EVERY,
        f"insert into every (id, {column}) values (1, null), (2, {value}), (3, null)",
    )

    def read(on_error: OnError = OnError.STOP) -> list[Any]:
        source = store.source(schema=Every, table="every", until="end")
        return run_local(reading(source, Every, on_error=on_error)).collected("sink")

    with pytest.raises(RidgelineError, match=why):
        read()
    assert [row.id for row in read(OnError.SKIP)] == [1, 3]
