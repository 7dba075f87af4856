"""Changes of a table of PostgreSQL, beside a bare reader of such a slot: `postgres-changes`.

Both read the same transactions: inserts, updates and deletions, 100 changes each, in process. The bare reader
takes frames in a loop of psycopg, and reads of each message the kind alone. Ours decodes values, stages them,
commits windows, and confirms. `cpu seconds` are those of the process, the server's not among them.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from benchmarks.frame import Benchmark, Figures, Goal, Round
from ridgeline import Application, InputPort, Operator, State
from ridgeline.api.clock import SystemClock

RATE, CPU_RATE = "changes/s", "changes per cpu second/s"
_CHANGES, _A_TRANSACTION = 300_000, 100
_TABLE = "create table items (id bigint primary key, text text, price float8, yes bool, at timestamptz)"
_INSERT = (
    "insert into items select n, 'item ' || n, n / 7.0, n % 2 = 0, now() from generate_series({0}, {1}) n"
)


class Item(NamedTuple):
    id: int
    text: str | None
    price: float | None
    yes: bool | None


@contextmanager
def server() -> Iterator[Any]:
    """A server with the table."""
    from ridgeline.testing import services

    with services.postgres(settings={"fsync": "off", "max_wal_size": "8GB"}) as postgres:
        postgres.execute(_TABLE)
        yield postgres


def _write(dsn: str, count: int) -> None:
    """Two inserts to one update and one deletion, in transactions of 100 changes."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        half, quarter = _A_TRANSACTION // 2, _A_TRANSACTION // 4
        for number in range(count // _A_TRANSACTION):
            first = number * half
            connection.execute(_INSERT.format(first, first + half - 1))
            change = "update items set price = price + 1 where id between {} and {}"
            connection.execute(change.format(first, first + quarter - 1))
            delete = "delete from items where id between {} and {}"
            connection.execute(delete.format(first + quarter, first + 2 * quarter - 1))
            connection.commit()


class Count(Operator):
    """Counts rows."""

    rows = InputPort(Any)
    counted = State(0, moves="sum")

    @rows.process_batch
    def take(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.counted += batch.num_rows


def ours(of_round: Round, *, truncate: str = "delete") -> Figures:
    """A run that makes the slot, then one that reads all changes to their end."""
    from ridgeline.connectors.postgres import PostgresChanges
    from ridgeline.testing import run_local

    count = 20_000 if of_round.quick else _CHANGES

    def application(dsn: str, **properties: Any) -> Application:
        app = Application("items", window="50ms")
        changes = PostgresChanges("items", dsn=dsn, schema=Item, truncate=truncate, **properties)
        app.read("items", changes).write("count", Count())
        return app

    with server() as postgres:
        dsn = postgres.dsn
        folder = str(of_round.folder / "checkpoint")
        while postgres.execute("select count(*) from pg_replication_slots") == "0":
            run_local(application(dsn), checkpoint=folder, windows=40, clock=SystemClock())
        _write(dsn, count)
        began, used = time.perf_counter(), time.process_time()
        run = run_local(application(dsn, until="end"), checkpoint=folder, clock=SystemClock())
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        found = run.tuples_out("items")
    if found != count:
        raise ValueError(f"{count} changes were written; got {found}")
    return {RATE: [count / seconds], CPU_RATE: [count / cpu]}


def bare(of_round: Round) -> Figures:
    """A loop of psycopg over a slot, which looks at the kind of each message only."""
    import psycopg

    count, found = 20_000 if of_round.quick else _CHANGES, 0
    with server() as postgres:
        postgres.execute("create publication items for table items")
        postgres.execute("select pg_create_logical_replication_slot('bare', 'pgoutput')")
        _write(postgres.dsn, count)
        began, used = time.perf_counter(), time.process_time()
        with closing(psycopg.connect(postgres.dsn, autocommit=True, replication="database")) as connection:
            connection.execute(
                "START_REPLICATION SLOT bare LOGICAL 0/0 (proto_version '1', publication_names 'items')"
            )
            link = connection.pgconn
            while found < count:
                size, frame = link.get_copy_data(1)
                if size == 0:
                    select.select([link.socket], [], [], 1.0)
                    link.consume_input()
                elif frame[:1] == b"w" and frame[25:26] in (b"I", b"U", b"D"):
                    found += 1
            seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return {RATE: [count / seconds], CPU_RATE: [count / cpu]}


BENCHMARKS = (
    Benchmark(
        name="postgres-changes",
        title="postgres-changes: 300,000 changes of a table, beside a bare reader of a slot",
        contestants={"ours": ours, "ours, without keys": partial(ours, truncate="skip"), "bare reader": bare},
        goals=[
            Goal(figure=CPU_RATE, at_least=20_000),
            Goal(figure=CPU_RATE, of="ours, without keys", at_least=20_000),
        ],
        rounds=2,
        budget_seconds=300,
        part_of_all=False,
    ),
)
