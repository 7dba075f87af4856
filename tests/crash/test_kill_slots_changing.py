"""Kill slots at random moments around changes of the plan: each is there as a whole, and nothing is lost."""

import time

import pytest

from ridgeline.measure.events import WindowCommitted
from ridgeline.stram.changes import EditPlan
from ridgeline.testing.sinks import collected
from support.crash.in_slots import InSlots
from support.depth import deep
from support.engine.on_spark import planner_of
from support.testing.edited import RandomEdits, application, by_hand, unlike

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.slow]


class Watched(InSlots):
    """Beside slots: the last window, the run that changes are asked of, the collectors of all plans."""

    def __init__(self):
        super().__init__()
        self.last, self.run, self.collectors = -1, None, {}

    def see(self, run, event):
        super().see(run, event)
        if isinstance(event, WindowCommitted):
            self.last = event.window_id
        if run.run is not None:
            self.run = run.run
            self.collectors |= run.run.publishers

    def kill_one(self, chance):
        return self.kill({chance.choice(sorted(self.pids))}) if self.pids else 0


@pytest.mark.parametrize(("changes", "killed"), [(deep(15), 0.0), (deep(15), 0.7)])
def test_changes_with_slots_killed_around_them(spark_context, tmp_path, chance, changes, killed):
    edits, watched, made, kills = RandomEdits(chance.randrange(2**32)), Watched(), {}, 0
    app = application(1_000_000, partitions=2, recovery_attempts=1000)
    with watched.running(app, spark_context, tmp_path / "checkpoint", planner=planner_of(app)):
        watched.wait(lambda: watched.last > 0, "the first windows")
        for number in range(changes):
            change = tuple(edits.change())
            before = chance.random() < 0.5
            kill = chance.random() < killed
            if kill and before:
                kills += watched.kill_one(chance)
            asked = watched.run.changes.ask(EditPlan(change), "test")
            if kill and not before:
                time.sleep(chance.uniform(0.0, 0.15))
                kills += watched.kill_one(chance)
            watched.wait(asked.done.is_set, f"change {number}: {change}")
            assert (asked.state, asked.reason) == ("APPLIED", ""), change
            made.setdefault(asked.window, []).append(change)
        last = watched.last
        watched.wait(lambda: watched.last > last, "a window after all")
    windows = watched.result.ids[-1] + 1
    print(f"{changes} changes, {kills} kills, {windows} windows, {edits.made}")
    assert watched.result.ids == list(range(windows))
    assert watched.lost >= kills / 2
    expected = by_hand(windows, made, finished=False)
    assert unlike(expected, windows, lambda *of: collected(watched.collectors, *of)) == []
