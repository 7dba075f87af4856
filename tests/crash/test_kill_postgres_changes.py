"""Kill the driver, slots and the PostgreSQL server at random: each change of a table is read once."""

import json
import os
import random
import signal
import threading
from collections import Counter

import psycopg
import pytest

from support.crash.processes import slots_of
from support.depth import deep
from support.paths import SUPPORT
from support.services.fixtures import postgres

__all__ = ["postgres"]

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(3)
KEYS = 50


def write(dsn, seed, transactions):
    """Random transactions: each row gets the next number, or is deleted."""
    chance = random.Random(seed)
    with psycopg.connect(dsn) as connection:
        for _ in range(transactions):
            for _ in range(chance.randrange(1, 9)):
                key = chance.randrange(KEYS)
                if chance.random() < 0.2:
                    connection.execute("delete from items where key = %s", (key,))
                else:
                    connection.execute(
                        "insert into items values (%s, nextval('numbers')) "
                        "on conflict (key) do update set number = excluded.number",
                        (key,),
                    )
            connection.commit()


def check(dsn, found):
    """Each change is there once, and together they lead to the table."""
    with psycopg.connect(dsn) as connection:
        rows = dict(connection.execute("select key, number from items").fetchall())
        texts = connection.execute("select data from pg_logical_slot_peek_changes('kill_oracle', null, null)")
        wanted = sum(data.startswith("table public.items") for (data,) in texts.fetchall())
    assert len(found) == 30 + wanted
    assert len({line["number"] for line in found if not line["deleted"]}) == sum(
        not line["deleted"] for line in found
    )
    latest = {}
    for line in sorted(found, key=lambda line: line["lsn"]):  # stable: files of windows are in order
        if line["deleted"]:
            latest.pop(line["key"], None)
        else:
            latest[line["key"]] = line["number"]
    assert latest == rows


@pytest.mark.guide("002", "Exactly Once")
def test_driver_slots_and_server_killed_while_changes_are_read(start, tmp_path, postgres, chance):
    dsn = postgres.database()
    with psycopg.connect(dsn) as connection:
        connection.execute("create table items (key int primary key, number bigint)")
        connection.execute("create sequence numbers cache 1")
        connection.execute("insert into items select n, nextval('numbers') from generate_series(0, 29) n")
    with psycopg.connect(dsn) as connection:
        connection.execute("select pg_create_logical_replication_slot('kill_oracle', 'test_decoding')")

    def begin(*more):
        return start(
            SUPPORT / "crash" / "from_postgres.py",
            *("--dsn", dsn, "--output", str(tmp_path / "out"), "--partitions", str(chance.choice([1, 2]))),
            *("--checkpoint", tmp_path / "checkpoint", "--master", "local[2]", "--quiet", *more),
        )

    def lines():
        found = []
        for file in (tmp_path / "out").glob("*.jsonl"):
            found += map(json.loads, file.read_text().splitlines())
        return found

    driver = begin()
    driver.until(lambda: len(lines()) >= 30, "the snapshot")
    killed = Counter()
    for kill in range(KILLS):
        write(dsn, chance.random(), 40)
        assert driver.until_windows(tmp_path / "checkpoint", 1), driver.text
        writing = threading.Thread(target=write, args=(dsn, chance.random(), 20))
        if kill % 3:
            writing.start()
        what = ("server", "slot", "driver")[kill % 3]
        killed[what] += 1
        if what == "server":
            postgres.kill()
            postgres.restart()
            writing.start()
        elif what == "slot" and (slots := slots_of(driver)):
            os.kill(chance.choice(slots), signal.SIGKILL)
        else:
            driver.kill()
            driver = begin()
        writing.join()
    print(f"killed: {killed}")
    driver.kill()
    driver = begin("--until", "end")
    assert driver.wait() == 0, driver.text
    check(dsn, lines())
