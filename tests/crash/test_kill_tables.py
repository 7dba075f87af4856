"""Kill the driver, slots and the server at random: each row is in tables of PostgreSQL and of a lake once."""

from collections import Counter

import polars as pl
import psycopg
import pytest
from pyiceberg.catalog import load_catalog

from support.crash.killing import kill_in_turn
from support.crash.processes import options
from support.depth import deep
from support.paths import SUPPORT
from support.services.fixtures import postgres

__all__ = ["postgres"]

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

A_WINDOW, KEYS = 50, 16


@pytest.fixture
def killed(start, tmp_path, chance):
    """`killed(file, windows, kills, ways, ...)`: run an application to its end; how often it was killed."""

    def run(file, windows, kills, ways, **given):
        def begin():
            places = options(checkpoint=tmp_path / "checkpoint", master="local[2]", **given)
            return start(SUPPORT / "crash" / file, *places, "-D", f"rows.windows={windows}", "--quiet")

        driver, found = kill_in_turn(begin, tmp_path / "checkpoint", chance, kills, ways)
        assert driver.wait() == 0, driver.text
        return found

    return run


def expected(windows):
    """All rows, and the last one of each key."""
    rows = [(number % KEYS, number // KEYS) for number in range(windows * A_WINDOW)]
    return Counter(rows), dict(rows)


@pytest.mark.guide("002", "Exactly Once")
@pytest.mark.parametrize("partitions", [1, 3])
def test_driver_slots_and_server_killed(killed, postgres, partitions):
    dsn = postgres.database()

    def kill_server():
        postgres.kill()
        postgres.restart()

    ways = {"server": kill_server, "slot": None, "driver": None}
    assert killed("to_postgres.py", 400, deep(3), ways, dsn=dsn, partitions=partitions)["server"] > 0
    with psycopg.connect(dsn) as connection:
        every = Counter(connection.execute("select key, number from every").fetchall())
        last = dict(connection.execute("select key, number from last").fetchall())
    assert (every, last) == expected(400)


@pytest.mark.parametrize(("partitions", "kills"), [(1, deep(1)), (3, deep(3))])
def test_driver_and_slots_that_write_to_a_lake_killed(killed, tmp_path, partitions, kills):
    folder = tmp_path / "lake"
    folder.mkdir()
    killed("to_lake.py", 300, kills, {"driver": None, "slot": None}, folder=folder, partitions=partitions)
    every = Counter(pl.read_delta(str(folder / "every")).select("key", "number").rows())
    last = dict(pl.read_delta(str(folder / "last")).select("key", "number").rows())
    assert (every, last) == expected(300)
    ice = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    with load_catalog("shop", **ice) as catalog:
        iced = catalog.load_table("shop.every").scan().to_arrow()
    assert Counter(pl.DataFrame(iced).select("key", "number").rows()) == every
