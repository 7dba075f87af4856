"""Applications on Spark give what they give in process; runs stop, go on and end as they should."""

import threading

import pytest

from ridgeline.testing import ABORT, END_WINDOW, run_local
from support.engine.applications import (
    WaitingSum,
    list_application,
    payments_application,
    sum_application,
)
from support.engine.on_spark import run_on_spark
from support.engine.spark_sources import rate_application

pytestmark = pytest.mark.spark


def test_payments_equal_those_in_process(spark_context, tmp_path):
    here = run_local(payments_application())

    there = run_on_spark(payments_application(), spark_context, tmp_path / "checkpoint")

    assert there.ids == here.window_ids == list(range(10))
    for name in ("balance_store", "top_store", "rejected_store"):
        for window in there.ids:
            assert there.collected(name, window) == here.collected(name, window)
    assert there.outcome.ended
    assert there.outcome.windows_committed == 10
    assert there.outcome.last_window == 9


def test_list_input_ends_windows_and_aborts(spark_context, tmp_path):
    items = [(1,), (2,), END_WINDOW, (3,), ABORT, END_WINDOW, END_WINDOW, (4,)]

    run = run_on_spark(list_application(items), spark_context, tmp_path / "checkpoint")

    assert [[number.value for number in run.collected("store", window)] for window in run.ids] == [
        [3],
        [6],
        [6],
        [10],
    ]


def test_stops_after_the_window_that_runs(spark_context, tmp_path):
    stop = threading.Event()
    checkpoint = tmp_path / "checkpoint"

    def stop_in_window_2(run, summary):
        if summary.window_id == 2:
            stop.set()

    first = run_on_spark(sum_application(), spark_context, checkpoint, each=stop_in_window_2, stop=stop)
    second = run_on_spark(sum_application(), spark_context, checkpoint)

    assert first.ids == list(range(len(first.ids)))
    assert 3 <= len(first.ids) <= 2 + first.most_in_flight
    assert not first.outcome.ended
    assert second.ids == list(range(len(first.ids), 10))
    assert second.collected("store")[-1].value == sum(range(100))


@pytest.mark.parametrize("make", [sum_application, rate_application], ids=["tick", "query"])
def test_window_that_runs_when_asked_to_stop_is_committed(spark_context, tmp_path, wait_until, make):
    stop = threading.Event()
    lasting = threading.Event()

    def stop_in_window_1():
        try:
            wait_until((tmp_path / "waits").exists, "window 1")
            stop.set()
            lasting.wait(0.3)  # as long as a window lasts that nobody cuts off
        finally:
            (tmp_path / "go").touch()  # else window 1 would wait for ever

    thread = threading.Thread(target=stop_in_window_1)
    thread.start()
    run = run_on_spark(
        make(WaitingSum(folder=str(tmp_path))), spark_context, tmp_path / "checkpoint", stop=stop
    )
    thread.join()

    assert run.ids == list(range(len(run.ids)))
    assert 2 <= len(run.ids) <= 1 + run.most_in_flight
    assert len(run.collected("store", 1)) == 1
    assert run.retries == []


def test_makes_a_checkpoint_folder_of_its_own(spark_context, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    from ridgeline.engine.driver.run.launch import Options, launch
    from ridgeline.plan.planner import plan_application

    reported = []
    outcome = launch(
        plan_application(sum_application()),
        Options(windows=1),
        context=spark_context,
        started=lambda run: reported.append((run.checkpoint.storage.uri, run.next_window)),
    )

    assert reported == [(outcome.checkpoint, 0)]
    assert outcome.checkpoint.startswith(str(tmp_path / "ridgeline-checkpoint-"))
