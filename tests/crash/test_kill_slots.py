"""Kill slots at random moments, over and over in one run: nothing is lost, and nothing is there twice."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ridgeline.cli.load import load_application
from ridgeline.measure.events import SlotJoined, SlotLost
from support.crash.processes import committed
from support.crash.rows import Reader, check_published
from support.depth import deep
from support.engine.on_spark import run_on_spark
from support.paths import SUPPORT

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]

KILLS = deep(20)
APPLICATION = SUPPORT / "crash" / "numbers.py"
PROPERTIES = {"sums.pause_seconds": "0.02", "store.roll_seconds": "0.3"}
OFTEN = {f"{operator}.recovery_attempts": "1000" for operator in ("numbers", "sums", "store")}


class Slots:
    """The processes that are slots of a run in another thread, as its events say."""

    def __init__(self):
        self.pids = {}
        self.joins = 0
        self.lost = 0

    def see(self, _run, event):
        if isinstance(event, SlotJoined):
            self.pids = self.pids | {event.slot: event.pid}
            self.joins += 1
        elif isinstance(event, SlotLost):
            self.lost += 1

    def kill(self, chosen):
        """Kill some of them; how many that were."""
        pids = [pid for slot, pid in self.pids.items() if slot in chosen]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)


@pytest.mark.guide("002", "Exactly Once")
def test_slots_killed_over_and_over(spark_context, wait_until, tmp_path, chance):
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    slots, stop = Slots(), threading.Event()
    reader = Reader(output, checkpoint)
    reader.start()
    with ThreadPoolExecutor(1) as thread:
        endless = {**PROPERTIES, "numbers.windows": "1000000"}
        running = thread.submit(
            run_on_spark,
            load_application(str(APPLICATION), ["--output", str(output)]),
            spark_context,
            checkpoint,
            seen=slots.see,
            stop=stop,
            properties=endless,
            attributes=OFTEN,
        )

        def wait(condition, what):
            wait_until(lambda: condition() or running.done(), what)
            assert not running.done(), running.result()

        try:
            wait(lambda: committed(checkpoint) > 0, "the first windows")
            kills = 0
            while kills < KILLS:
                if chance.random() < 0.6:  # else while it comes back, or takes states in
                    before = committed(checkpoint)
                    wait(lambda before=before: committed(checkpoint) > before, "a window")
                time.sleep(chance.uniform(0.0, 0.06))
                joins = slots.joins
                killed = slots.kill({0, 1} if chance.random() < 0.15 else {chance.randrange(2)})
                kills += killed
                wait(lambda killed=killed, joins=joins: slots.joins == joins + killed, "the slots to be back")
            last = committed(checkpoint)
            wait(lambda: committed(checkpoint) > last, "a window after all")
        finally:
            stop.set()
        run = running.result()
    reader.finish()

    windows = committed(checkpoint) + 1
    print(f"{kills} kills in {windows} windows, {len(run.retries)} attempts that did not count")
    assert run.ids == list(range(windows))
    assert slots.lost == kills
    check_published(output, windows, APPLICATION, tmp_path)
