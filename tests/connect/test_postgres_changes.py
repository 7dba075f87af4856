"""`PostgresChanges` against a real server: each change once and in order, through kills and failures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest

from ridgeline import Application
from ridgeline.api.clock import SystemClock
from ridgeline.operators.postgres import PostgresChanges
from ridgeline.testing import CollectorSink, Faults, run_local
from ridgeline.testing.services import Postgres

pytestmark = pytest.mark.slow
MADE = """create table customers (id int primary key, country text, cents numeric, blocked bool not null);
create table others (id int primary key, text text)"""


class Customer(NamedTuple):
    id: int
    country: str | None
    blocked: bool


class Change(NamedTuple):
    id: int
    country: str | None
    blocked: bool
    deleted: bool
    op: str
    transaction: int


@pytest.fixture
def dsn(postgres: Postgres) -> Iterator[str]:
    dsn = postgres.database()
    execute(dsn, MADE)
    yield dsn
    postgres.restart()  # ends connections that a test has left
    for (slot,) in fetch(
        dsn, "select slot_name from pg_replication_slots where database = current_database()"
    ):
        execute(dsn, f"select pg_drop_replication_slot('{slot}')")


def execute(dsn: str, *statements: Any) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def fetch(dsn: str, query: Any) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


def application(dsn: str, schema: Any = Change, partitions: int = 1, **properties: Any) -> Application:
    app = Application("shop", window="10ms")
    if schema is Change:
        properties.setdefault("metadata", {"op": "change", "transaction": "transaction"})
    changes = PostgresChanges("customers", dsn=dsn, schema=schema, **properties)
    app.read("customers", changes, partitions=partitions).write("sink", CollectorSink(schema))
    return app


def collected(app: Application, checkpoint: Path | None = None, **options: Any) -> list[Any]:
    return list(run_local(app, checkpoint=checkpoint, clock=SystemClock(), **options).collected("sink"))


class Writer:
    """Makes random transactions of both tables."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.random = Random(seed)
        self.connection = psycopg.connect(dsn)

    def write(self, transactions: int, *, most: int = 8) -> None:
        for _ in range(transactions):
            for _ in range(self.random.randrange(1, most)):
                self.change()
            if self.random.random() < 0.1:
                self.connection.rollback()
            else:
                self.connection.commit()

    def close(self) -> None:
        self.connection.close()

    def change(self) -> None:
        random, run = self.random, self.connection.execute
        key, other = random.randrange(40), random.randrange(40)
        choice = random.random()
        if choice < 0.45:
            run(
                """insert into customers values (%s, %s, %s, %s)
                on conflict (id) do update set country = excluded.country, blocked = excluded.blocked""",
                (key, random.choice([None, "", "Zürich", 'a "b", \n\\N']), random.random(), choice < 0.2),
            )
        elif choice < 0.6:
            run("delete from customers where id = %s", (key,))
        elif choice < 0.7:
            move = "update customers set id = %s where id = %s "
            move += "and not exists (select from customers where id = %s)"
            run(move, (key, other, key))
        elif choice < 0.72:
            run("truncate customers")
        elif choice < 0.74:
            run("truncate customers, others")
        elif choice < 0.8:
            run("update customers set country = country || 'x' where id < %s", (key,))
        else:
            run("insert into others values (%s, 'x') on conflict do nothing", (key,))


_LINE = re.compile(
    r"table public\.customers: (\w+):(?:.*?id\[integer\]:(\d+))?(?:.*new-tuple: id\[integer\]:(\d+))?"
)


def decoded(dsn: str, slot: str, live: Sequence[int] = ()) -> list[tuple[str, int, int]]:
    """The changes as a slot of another plugin has them: kind, id, transaction."""
    found: list[tuple[str, int, int]] = []
    keys = dict.fromkeys(live)
    query = f"select xid::text::bigint, data from pg_logical_slot_peek_changes('{slot}', null, null)"
    for transaction, text in fetch(dsn, query):
        if text.startswith("table") and ": TRUNCATE" in text and "public.customers" in text:
            found += [("delete", key, transaction) for key in keys]
            keys.clear()
        match = _LINE.match(text)
        if match is None or match[1] == "TRUNCATE":
            continue
        kind, before, after = match[1].lower(), int(match[2]), match[3]
        if kind == "update" and after is not None:
            found += [("delete", before, transaction), ("insert", int(after), transaction)]
            keys.pop(before)
            keys[int(after)] = None
            continue
        found.append((kind, before, transaction))
        if kind == "delete":
            keys.pop(before)
        else:
            keys[before] = None
    return found


def in_order(changes: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Changes in which deletions beside each other are in the order of their keys: those of a truncate."""
    found: list[tuple[str, int, int]] = []
    waiting: list[tuple[str, int, int]] = []
    for one in changes:
        if waiting and (one[0] != "delete" or one[2] != waiting[0][2]):
            found += sorted(waiting)
            waiting = []
        (waiting if one[0] == "delete" else found).append(one)
    return found + sorted(waiting)


def latest(changes: Sequence[Any]) -> dict[int, tuple[str | None, bool]]:
    rows: dict[int, tuple[str | None, bool]] = {}
    for one in changes:
        if one.deleted:
            rows.pop(one.id, None)
        else:
            rows[one.id] = one.country, one.blocked
    return rows


def table(dsn: str) -> dict[int, tuple[str | None, bool]]:
    return {
        key: (country, blocked)
        for key, country, blocked in fetch(dsn, "select id, country, blocked from customers")
    }


def check(dsn: str, found: Sequence[Any], live: Sequence[int]) -> None:
    """The changes that were read are those of another slot, and lead to the table."""
    assert latest(found) == table(dsn)
    stream = [one for one in found if one.op != "snapshot"]
    assert sorted(one.id for one in found[: len(found) - len(stream)]) == sorted(live)
    wanted = decoded(dsn, "oracle", live)
    assert in_order([(one.op, one.id, one.transaction) for one in stream]) == in_order(wanted)


def begin(dsn: str, seed: int) -> tuple[Writer, list[int]]:
    """Rows before the snapshot, and the slot of another plugin. Returns a writer, and the keys of rows."""
    writer = Writer(dsn, seed)
    writer.write(20)
    execute(dsn, "select pg_create_logical_replication_slot('oracle', 'test_decoding')")
    return writer, [key for (key,) in fetch(dsn, "select id from customers order by id")]


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_each_change_once_and_in_order(dsn: str, partitions: int, tmp_path: Path) -> None:
    writer, live = begin(dsn, partitions)
    found: list[Any] = []
    while not found:  # the snapshot
        found += collected(application(dsn, partitions=partitions), tmp_path, windows=10)
    for number in range(5):
        faults = Faults(seed=number, rate=0.3, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
        app = application(dsn, partitions=partitions, window_records=40)
        found += collected(app, tmp_path, windows=10, faults=faults)
        writer.write(60)
    writer.close()
    found += collected(application(dsn, partitions=partitions, window_records=40, until="end"), tmp_path)
    check(dsn, found, live)
