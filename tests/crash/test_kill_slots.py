"""Kill slots at random moments, over and over in one run: nothing is lost, and nothing is there twice."""

import time

import pytest

from ridgeline.cli.load import load_application
from support.crash.in_slots import InSlots
from support.crash.processes import committed
from support.crash.rows import Reader, check_published
from support.depth import deep
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(20)
APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = {"numbers.windows": "1000000", "sums.pause_seconds": "0.02", "store.roll_seconds": "0.3"}
OFTEN = {f"{operator}.recovery_attempts": "1000" for operator in ("numbers", "sums", "store")}


@pytest.mark.guide("002", "Exactly Once")
def test_slots_killed_over_and_over(spark_context, tmp_path, chance):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    slots = InSlots()
    reader = Reader(output, checkpoint)
    reader.start()

    def goes_on():
        before = committed(checkpoint)
        slots.wait(lambda: committed(checkpoint) > before, "a window")

    app = load_application(str(APPLICATION), ["--output", str(output)])
    with slots.running(app, spark_context, checkpoint, properties=PROPERTIES, attributes=OFTEN):
        slots.wait(lambda: committed(checkpoint) > 0, "the first windows")
        kills = 0
        while kills < KILLS:
            if chance.random() < 0.6:  # else while it comes back, or takes states in
                goes_on()
            time.sleep(chance.uniform(0.0, 0.06))
            wanted = slots.joins
            killed = slots.kill({0, 1} if chance.random() < 0.15 else {chance.randrange(2)})
            kills, wanted = kills + killed, wanted + killed
            slots.wait(lambda wanted=wanted: slots.joins == wanted, "the slots to be back")
        goes_on()
    reader.finish()

    windows = committed(checkpoint) + 1
    print(f"{kills} kills in {windows} windows, {len(slots.result.retries)} attempts that did not count")
    assert slots.result.ids == list(range(windows))
    assert slots.lost == kills
    check_published(output, windows, APPLICATION, tmp_path)
