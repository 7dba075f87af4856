"""`MariaDbInput` against a real server: which values it gives."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pymysql
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.operators.mariadb import MariaDbInput
from ridgeline.testing import CollectorSink, run_local
from support.services import MariaDB

pytestmark = pytest.mark.slow


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
    return mariadb.database()


def application(url: str, kind: Any, **properties: Any) -> Application:
    attributes = {"on_error": properties.pop("on_error")} if "on_error" in properties else {}
    app = Application("orders")
    made: MariaDbInput[Any] = MariaDbInput(
        **{"url": url, "table": "orders", "schema": kind, "lag": 0.0, **properties}
    )
    orders = app.add_operator("orders", made, **attributes)
    sink = app.add_operator("sink", CollectorSink(kind))
    app.add_stream("orders", orders.output, sink.input)
    return app


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
