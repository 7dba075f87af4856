"""Windows in slots of real Spark: same results, one process for each container, and what a loss costs."""

import os
import signal
import threading

import pytest

from ridgeline.measure.events import SlotJoined, SlotLost
from ridgeline.testing import run_local
from support.engine.applications import (
    Sum,
    payments_application,
)
from support.engine.in_slots import DyingSum, NotedSum, notes, two_stages
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


@pytest.fixture
def run_in_slots(spark_context, tmp_path):
    """`run_in_slots(app, **options)`, as `run_on_spark`."""

    def run(app, **options):
        return run_on_spark(app, spark_context, tmp_path / "checkpoint", **options)

    return run


def everything(run, *sinks):
    """All that sinks got, sorted: partitions of one window are in no order."""
    return {name: sorted(run.collected(name)) for name in sinks}


def test_results_are_those_of_the_in_process_runner(run_in_slots):
    sinks = ("balance_store", "top_store", "rejected_store")
    run = run_in_slots(payments_application())
    assert everything(run, *sinks) == everything(run_local(payments_application()), *sinks)
    assert not run.retries
    assert run.outcome.ended


def test_an_operator_is_set_up_once_and_lives_in_one_process_and_thread(run_in_slots, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    run = run_in_slots(two_stages(NotedSum(folder=str(folder)), count=2_000))
    assert len(run.ids) == 200
    lives = notes(folder, "lives")
    assert sorted(partition for partition, _ in lives) == [0, 1]
    assert sorted(notes(folder, "setup")) == sorted(lives)
    assert sorted(notes(folder, "teardown")) == sorted(lives)
    assert os.getpid() not in {pid for _, pid in lives}
    joined = run.of_type(SlotJoined)
    assert [event.again for event in joined] == [False] * len(joined)
    assert {pid for _, pid in lives} <= {event.pid for event in joined}
    assert not run.of_type(SlotLost)


def test_killed_slots_cost_nothing_but_attempts(run_in_slots):
    killed = []

    def kill(run, event):
        if event.window_id in {3, 40, 90}:
            slots = {joined.slot: joined.pid for joined in run.of_type(SlotJoined)}
            pid = slots[len(killed) % len(slots)]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    run = run_in_slots(two_stages(Sum(), count=2_000), each=kill)
    assert len(killed) == 3
    assert [event.pid for event in run.of_type(SlotLost)] == killed
    assert len([event for event in run.of_type(SlotJoined) if event.again]) == 3
    assert run.ids == list(range(200))
    assert everything(run, "store") == everything(run_local(two_stages(Sum(), count=2_000)), "store")


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_an_operator_that_ends_its_process_is_named_and_its_window_runs_again(run_in_slots, tmp_path, how):
    folder = tmp_path / "notes"
    folder.mkdir()
    dying = DyingSum(folder=str(folder), bad=5, deaths=1, how=how)
    run = run_in_slots(two_stages(dying))
    assert "operator `total`" in run.retries[0].reason
    assert "its worker process died: it was killed" in run.retries[0].reason
    assert everything(run, "store") == everything(run_local(two_stages(Sum())), "store")


@pytest.mark.slow
def test_a_cluster_that_cancels_the_jobs_of_slots_costs_time_and_no_result(run_in_slots, spark_context):
    lost, stop = [0], threading.Event()

    def each(run, event):
        now = len(run.of_type(SlotLost))
        if now > lost[-1]:
            lost.append(now)
        if len(lost) > 3:
            stop.set()
        elif event.window_id % 200 == 0:  # again and again, as some may hit no job
            spark_context.cancelAllJobs()

    run = run_in_slots(two_stages(Sum(), count=1_000_000), each=each, stop=stop)
    assert stop.is_set()
    here = run_local(two_stages(Sum(), count=1_000_000), windows=len(run.ids))
    assert everything(run, "store") == everything(here, "store")
