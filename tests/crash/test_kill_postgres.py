"""Kill the driver, slots and the PostgreSQL server at random: each row is in the table once."""

import os
import random
import signal
import time
from collections import Counter

import psycopg
import pytest

from ridgeline.testing.services.fixtures import postgres
from support.crash.processes import committed, slots_of
from support.paths import SUPPORT

__all__ = ["postgres"]

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = 9
WINDOWS, A_WINDOW, KEYS = 600, 50, 16
ROWS = WINDOWS * A_WINDOW


@pytest.mark.guide("002", "Exactly Once")
@pytest.mark.parametrize("partitions", [1, 3])
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

    driver = begin()
    wait_until(lambda: committed(tmp_path / "checkpoint") >= 0, "the first window")
    killed = Counter()
    for kill in range(KILLS):
        before = committed(tmp_path / "checkpoint")
        wait_until(
            lambda driver=driver, before=before: (
                committed(tmp_path / "checkpoint") > before + 2 or driver.exit_code is not None
            ),
            "windows",
        )
        if driver.exit_code is not None:
            break
        moment = time.monotonic() + chance.uniform(0.0, 0.3)
        wait_until(lambda moment=moment: time.monotonic() > moment, "the moment", every=0.001)
        what = ("server", "slot", "driver")[kill % 3]
        killed[what] += 1
        if what == "server":
            postgres.kill()
            postgres.restart()
        elif what == "slot" and (slots := slots_of(driver)):
            os.kill(chance.choice(slots), signal.SIGKILL)
        else:
            driver.kill()
            driver = begin()
    print(f"killed: {killed}")
    assert driver.wait() == 0, driver.text
    assert killed["server"] > 0
    with psycopg.connect(dsn) as connection:
        every = Counter(connection.execute("select key, number from every").fetchall())
        last = dict(connection.execute("select key, number from last").fetchall())
    assert every == Counter((number % KEYS, number // KEYS) for number in range(ROWS))
    assert last == {number % KEYS: number // KEYS for number in range(ROWS)}
