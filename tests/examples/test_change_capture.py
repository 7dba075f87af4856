"""The example of change capture: the lake has the table of PostgreSQL, though the driver was killed."""

import random
from contextlib import contextmanager

import psycopg
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from support.crash.processes import Driver
from support.paths import ROOT
from support.services.fixtures import postgres
from support.waiting import wait_until

__all__ = ["postgres"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def change(dsn, chance, transactions):
    """Random transactions: inserts, updates of values and of keys, deletions."""
    upsert = "insert into customers values (%s, %s, %s) on conflict (id) do update set cents = excluded.cents"
    move = "update customers set id = %s where id = (select max(id) from customers where id < %s)"
    with psycopg.connect(dsn) as connection:
        for number in range(transactions):
            for _ in range(chance.randrange(1, 20)):
                key = chance.randrange(100)
                if chance.random() < 0.2:
                    connection.execute("delete from customers where id = %s", (key,))
                elif chance.random() < 0.1:
                    connection.execute(move, (1000 + chance.randrange(10**9), key))
                else:
                    cents = chance.choice([None, chance.randrange(10**6)])
                    connection.execute(upsert, (key, f"müller {number}", cents))
            connection.commit()


def test_the_lake_follows_the_table(postgres, tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, dsn, lake = random.Random(seed), postgres.database(), tmp_path / "customers"
    with psycopg.connect(dsn) as connection:
        connection.execute("create table customers (id bigint primary key, name text not null, cents bigint)")
        connection.execute("insert into customers select n, 'first', n from generate_series(0, 49) n")

    @contextmanager
    def running(*more):
        where = ("--table", str(lake), "--checkpoint", tmp_path / "checkpoint", "--master", "local[2]")
        example = ROOT / "examples" / "change_capture.py"
        made = Driver([example, *where, "--quiet", *more], tmp_path / "run.log", SALES_DSN=dsn)
        try:
            yield made
        finally:
            made.clean()

    def version():
        assert driver.exit_code is None, driver.text
        try:
            return DeltaTable(lake).version()
        except TableNotFoundError:
            return 0

    with running() as driver:
        wait_until(lambda: version() > 0, "the snapshot")
        before = version()
        change(dsn, chance, 60)
        wait_until(lambda: version() > before, "the first changes")
        change(dsn, chance, 60)
        driver.kill()
    change(dsn, chance, 60)
    with running("--until", "end") as driver:
        assert driver.wait() == 0, driver.text
    with psycopg.connect(dsn) as connection:
        wanted = connection.execute("select id, name, cents from customers").fetchall()
    found = DeltaTable(lake).to_pyarrow_table().to_pylist()
    assert sorted(tuple(row.values()) for row in found) == sorted(wanted)
    assert len(wanted) > 10
