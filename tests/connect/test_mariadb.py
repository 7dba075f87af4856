"""`MariaDbOutput` against a real server: what is in the table, and which faults are named."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
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
from ridgeline.connect import SinkContext
from ridgeline.operators.mariadb import MariaDbOutput
from ridgeline.operators.mariadb.output import MariaDbSink
from ridgeline.testing import (
    END_WINDOW,
    ListInput,
    run_local,
)
from support import services
from support.services import MariaDB

pytestmark = pytest.mark.slow

UTC = dt.UTC


@pytest.fixture
def url(mariadb: MariaDB) -> str:
    return mariadb.database()


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


def application(output: MariaDbOutput, kind: Any, rows: Sequence[Any], **attributes: Any) -> Application:
    app = Application("sales")
    source = app.add_operator("source", ListInput(kind, rows))
    out = app.add_operator("out", output, **attributes)
    app.add_stream("rows", source.output, out.input)
    return app


class Everything(NamedTuple):
    number: int
    small: float | None
    text: str | None
    yes: bool | None
    data: bytes | None
    price: Decimal | None
    day: dt.date | None
    at: dt.datetime | None
    took: dt.timedelta | None
    parts: list[int] | None


def every(number: int, **values: Any) -> Everything:
    return Everything(number, **{**dict.fromkeys(Everything._fields[1:]), **values})


HOSTILE = [
    every(1, small=1.5, text="plain", yes=True, data=b"\x00\xff'\\", price=Decimal("1.25"), parts=[1]),
    every(2, small=-0.0, text="", yes=False, data=b"", price=Decimal(0), day=dt.date(2026, 1, 1), parts=[]),
    every(3, small=5e-324, text="a \"b\" 'c' \\N \\0 \\% ,;\n\r\t\x1a\0`%s NULL"),
    every(-(2**63), small=1.7976931348623157e308, text="\\", took=dt.timedelta(days=-1, microseconds=7)),
    every(2**63 - 1, small=0.1, text="Zürich 🌊 \x01 ", at=dt.datetime(2026, 1, 1, tzinfo=UTC)),
    every(4, day=dt.date(1, 1, 1), at=dt.datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC), text="'); drop table x"),
    every(5, day=dt.date(9999, 12, 31), at=dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
]


def test_values_of_all_types_arrive_as_they_are(url: str) -> None:
    random = Random(1)
    more = [
        every(
            number,
            small=random.uniform(-1, 1) * 10.0 ** random.randrange(-300, 300),
            text="".join(
                chr(random.choice([random.randrange(1, 128), random.randrange(0xE000, 0x10FFFF)]))
                for _ in range(9)
            ),
            data=random.randbytes(9),
        )
        for number in range(300)
    ]
    rows = HOSTILE + more
    run_local(application(MariaDbOutput(url=url, table="every"), Everything, rows))
    found = fetch(url, "select * from every")
    assert len(found) == len(rows)
    for wanted, row in zip(rows, found, strict=True):
        assert row[:7] == wanted[:7]
        assert row[7] == (wanted.at and wanted.at.replace(tzinfo=None))
        assert row[8] == (wanted.took and wanted.took // dt.timedelta(microseconds=1))
        assert row[9] == (None if wanted.parts is None else str(wanted.parts))


class Price(NamedTuple):
    symbol: str
    price: float


PRICES = [("IBM", 12.5), ("SAP", 101.25), END_WINDOW, ("IBM", 13.0)]


@pytest.mark.parametrize(
    ("statement", "properties", "what"),
    [
        ("create table prices (symbol text, price float)", {}, "`price` is float in the table and double"),
        ("create table prices (symbol int, price double)", {}, r"`symbol` is int\(11\) in the table"),
        (
            "create table prices (symbol text, price double, unique (symbol(3)))",
            {"key": "symbol"},
            "no unique index has exactly",
        ),
        (
            "create table prices (symbol char(9) unique, price double unique)",
            {"key": "symbol"},
            "may be null, and `price` is unique, too; declare the column as not null",
        ),
        (
            "create table prices (symbol text, price double) engine = MyISAM",
            {},
            "MyISAM, has no transactions",
        ),
        ("create table ridgeline_marks (name text) engine = Aria", {}, "engine of `ridgeline_marks`, Aria"),
        ("select 1", {"table": "no.prices"}, "Unknown database 'no'; mend that"),
        ("create view prices as select 'a' as symbol, 1e0 as price", {}, "`prices` is a view"),
        ("select 1", {"connection": {"ssl_cert_": "x"}}, "no setting `ssl_cert_`; did you mean `ssl_cert`"),
        ("select 1", {"connection": {"port": "99999"}}, "`port` is a number .* 65535 at most, not `99999`"),
        ("select 1", {"connection": {"read_timeout": "inf"}}, "`read_timeout` is a number above 0, .*`inf`"),
        ("select 1", {"connection": {"connect_timeout": "0"}}, "`connect_timeout` is a .*not `0`"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    url: str, statement: str, properties: dict[str, Any], what: str
) -> None:
    fetch(url, statement)
    output = MariaDbOutput(**{"url": url, "table": "prices", **properties})
    with pytest.raises(RidgelineError, match=what):
        run_local(application(output, Price, PRICES))


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
    url: str, tmp_path: Path, column: str, kind: Any, good: Any, bad: Any, why: str
) -> None:
    fetch(url, "set sql_mode = ''", f"create table t (id int auto_increment primary key, value {column})")
    rows = [(1, good), *([(2, bad)] if why else []), (0, good)]
    output = MariaDbOutput(url=url, table="t")
    run_local(application(output, valued(kind), rows, on_error=OnError.SKIP), checkpoint=tmp_path)
    assert [one for (one,) in fetch(url, "select id from t order by id")] == [0, 1]
    refused = "".join(file.read_text() for file in (tmp_path / "staging" / "out").glob("refused-*.jsonl"))
    assert len(refused.splitlines()) == bool(why)
    assert any(part in refused for part in why.split("|"))


def test_a_row_whose_other_unique_value_is_taken_is_refused(url: str, tmp_path: Path) -> None:
    fetch(url, "create table prices (symbol varchar(9) primary key, price double unique)")
    rows = [("IBM", 1.0), ("SAP", 2.0), END_WINDOW, ("IBM", 3.0), ("TSLA", 2.0), ("SAP", 4.0)]
    output = MariaDbOutput(url=url, table="prices", key="symbol")
    run_local(application(output, Price, rows, on_error=OnError.SKIP), checkpoint=tmp_path)
    assert fetch(url, "select * from prices order by symbol") == [("IBM", 3.0), ("SAP", 4.0)]
    [file] = (tmp_path / "staging" / "out").glob("refused-*.jsonl")
    assert "a row with another key has its value of another unique index" in file.read_text()


def test_a_row_above_the_servers_packet_is_refused(mariadb: MariaDB, url: str, tmp_path: Path) -> None:
    before = mariadb.execute("select @@global.max_allowed_packet")
    mariadb.execute("set global max_allowed_packet = 1048576")
    try:
        output = MariaDbOutput(url=url, table="prices", drain_seconds=5.0)
        rows = [("x" * 500_000, 1.0), ("x" * 2**20, 2.0), *((("y" * 300_000), 3.0) for _ in range(9))]
        run_local(application(output, Price, rows, on_error=OnError.SKIP), checkpoint=tmp_path)
        assert [len(one) for (one,) in fetch(url, "select symbol from prices")] == [500_000] + [300_000] * 9
        [file] = (tmp_path / "staging" / "out").glob("refused-*.jsonl")
        assert "larger than the server's max_allowed_packet" in file.read_text()
    finally:
        mariadb.execute(f"set global max_allowed_packet = {before}")


def test_keys_that_the_collation_takes_for_equal_are_one(url: str) -> None:
    fetch(
        url,
        "create table c (symbol varchar(9) collate utf8mb4_general_ci primary key, price double, gone int)",
    )
    rows = [("a", 1.0, False), ("B", 2.0, False), ("A", 3.0, False), ("b", 0.0, True), ("c ", 1.0, True)]

    class Gone(NamedTuple):
        symbol: str
        price: float
        off: bool

    output = MariaDbOutput(url=url, table="c", key="symbol", delete="off")
    run_local(application(output, Gone, rows))
    assert fetch(url, "select symbol, price from c") == [("A", 3.0)]


def test_no_secret_is_shown(mariadb: MariaDB, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    fetch(url, f"create or replace user ann identified by '{secret}'", "grant all on *.* to ann")
    given = url.replace("root@", f"ann:{secret}@")
    monkeypatch.setenv("SALES", given)
    for one in ("env:SALES", given):
        run = run_local(application(MariaDbOutput(url=one, table="prices"), Price, PRICES))
        assert secret not in repr(run.events)
        assert secret not in str(run.plan)
    monkeypatch.setenv("SALES", f"mariadb://ann:{secret}@127.0.0.1:1/nothing")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"url": "env:SALES", "drain_seconds": 0.2}, "nothing is lost"),
        ({"url": "env:NO_SALES"}, "environment variable `NO_SALES` is not set"),
        ({"url": f"postgres://ann:{secret}@h/d"}, "`url` is no address of a server"),
        ({"url": given, "password": f"{secret}-not"}, r"Access denied for user 'ann'.*; check `url`"),
        ({"url": given.rpartition("/")[0] + "/nothing"}, "Unknown database 'nothing'; check `url`"),
        ({"url": given.rpartition("/")[0]}, "`url` names no database"),
        ({"url": given, "connection": {"ssl_ca": "/nothing"}}, "No such file"),
    ]
    for properties, what in wrong:
        with pytest.raises((RidgelineError, OSError), match=what) as raised:
            run_local(application(MariaDbOutput("prices", **properties), Price, PRICES))
        assert secret not in str(raised.value)


def test_a_user_without_rights_is_told(url: str) -> None:
    name = urlsplit(url).path.strip("/")
    fetch(url, "create or replace user bob identified by ''", f"grant select on {name}.* to bob")
    bob = url.replace("root@", "bob@")
    with pytest.raises(RidgelineError, match=r"CREATE command denied to user 'bob'.* nothing that was"):
        run_local(application(MariaDbOutput("prices", url=bob), Price, PRICES))
    run_local(application(MariaDbOutput("prices", url=url), Price, PRICES))
    fetch(url, f"grant insert, update on {name}.ridgeline_marks to bob")
    with pytest.raises(RidgelineError, match="INSERT command denied to user 'bob'"):
        run_local(application(MariaDbOutput("prices", url=bob), Price, PRICES))
    fetch(url, f"grant insert on {name}.prices to bob")
    run_local(application(MariaDbOutput("prices", url=bob), Price, PRICES))
    assert len(fetch(url, "select * from prices")) == 6


def test_a_lock_that_is_held_for_long_and_a_deadlock_are_waited_for(url: str) -> None:
    columns = "symbol varchar(9) primary key, price double"
    fetch(url, f"create table prices ({columns})", "insert into prices values ('IBM', 0), ('SAP', 0)")
    heavy = "insert into prices select concat('x', seq), -1 from seq_1_to_1000"  # so the other one is chosen
    rows = [("SAP", 1.0), ("IBM", 2.0)]
    output = Hasty(url=url, table="prices", key="symbol")
    with closing(connected(url, autocommit=False)) as other, other.cursor() as cursor:
        cursor.execute(heavy)
        cursor.execute("update prices set price = 9 where symbol = 'IBM'")
        run = threading.Thread(target=run_local, args=(application(output, Price, rows),))
        run.start()
        waits = "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
        pause = threading.Event()
        while fetch(url, waits) != [(1,)]:
            pause.wait(0.2)  # InnoDB says something new only if it was not asked for 0.1 s
        pause.wait(1.5)  # longer than it waits for a lock
        while fetch(url, waits) != [(1,)]:
            pause.wait(0.2)  # InnoDB says something new only if it was not asked for 0.1 s
        cursor.execute("insert into prices values ('SAP', 8) on duplicate key update price = 8")  # a deadlock
        other.commit()
    run.join(60)
    assert sorted(fetch(url, "select * from prices where price > 0")) == [("IBM", 2.0), ("SAP", 1.0)]


class HastySink(MariaDbSink):
    """Waits a second for a lock."""

    def open(self, context: SinkContext) -> None:
        super().open(context)
        self._execute("set session innodb_lock_wait_timeout = 1")


class Hasty(MariaDbOutput):
    def sink(self) -> MariaDbSink:
        made: Any = super().sink()
        return HastySink(made._server, made._target)


def test_a_full_disk_is_waited_for() -> None:
    rows: list[Any] = []
    for number in range(30):
        rows += [(f"{number} {'x' * 2**18}", float(number)), END_WINDOW]
    small = {"innodb-log-file-size": "4M", "innodb-buffer-pool-size": "8M", "max-binlog-size": "4M"}
    with services.mariadb(settings=small, disk_bytes=400 * 2**20) as mariadb:
        url = mariadb.database()
        for time in (1, 2):  # no table can be made, then no row can be written
            app = application(MariaDbOutput(url=url, table="prices", drain_seconds=120.0), Price, rows)
            mariadb.fill_disk()
            run = threading.Thread(target=run_local, args=(app,), kwargs={"clock": SystemClock()})
            run.start()
            threading.Event().wait(5)
            mariadb.free_disk()
            if not mariadb.running:
                mariadb.start()
            run.join(120)
            found = [one for (one,) in fetch(url, "select price from prices order by price")]
            assert found == sorted([float(number) for number in range(30)] * time)
