"""`PostgresOutput` against a real server: what is in the table, and which faults are named."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.connect.stores import (
    PRICES,
    OnPostgres,
    Price,
    check_that_no_secret_is_shown,
    refused_rows,
    writing,
)

from ridgeline import RidgelineError
from ridgeline.api.attributes import OnError
from ridgeline.connectors.postgres.tables import copy_text, split_rows
from ridgeline.testing import run_local


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> OnPostgres:
    return OnPostgres(request, tmp_path)


@pytest.mark.parametrize(
    ("statement", "properties", "what"),
    [
        ("select 1", {"table": "no.prices"}, 'schema "no" does not exist'),
        ("create view items as select 'a' as symbol, 1.0::float8 as price", {}, "cannot"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    store: OnPostgres, statement: str, properties: dict[str, Any], what: str
) -> None:
    store.execute(statement)
    with pytest.raises(RidgelineError, match=what):
        run_local(writing(store.output(**properties), Price, PRICES))


@pytest.mark.parametrize("key", [None, "symbol"])
def test_rows_that_are_too_large_or_that_a_trigger_refuses_are_left_out(
    store: OnPostgres, key: str | None, tmp_path: Path
) -> None:
    store.execute(
        "create table items (symbol text primary key, price float8)",
        """create function checked() returns trigger language plpgsql as
        $$ begin if new.price = 3 then raise exception 'three is refused'; end if; return new; end $$""",
        "create trigger checks before insert on items for each row execute function checked()",
    )
    chance = Random(1)
    large = "".join(chr(chance.randrange(33, 0x2FFF)) for _ in range(9000))  # more than an index can hold
    rows = [("IBM", 1.0), (large, 2.0), ("SAP", 3.0), ("TSLA", 4.0)]
    app = writing(store.output(key=key, drain_seconds=60.0), Price, rows, on_error=OnError.SKIP)
    run_local(app, checkpoint=tmp_path)
    assert sorted(store.fetch("symbol", "price")) == [("IBM", 1.0), ("TSLA", 4.0)]
    too_large, three = refused_rows(tmp_path)
    assert "maximum" in too_large
    assert "three is refused" in three


@pytest.mark.parametrize(
    ("column", "seats"),
    [
        ("seat text unique", "BCAD"),
        ("seat text not null unique deferrable", "BCAD"),
        ("seat text not null unique", "ABC"),
    ],
)
def test_rows_exchange_values_of_a_unique_column(store: OnPostgres, column: str, seats: str) -> None:
    store.execute(f"create table items (id bigint primary key, {column})")
    store.execute("insert into items values (1, 'A'), (2, 'B'), (3, 'C')")
    schema = pa.schema([("id", pa.int64()), ("seat", pa.string())])
    app = writing(store.output(key="id"), schema, [*enumerate("BCAD", 1)])
    if seats == "BCAD":
        run_local(app)
    else:
        with pytest.raises(
            RidgelineError, match="where rows exchange values, make the constraint `deferrable`"
        ):
            run_local(app)
    assert [seat for _, seat in sorted(store.fetch("id", "seat"))] == [*seats]


def test_no_secret_is_shown(store: OnPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2-very-secret"
    given = store.dsn.replace("postgres@", f"postgres:{secret}@")
    monkeypatch.setenv("SALES", given)
    monkeypatch.setenv("AWAY", f"postgresql://nobody:{secret}@127.0.0.1:1/nothing")
    nothing = store.dsn.rpartition("/")[0] + "/nothing"
    wrong = [
        (store.output(dsn="env:AWAY", drain_seconds=0.2), "nothing is lost"),
        (store.output(dsn="env:NO_SALES"), "environment variable `NO_SALES` is not set"),
        (store.output(dsn=nothing), 'database "nothing" does not exist; check `dsn`'),
    ]
    check_that_no_secret_is_shown(secret, [store.output(dsn=one) for one in ("env:SALES", given)], wrong)


def test_rows_of_copy_are_split_as_they_were_joined() -> None:
    texts = ["a", "", None, 'q"\n"', ",\n", '"', "\r\n"]
    batch = pa.RecordBatch.from_pydict({"a": texts, "b": list(reversed(texts))})
    rows = split_rows(copy_text(batch))
    assert len(rows) == len(texts)
    assert [copy_text(batch.slice(number, 1)) for number in range(len(texts))] == rows
