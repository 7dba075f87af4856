"""Kill the driver and slots at random: each row is in the tables of a lake once."""

import random
from collections import Counter

import polars as pl
import pytest
from pyiceberg.catalog import load_catalog

from support.crash.killing import kill_in_turn
from support.depth import deep
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = {1: deep(1), 3: deep(3)}
"""By the number of partitions."""
WINDOWS, A_WINDOW, KEYS = 300, 50, 16
ROWS = WINDOWS * A_WINDOW


@pytest.mark.parametrize("partitions", KILLS)
def test_driver_and_slots_killed(start, tmp_path, partitions):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    folder = tmp_path / "lake"
    folder.mkdir()

    def begin():
        return start(
            SUPPORT / "crash" / "to_lake.py",
            *("--folder", str(folder), "--partitions", str(partitions), "-D", f"rows.windows={WINDOWS}"),
            *("--checkpoint", tmp_path / "checkpoint", "--master", "local[2]", "--quiet"),
        )

    ways = {"driver": None, "slot": None}
    driver, _ = kill_in_turn(begin, tmp_path / "checkpoint", chance, KILLS[partitions], ways)
    assert driver.wait() == 0, driver.text
    expected = Counter((number % KEYS, number // KEYS) for number in range(ROWS))
    assert Counter(pl.read_delta(str(folder / "every")).select("key", "number").rows()) == expected
    ice = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    with load_catalog("shop", **ice) as catalog:
        iced = catalog.load_table("shop.every").scan().to_arrow()
    assert Counter(pl.DataFrame(iced).select("key", "number").rows()) == expected
    last = dict(pl.read_delta(str(folder / "last")).select("key", "number").rows())
    assert last == {number % KEYS: number // KEYS for number in range(ROWS)}
