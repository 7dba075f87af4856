"""Kill slots at random moments around changes of the plan: each is there as a whole, and nothing is lost."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.measure.events import SlotJoined, SlotLost, WindowCommitted
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import EditPlan
from ridgeline.testing.sinks import collected
from support.depth import deep
from support.engine.on_spark import run_on_spark
from support.testing.edited import RandomEdits, application, by_hand, unlike

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]


class Watched:
    """What a run's events say: slots by their processes, and the collectors of all plans."""

    def __init__(self):
        self.pids = {}
        self.lost = 0
        self.last = -1
        self.run = None
        self.collectors = {}

    def see(self, run, event):
        if isinstance(event, SlotJoined):
            self.pids = self.pids | {event.slot: event.pid}
        elif isinstance(event, SlotLost):
            self.lost += 1
            self.pids = {slot: pid for slot, pid in self.pids.items() if slot != event.slot}
        elif isinstance(event, WindowCommitted):
            self.last = event.window_id
        if run.run is not None:
            self.run = run.run
            self.collectors |= run.run.publishers

    def kill(self, chance):
        """Kill a slot; how many that were."""
        if not self.pids:
            return 0
        pid = self.pids[chance.choice(sorted(self.pids))]
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return 0
        return 1


@pytest.mark.parametrize(("changes", "killed"), [(deep(15), 0.0), (deep(15), 0.7)])
def test_changes_with_slots_killed_around_them(spark_context, wait_until, tmp_path, changes, killed):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, edits = random.Random(seed), RandomEdits(seed)
    watched, stop = Watched(), threading.Event()
    app = application(1_000_000, partitions=2, recovery_attempts=1000)
    planner = Planner(
        lambda values, kept, edits: plan_application(app, values, {}, kept=kept, edits=edits), {}
    )
    made, kills = {}, 0
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(
            run_on_spark,
            app,
            spark_context,
            tmp_path / "checkpoint",
            seen=watched.see,
            stop=stop,
            planner=planner,
        )

        def wait(condition, what):
            wait_until(lambda: condition() or running.done(), what)
            assert not running.done(), running.result()

        try:
            wait(lambda: watched.last > 0, "the first windows")
            for number in range(changes):
                change = tuple(edits.change())
                before = chance.random() < 0.5
                kill = chance.random() < killed
                if kill and before:
                    kills += watched.kill(chance)
                asked = watched.run.changes.ask(EditPlan(change), "test")
                if kill and not before:
                    time.sleep(chance.uniform(0.0, 0.15))
                    kills += watched.kill(chance)
                wait(asked.done.is_set, f"change {number}: {change}")
                if (asked.state, asked.reason) == ("REFUSED", "the application has ended"):
                    running.result()
                assert (asked.state, asked.reason) == ("APPLIED", ""), change
                made.setdefault(asked.window, []).append(change)
            last = watched.last
            wait(lambda: watched.last > last, "a window after all")
        finally:
            stop.set()
        run = running.result()
    windows = run.ids[-1] + 1
    print(f"{changes} changes, {kills} kills, {windows} windows, {edits.made}")
    assert run.ids == list(range(windows))
    assert watched.lost >= kills / 2
    expected = by_hand(windows, made, finished=False)
    assert unlike(expected, windows, lambda *of: collected(watched.collectors, *of)) == []
