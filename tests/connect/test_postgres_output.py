"""`PostgresOutput` against a real server: what is in the table, and which faults are named."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import pytest

from ridgeline import Application, RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.operators.postgres import PostgresOutput
from ridgeline.operators.postgres.output import copy_text, split_rows
from ridgeline.testing import (
    END_WINDOW,
    ListInput,
    run_local,
)
from support.services import Postgres

UTC = dt.UTC


@pytest.fixture
def dsn(postgres: Postgres) -> str:
    return postgres.database()


def fetch(dsn: str, query: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def application(output: PostgresOutput, kind: Any, rows: Sequence[Any], **attributes: Any) -> Application:
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


HOSTILE = [
    Everything(1, 1.5, "plain", True, b"\x00\xff", Decimal("1.25"), dt.date(2026, 1, 1), None, None, [1]),
    Everything(2, math.nan, "", False, b"", Decimal(0), None, dt.datetime(2026, 1, 1, tzinfo=UTC), None, []),
    Everything(3, math.inf, 'a "b" \\N \\. ,;\n\r\t', None, None, None, None, None, None, None),
    Everything(
        -(2**63), -0.0, "\\.", None, None, None, None, None, dt.timedelta(days=-1, microseconds=7), [2]
    ),
    Everything(2**63 - 1, 5e-324, "Zürich 🌊 \x01", None, None, None, None, None, None, None),
    Everything(
        4,
        None,
        None,
        None,
        None,
        None,
        dt.date(1, 1, 1),
        dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        None,
        None,
    ),
]


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    return a == b


def test_values_of_all_types_arrive_as_they_are(dsn: str) -> None:
    run_local(application(PostgresOutput(dsn=dsn, table="every"), Everything, HOSTILE))
    found = fetch(dsn, "select * from every")
    assert len(found) == len(HOSTILE)
    for wanted, row in zip(HOSTILE, found, strict=True):
        assert all(map(same, wanted, row)), (wanted, row)


class Price(NamedTuple):
    symbol: str
    price: float


PRICES = [("IBM", 12.5), ("SAP", 101.25), END_WINDOW, ("IBM", 13.0)]


@pytest.mark.parametrize(
    ("statement", "properties", "what"),
    [
        ("select 1", {"table": "no.prices"}, 'schema "no" does not exist'),
        ("create view prices as select 'a' as symbol, 1.0::float8 as price", {}, "cannot"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    dsn: str, statement: str, properties: dict[str, Any], what: str
) -> None:
    execute(dsn, statement)
    output = PostgresOutput(**{"dsn": dsn, "table": "prices", **properties})
    with pytest.raises(RidgelineError, match=what):
        run_local(application(output, Price, PRICES))


@pytest.mark.parametrize("key", [None, "symbol"])
def test_rows_that_are_too_large_or_that_a_trigger_refuses_are_left_out(
    dsn: str, key: str | None, tmp_path: Path
) -> None:
    execute(
        dsn,
        "create table prices (symbol text primary key, price float8)",
        """create function checked() returns trigger language plpgsql as
        $$ begin if new.price = 3 then raise exception 'three is refused'; end if; return new; end $$""",
        "create trigger checks before insert on prices for each row execute function checked()",
    )
    chance = Random(1)
    large = "".join(chr(chance.randrange(33, 0x2FFF)) for _ in range(9000))  # more than an index can hold
    rows = [("IBM", 1.0), (large, 2.0), ("SAP", 3.0), ("TSLA", 4.0)]
    output = PostgresOutput(dsn=dsn, table="prices", key=key, drain_seconds=5.0)
    run_local(application(output, Price, rows, on_error=OnError.SKIP), checkpoint=tmp_path)
    assert fetch(dsn, "select symbol, price from prices order by price") == [("IBM", 1.0), ("TSLA", 4.0)]
    [file] = (tmp_path / "staging" / "out").glob("refused-*.jsonl")
    assert [line.count("maximum") for line in file.read_text().splitlines()] == [1, 0]
    assert "three is refused" in file.read_text()


def test_no_secret_is_shown(postgres: Postgres, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    monkeypatch.setenv("SALES", dsn.replace("postgres@", f"postgres:{secret}@"))
    for given in ("env:SALES", dsn.replace("postgres@", f"postgres:{secret}@")):
        output = PostgresOutput(dsn=given, table="prices")
        run = run_local(application(output, Price, PRICES))
        assert secret not in repr(run.events)
        assert secret not in str(run.plan)
    monkeypatch.setenv("SALES", f"postgresql://nobody:{secret}@127.0.0.1:1/nothing")
    with pytest.raises(RidgelineError) as raised:
        run_local(application(PostgresOutput(dsn="env:SALES", table="t", drain_seconds=0.2), Price, PRICES))
    assert secret not in str(raised.value)
    assert "nothing is lost" in str(raised.value)
    with pytest.raises(RidgelineError, match="environment variable `NO_SALES` is not set"):
        run_local(application(PostgresOutput(dsn="env:NO_SALES", table="t"), Price, PRICES))
    wrong = dsn.rpartition("/")[0] + "/nothing"
    with pytest.raises(RidgelineError, match='database "nothing" does not exist; check `dsn`'):
        run_local(application(PostgresOutput(dsn=wrong, table="t"), Price, PRICES))


def test_rows_of_copy_are_split_as_they_were_joined() -> None:
    texts = ["a", "", None, 'q"\n"', ",\n", '"', "\r\n"]
    batch = pa.RecordBatch.from_pydict({"a": texts, "b": list(reversed(texts))})
    rows = split_rows(copy_text(batch))
    assert len(rows) == len(texts)
    assert [copy_text(batch.slice(number, 1)) for number in range(len(texts))] == rows
