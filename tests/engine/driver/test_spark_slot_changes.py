"""Changes of the plan on real Spark."""

import os
import signal

import pytest

from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.measure.events import SlotJoined, SlotLost
from ridgeline.plan.edits import AddOperator, AddSink, RemoveOperator, Repartition
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import EditPlan
from support.engine.decided import APPLIED, UntilDecided, assert_nothing_lost, states
from support.engine.on_spark import run_on_spark
from support.engine.staying import staying
from support.service.live import application

pytestmark = pytest.mark.spark


@pytest.fixture
def run(spark_context, tmp_path):
    """`run(app, *changes, **options)`: each change is asked for once the one before is decided."""

    def run(app, *changes, each=None, **options):
        left = [EditPlan(edits) for edits in changes]

        def ask(found, event):
            if not hasattr(found, "asked"):
                found.asked = []
            if left and event.window_id > 3 and all(asked.done.is_set() for asked in found.asked):
                found.asked.append(found.run.changes.ask(left.pop(0), "test"))
            if each is not None:
                each(found, event)

        until = UntilDecided(len(changes), ask)
        planner = Planner(
            lambda values, kept, edits: plan_application(app, values, {}, kept=kept, edits=edits), {}
        )
        found = run_on_spark(
            app,
            spark_context,
            tmp_path / "checkpoint",
            each=until,
            stop=until.stop,
            planner=planner,
            **options,
        )
        assert_nothing_lost(found)
        return found

    return run


@pytest.mark.slow
def test_what_20_changes_do_not_touch_keeps_process_instance_and_connection(run, tmp_path):
    """There are four places: new slots come, then Spark has no more cores and containers share them."""
    folder = tmp_path / "notes"
    folder.mkdir()
    changes = [[Repartition("sums", 1 + number % 5)] for number in range(1, 21)]
    found = run(staying(folder), *map(tuple, changes))
    assert states(found) == [APPLIED] * 20
    assert not found.of_type(SlotLost)
    assert not found.retries
    assert len(list(folder.glob("setup-*"))) == len(list(folder.glob("teardown-*"))) == 1
    assert len(list(folder.glob("lives-*"))) == 1


def test_partitions_and_operators_come_and_go(run):
    audit = AddOperator("audit", {"class": "support.service.live.Audit"})
    found = run(
        application(),
        (Repartition("sums", 3),),
        (audit, AddSink("numbers", "audit.input"), Repartition("sums", 2)),
        (RemoveOperator("audit"), Repartition("sums", 5)),
        (Repartition("sums", 1),),
    )
    assert states(found) == [APPLIED] * 4
    assert not found.retries


def test_a_slot_that_dies_around_changes(run):
    killed = []

    def each(found, event):
        if found.asked and len(killed) < len(found.asked):
            pids = {joined.slot: joined.pid for joined in found.of_type(SlotJoined)}
            slot = len(killed) % 2
            killed.append(pids[slot])
            os.kill(pids[slot], signal.SIGKILL)

    found = run(application(), *[(Repartition("sums", count),) for count in (3, 2, 4)], each=each)
    assert states(found) == [APPLIED] * 3
    assert len(found.of_type(SlotLost)) >= 1
