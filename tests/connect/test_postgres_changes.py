"""`PostgresChanges` against a real server: each change once and in order, through kills and failures."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb

from ridgeline import Application, RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.connectors.postgres import PostgresChanges
from ridgeline.testing import CollectorSink, Faults, run_local
from support import services
from support.services import Postgres

pytestmark = pytest.mark.slow
AT, DAY = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC), dt.timedelta(days=1, microseconds=7)
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
        self.dsn = dsn
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

    def connect(self) -> None:
        """Connect again, after the server was killed."""
        self.connection.close()
        self.connection = psycopg.connect(self.dsn)

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
        elif choice < 0.8:
            run("update customers set country = country || 'x' where id < %s", (key,))
        else:
            run("insert into others values (%s, 'x') on conflict do nothing", (key,))


_LINE = re.compile(
    r"table public\.customers: (\w+):(?:.*?id\[integer\]:(\d+))?(?:.*new-tuple: id\[integer\]:(\d+))?"
)


def decoded(dsn: str, slot: str) -> list[tuple[str, int, int]]:
    """The changes as a slot of another plugin has them: kind, id, transaction."""
    found: list[tuple[str, int, int]] = []
    query = f"select xid::text::bigint, data from pg_logical_slot_peek_changes('{slot}', null, null)"
    for transaction, text in fetch(dsn, query):
        match = _LINE.match(text)
        if match is None:
            continue
        kind, before, after = match[1].lower(), int(match[2]), match[3]
        if kind == "update" and after is not None:
            found += [("delete", before, transaction), ("insert", int(after), transaction)]
        else:
            found.append((kind, before, transaction))
    return found


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
    assert [(one.op, one.id, one.transaction) for one in stream] == decoded(dsn, "oracle")


Begin = Callable[[str, int], tuple[Writer, list[int]]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Makes rows before the snapshot, and the slot of another plugin: a writer, and the keys of rows.

    Writers are closed after the test, also if it fails: the test after it would get their warning.
    """
    with contextlib.ExitStack() as writers:

        def begin(dsn: str, seed: int) -> tuple[Writer, list[int]]:
            writer = Writer(dsn, seed)
            writers.callback(writer.close)
            writer.write(20)
            execute(dsn, "select pg_create_logical_replication_slot('oracle', 'test_decoding')")
            return writer, [key for (key,) in fetch(dsn, "select id from customers order by id")]

        yield begin


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_each_change_once_and_in_order(dsn: str, begin: Begin, partitions: int, tmp_path: Path) -> None:
    writer, live = begin(dsn, partitions)
    found: list[Any] = []
    while not found:  # the snapshot
        found += collected(application(dsn, partitions=partitions), tmp_path, windows=10)
    for number in range(5):
        faults = Faults(seed=number, rate=0.3, kinds=("exception", "kill", "repeat", "restart"), quiet=True)
        app = application(dsn, partitions=(partitions, 1, 3)[number % 3], window_records=40)
        found += collected(app, tmp_path, windows=10, faults=faults)
        writer.write(60)
    found += collected(application(dsn, partitions=partitions, window_records=40, until="end"), tmp_path)
    check(dsn, found, live)


def direct(postgres: Postgres, dsn: str) -> str:
    """The same database past the proxy that is cut."""
    return postgres.direct_dsn.rpartition("/")[0] + "/" + dsn.rpartition("/")[2]


def snapshot(dsn: str, checkpoint: Path, **properties: Any) -> list[Any]:
    """Run until the snapshot is read."""
    found: list[Any] = []
    while not found:
        found += collected(application(dsn, **properties), checkpoint, windows=10)
    return found


def test_server_killed_and_network_cut(dsn: str, begin: Begin, postgres: Postgres, tmp_path: Path) -> None:
    writer, live = begin(direct(postgres, dsn), 7)
    found = snapshot(dsn, tmp_path)
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            found.extend(collected(application(dsn, partitions=2), tmp_path, windows=40))

    reading = threading.Thread(target=read)
    reading.start()
    try:
        for number in range(6):
            writer.write(30)
            if number % 2:
                postgres.kill()
                postgres.restart()
                writer.connect()
            else:
                postgres.cut(hang=number == 2)
                writer.write(10)
                postgres.mend()
    finally:
        over.set()
        reading.join(120)
    assert not reading.is_alive()
    found += collected(application(dsn, until="end"), tmp_path)
    check(dsn, found, live)


def test_a_transaction_that_is_larger_than_a_window(dsn: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (-1, 'first', 1, false)")
    execute(dsn, "select pg_create_logical_replication_slot('oracle', 'test_decoding')")
    found = snapshot(dsn, tmp_path)
    execute(
        dsn,
        "insert into customers select n, 'row ' || n, 1, n % 2 = 0 from generate_series(1, 45000) n",
        "begin; insert into customers select n, 'row', 1, true from generate_series(50001, 60000) n;"
        "update customers set country = 'changed' where id % 2 = 0; delete from customers where id % 3 = 0;"
        "insert into customers values (0, 'last', 1, false); commit",
    )
    for number in range(6):  # each ends somewhere within a transaction
        app = application(dsn, window_records=9000)
        faults = Faults(seed=number, rate=0.2, kinds=("exception", "kill", "restart"), quiet=True)
        found += collected(app, tmp_path, windows=2, faults=faults)
    found += collected(application(dsn, window_records=9000, until="end"), tmp_path)
    check(dsn, found, [-1])


def test_a_rewind_reads_the_same_again(
    dsn: str, begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot may be past the last change, where the log has nothing more of the table."""
    monkeypatch.setattr("ridgeline.connectors.postgres.change_source._IDLE_SECONDS", 0.0)
    writer, live = begin(dsn, 3)
    found = snapshot(dsn, tmp_path)
    writer.write(30)
    run = run_local(application(dsn), checkpoint=tmp_path, windows=25, clock=SystemClock())
    found += run.collected("sink")
    window = run.window_ids[-1]
    before = fetch(dsn, "select confirmed_flush_lsn from pg_replication_slots where slot_name <> 'oracle'")
    writer.write(30)
    first = collected(application(dsn, window_records=20), tmp_path, windows=4)
    after = fetch(dsn, "select confirmed_flush_lsn from pg_replication_slots where slot_name <> 'oracle'")
    assert first
    assert before != after
    again = collected(application(dsn, until="end"), tmp_path, from_window=window)
    assert again[: len(first)] == first
    check(dsn, [*found, *again], live)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("alter table customers drop constraint customers_pkey", {}, "add primary key|replica identity full"),
    ("alter table customers replica identity nothing", {}, "replica identity default"),
    ("drop table customers", {}, "the table does not exist; create it, or correct `table`"),
    ("alter table customers drop column country", {}, "no column `country`"),
    ("alter table customers alter blocked type text", {}, "`blocked` is text in the table and bool"),
    ("alter table customers add deleted bool", {}, "a column `deleted` of its own"),
    (
        "alter table customers drop constraint customers_pkey, add primary key (id, cents)",
        {},
        '`schema` lacks `"cents"`; add them, or run `alter table "customers" replica identity full`',
    ),
    ("select 1", {"slot": "taken"}, r"`taken` is there already.*pg_drop_replication_slot\('taken'\)"),
    ("create publication p for table others", {"publication": "p"}, 'alter publication "p" add table'),
    (
        "create publication p for table customers with (publish = 'insert')",
        {"publication": "p"},
        "does not publish all kinds of changes; run",
    ),
    ("create publication p for table customers where (id > 3)", {"publication": "p"}, "a row filter"),
    (
        "create role reader login; create publication p for table customers",
        {"connection": {"user": "reader"}, "publication": "p"},
        "alter role ... replication",
    ),
    (
        "create role sent login replication",
        {"connection": {"user": "sent"}},
        "let the owner of the table run",
    ),
]


@pytest.mark.parametrize(("statement", "properties", "what"), REFUSED)
def test_a_server_that_does_not_fit_is_refused(
    dsn: str, statement: str, properties: dict[str, Any], what: str, tmp_path: Path
) -> None:
    execute(dsn, statement)
    if properties.get("slot") == "taken":
        execute(dsn, "select pg_create_logical_replication_slot('taken', 'pgoutput')")
    try:
        with pytest.raises(RidgelineError, match=what):
            run_local(application(dsn, until="end", **properties), checkpoint=tmp_path)
    finally:
        execute(dsn, "drop role if exists reader", "drop role if exists sent")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("select pg_drop_replication_slot(slot_name) from pg_replication_slots", "is gone, with the changes"),
        (
            "select pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) from pg_replication_slots",
            "the changes between are gone",
        ),
    ],
)
def test_a_slot_that_has_lost_changes_is_refused(dsn: str, statement: str, what: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (1, 'CH', 1, false)")
    snapshot(dsn, tmp_path)
    execute(dsn, "insert into customers values (2, 'CH', 1, false)", statement)
    with pytest.raises(RidgelineError, match=what):
        run_local(application(dsn, until="end"), checkpoint=tmp_path)


class Large(NamedTuple):
    id: int
    country: str | None
    cents: float | None
    deleted: bool


def test_large_values_that_an_update_does_not_change(dsn: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (1, 'x', 1, false)")
    found = snapshot(dsn, tmp_path, schema=Large)
    text = "".join(Random(1).choices("abcdefghijklmnop", k=50_000))
    execute(
        dsn,
        f"update customers set country = '{text}'",
        "update customers set cents = 2",
        "alter table customers replica identity full",
        "update customers set cents = 3",
        "delete from customers",
    )
    with pytest.raises(RidgelineError, match=r"`country` was not changed.*replica identity full"):
        collected(application(dsn, schema=Large, until="end"), tmp_path)
    app = Application("shop", window="10ms")
    changes = PostgresChanges("customers", dsn=dsn, schema=Large, until="end")
    app.read("customers", changes, on_error="SKIP").write("sink", CollectorSink(Large))
    found += collected(app, tmp_path)
    wanted = [("x", 1.0), (text, 1.0), (text, 3.0), (text, 3.0)]
    assert [(one.country, one.cents) for one in found] == wanted
    assert [one.deleted for one in found] == [False, False, False, True]


class Narrow(NamedTuple):
    id: int
    blocked: bool
    deleted: bool


def test_columns_that_change(dsn: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (1, 'CH', 1, false)")
    found = snapshot(dsn, tmp_path)
    execute(
        dsn,
        "insert into customers values (2, 'CH', 1, false)",
        "alter table customers add column more text default 'x'",
        "insert into customers values (3, 'CH', 1, true, 'y')",
        "alter table customers drop column country",
        "insert into customers values (4, 1, true, 'z')",
    )
    with pytest.raises(RidgelineError, match="no column `country` there"):
        run_local(application(dsn), checkpoint=tmp_path, clock=SystemClock(), windows=200)
    rest = collected(application(dsn, schema=Narrow, until="end"), tmp_path)
    assert [one.id for one in found] == [1]
    assert [(one.id, one.blocked) for one in rest] == [(4, True)]  # 2 and 3 were processed before


def test_a_table_that_is_made_again_while_it_is_read_is_refused(dsn: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (1, 'CH', 1, false)")
    snapshot(dsn, tmp_path)
    making = threading.Timer(0.5, execute, (dsn, "drop table customers, others", MADE))
    making.start()
    with pytest.raises(RidgelineError, match="was dropped or made again"):
        run_local(application(dsn), checkpoint=tmp_path, clock=SystemClock(), windows=2000)
    making.join()


@pytest.mark.parametrize("until", [None, "end"])
def test_a_table_that_is_made_again_between_two_runs_is_refused(
    dsn: str, until: str | None, tmp_path: Path
) -> None:
    execute(dsn, "create publication mine for all tables", "insert into customers values (1, 'CH', 1, false)")
    snapshot(dsn, tmp_path, publication="mine")
    add = "insert into customers values (2, 'CH', 1, false)"
    execute(dsn, add, "drop table customers, others", MADE, add)
    if until is None:  # what was committed before is processed: row 2 of the first table
        assert [one.op for one in snapshot(dsn, tmp_path, publication="mine")] == ["insert"]
    app = application(dsn, publication="mine", until=until)
    with pytest.raises(RidgelineError, match="was dropped or made again"):
        run_local(app, checkpoint=tmp_path, clock=SystemClock(), windows=None if until else 2000)


def test_an_idle_table_does_not_hold_the_log(dsn: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (1, 'CH', 1, false)")
    snapshot(dsn, tmp_path)
    execute(dsn, "insert into others select n, repeat('x', 1000) from generate_series(1, 25000) n")
    (end,) = fetch(dsn, "select pg_current_wal_lsn()")[0]
    assert collected(application(dsn), tmp_path, windows=200) == []
    behind = fetch(dsn, f"select '{end}'::pg_lsn - confirmed_flush_lsn from pg_replication_slots")[0][0]
    assert behind < 2**20


def test_deletions_reach_a_table_of_a_stream(dsn: str) -> None:
    execute(dsn, "insert into customers values (1, 'CH', 1, false), (2, 'NO', 1, true)")
    app = Application("shop", window="10ms")
    customers = app.read("customers", PostgresChanges("customers", dsn=dsn, schema=Customer, until="end"))
    changes = customers.filter("known", "id < 9").table("by_id", key="id").changes
    changes.write("sink", CollectorSink())
    rows = collected(app)
    found = [(row["id"], row["country"], row["deleted"]) for row in rows]
    assert found == [(1, "CH", False), (2, "NO", False)]
    assert fetch(dsn, "select * from pg_replication_slots where database = current_database()") == []
    assert fetch(dsn, "select * from pg_publication") == []


class Everything(NamedTuple):
    id: int
    small: float | None
    text: str | None
    yes: bool | None
    data: bytes | None
    price: Decimal | None
    day: dt.date | None
    at: dt.datetime | None
    took: dt.timedelta | None
    clock: dt.time | None
    parts: list[int | None] | None
    about: dict[str, int] | None
    number: str | None
    deleted: bool


HOSTILE: list[tuple[Any, ...]] = [
    (1.5, "plain", True, b"\x00\xff", Decimal("1.25"), dt.date(2026, 1, 1), *[None] * 3, [1, None], None),
    (math.inf, 'a "b", \\N \\. ;\n\r\t', False, b"", Decimal(0), None, AT, None, None, [], {"a": 1}),
    (-math.inf, "", None, None, None, None, AT, -DAY, dt.time(23, 59, 59, 1), None, {}),
    (5e-324, "Zürich 🌊 \x01", None, None, Decimal("-0.00001"), None, None, None, None, None, None),
    (None, "\\.", None, None, None, dt.date(1, 1, 1), None, 3 * DAY, dt.time(0), [2**31 - 1], {"é": -1}),
    (None,) * 11,
]


def test_values_are_those_of_the_table(dsn: str, tmp_path: Path) -> None:
    execute(
        dsn,
        """create table every (id int primary key, small float8, text text, yes bool, data bytea,
        price numeric, day date, at timestamptz, took interval, clock time, parts int[], about jsonb,
        number numeric)""",
    )

    def write(first: int) -> None:
        with psycopg.connect(dsn) as connection:
            for number, row in enumerate(HOSTILE):
                values = [
                    Jsonb(value) if isinstance(value, dict) else value for value in (first + number, *row)
                ]
                holders = ", ".join(["%s"] * len(values))
                connection.execute(f"insert into every values ({holders}, 'NaN')", values)

    def read(**options: Any) -> list[Any]:
        app = Application("shop", window="10ms")
        changes = PostgresChanges("every", dsn=dsn, schema=Everything, **options)
        app.read("every", changes).write("sink", CollectorSink(Everything))
        return collected(app, tmp_path, **({} if options else {"windows": 10}))

    write(0)
    found: list[Any] = []
    while not found:
        found += read()
    write(10)
    execute(dsn, "delete from every where id = 10")
    found += read(until="end")
    assert [row[1:12] for row in found] == [*HOSTILE, *HOSTILE, (None,) * 11]
    assert [row.number for row in found] == ["NaN"] * 2 * len(HOSTILE) + [None]
    assert found[-1].deleted


def test_a_slot_that_another_run_reads_is_waited_for(dsn: str, tmp_path: Path) -> None:
    execute(dsn, "insert into customers values (1, 'CH', 1, false)")
    snapshot(dsn, tmp_path)
    texts: list[str] = []
    with psycopg.connect(dsn, autocommit=True, replication="database") as other:
        (slot,) = fetch(dsn, "select slot_name from pg_replication_slots")[0]
        publication = fetch(dsn, "select pubname from pg_publication")[0][0]
        options = f"(proto_version '1', publication_names '{publication}')"
        other.execute(f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 {options}')  # type: ignore[call-overload,unused-ignore]
        run = run_local(application(dsn), checkpoint=tmp_path, windows=100, clock=SystemClock())
        texts += [event.text for event in run.events if hasattr(event, "text")]
        other.pgconn.finish()
    assert any("is used by another run" in text and "PID" in text for text in texts), texts
    execute(dsn, "insert into customers values (2, 'CH', 1, false)")
    assert [one.id for one in collected(application(dsn, until="end"), tmp_path)] == [2]


def test_a_server_without_logical_replication_is_refused() -> None:
    with services.postgres(settings={"wal_level": "replica"}) as server:
        server.execute("create table customers (id int primary key)")
        with pytest.raises(RidgelineError, match="has `wal_level = replica`; set `wal_level = logical`"):
            run_local(application(server.dsn, until="end"))


def test_a_slot_that_the_server_gave_up_says_what_to_do(tmp_path: Path) -> None:
    with services.postgres(settings={"max_slot_wal_keep_size": "1MB"}) as server:
        server.execute(MADE)
        server.execute("insert into customers values (1, 'CH', 1, false)")
        snapshot(server.dsn, tmp_path)
        for _ in range(3):
            server.execute("insert into others select n, repeat('x', 900) from generate_series(1, 20000) n")
            server.execute("truncate others")
            server.execute("select pg_switch_wal()")
        server.execute("checkpoint")
        with pytest.raises(RidgelineError, match=r"is lost: .*pg_drop_replication_slot"):
            run_local(application(server.dsn, until="end"), checkpoint=tmp_path)


def test_changes_without_a_snapshot(dsn: str, tmp_path: Path) -> None:
    execute(
        dsn,
        "insert into customers select n, 'CH', 1, false from generate_series(1, 5) n",
        "create publication mine for all tables",
        "select pg_create_logical_replication_slot('mine', 'pgoutput')",
        "update customers set country = 'NO' where id = 2",
    )
    properties: dict[str, Any] = {"begin": "latest", "slot": "mine", "publication": "mine"}
    found = snapshot(dsn, tmp_path, **properties)
    execute(dsn, "truncate customers", "insert into customers values (9, 'CH', 1, false)")
    with pytest.raises(RidgelineError, match="was truncated, and the log does not say which rows it had"):
        collected(application(dsn, until="end", **properties), tmp_path)
    found += collected(application(dsn, until="end", truncate="skip", **properties), tmp_path)
    assert [(one.op, one.id) for one in found] == [("update", 2), ("insert", 9)]


def test_partitions_are_read_as_one_table_and_inheriting_tables_are_not(dsn: str, tmp_path: Path) -> None:
    execute(
        dsn,
        "drop table customers",
        "create table customers (id int primary key, country text, blocked bool) partition by range (id)",
        "create table low partition of customers for values from (0) to (10)",
        "create table high partition of customers for values from (10) to (20)",
        "insert into customers values (1, 'CH', true), (11, 'NO', true)",
    )
    found = snapshot(dsn, tmp_path)
    execute(dsn, "update customers set id = 12 where id = 1", "delete from customers where id = 11")
    found += collected(application(dsn, until="end"), tmp_path)
    wanted = [("snapshot", 1), ("snapshot", 11), ("delete", 1), ("insert", 12), ("delete", 11)]
    assert [(one.op, one.id) for one in found] == wanted
    execute(
        dsn,
        "drop table customers",
        "create table customers (id int primary key, country text, blocked bool)",
        "create table heirs (primary key (id)) inherits (customers)",
        "insert into customers values (1, 'CH', true)",
        "insert into heirs values (2, 'NO', true)",
    )
    changes = collected(application(dsn, until="end"))
    assert [one.id for one in changes] == [1]
