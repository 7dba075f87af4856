"""Kill the driver, slots and the PostgreSQL server at random: each row is in the table once."""

import random
from collections import Counter

import psycopg
import pytest

from ridgeline.testing.services.fixtures import postgres
from support.crash.killing import kill_in_turn
from support.depth import deep
from support.paths import SUPPORT

__all__ = ["postgres"]

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = {1: deep(3), 3: deep(3)}
"""By the number of partitions."""
WINDOWS, A_WINDOW, KEYS = 400, 50, 16
ROWS = WINDOWS * A_WINDOW


@pytest.mark.guide("002", "Exactly Once")
@pytest.mark.parametrize("partitions", KILLS)
def test_driver_slots_and_server_killed(start, wait_until, tmp_path, postgres, partitions):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    dsn = postgres.database()

    def begin():
        return start(
            SUPPORT / "crash" / "to_postgres.py",
            *("--dsn", dsn, "--partitions", str(partitions), "-D", f"rows.windows={WINDOWS}"),
            *("--checkpoint", tmp_path / "checkpoint", "--master", "local[2]", "--quiet"),
        )

    def kill_server():
        postgres.kill()
        postgres.restart()

    ways = {"server": kill_server, "slot": None, "driver": None}
    driver, killed = kill_in_turn(begin, tmp_path / "checkpoint", chance, KILLS[partitions], ways)
    assert driver.wait() == 0, driver.text
    assert killed["server"] > 0
    with psycopg.connect(dsn) as connection:
        every = Counter(connection.execute("select key, number from every").fetchall())
        last = dict(connection.execute("select key, number from last").fetchall())
    assert every == Counter((number % KEYS, number // KEYS) for number in range(ROWS))
    assert last == {number % KEYS: number // KEYS for number in range(ROWS)}
