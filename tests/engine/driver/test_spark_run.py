"""Applications on Spark give what they give in process; runs stop, go on and end as they should."""

import threading

import pytest

from ridgeline.testing import ABORT, END_WINDOW, run_local
from support.engine.applications import (
    Payment,
    WaitingSum,
    list_application,
    payment,
    payments_application,
    skipping_application,
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


def test_payments_equal_a_computation_by_hand(spark_context, tmp_path):
    run = run_on_spark(payments_application(count=1_100), spark_context, tmp_path / "checkpoint")

    payments = [payment(i) for i in range(1_100)]
    totals = {}
    for each in payments:
        if each.cents >= 0:
            totals[each.account] = totals.get(each.account, 0) + each.cents
    last = dict(run.collected("balance_store"))
    assert last == totals
    assert sorted(run.collected("rejected_store")) == sorted(each for each in payments if each.cents < 0)
    assert isinstance(run.collected("rejected_store")[0], Payment)
    assert run.reports("check", 0)[0].errors == len(run.collected("rejected_store", 0)) > 0
    windows_with_top = [window for window in run.ids if run.collected("top_store", window)]
    assert windows_with_top == [
        4,
        5,
    ]  # one full application window of five, and the one that the end of the input cuts short
    best = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:5]
    assert [tuple(top) for top in run.collected("top_store", 5)] == best


def test_list_input_ends_windows_and_aborts(spark_context, tmp_path):
    items = [(1,), (2,), END_WINDOW, (3,), ABORT, END_WINDOW, END_WINDOW, (4,)]

    run = run_on_spark(list_application(items), spark_context, tmp_path / "checkpoint")

    assert [[number.value for number in run.collected("store", window)] for window in run.ids] == [
        [3],
        [6],
        [6],
        [10],
    ]


def test_blocks_skip_a_stage(spark_context, tmp_path):
    here = run_local(skipping_application())

    run = run_on_spark(skipping_application(), spark_context, tmp_path / "checkpoint")

    stage = {
        operator: container.stage
        for container in run.plan.execution.containers
        for operator in container.operators
    }
    assert any(stage[stream.sink] - stage[stream.source] > 1 for stream in run.plan.physical.streams)
    assert run.collected("store") == here.collected("store")
    assert [pair.account for pair in run.collected("store")] == [10] * 6


@pytest.mark.slow
def test_goes_on_after_a_limit_of_windows(spark_context, tmp_path):
    whole = run_local(payments_application())
    checkpoint = tmp_path / "checkpoint"

    first = run_on_spark(payments_application(), spark_context, checkpoint, windows=3)
    second = run_on_spark(payments_application(), spark_context, checkpoint, windows=4)
    third = run_on_spark(payments_application(), spark_context, checkpoint)
    fourth = run_on_spark(payments_application(), spark_context, checkpoint)

    assert [first.ids, second.ids, third.ids, fourth.ids] == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9], []]
    assert [run.outcome.ended for run in (first, second, third, fourth)] == [False, False, True, True]
    for name in ("balance_store", "top_store", "rejected_store"):
        parts = [run.collected(name) for run in (first, second, third)]
        assert [row for part in parts for row in part] == whole.collected(name)


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


def test_input_that_has_nothing_ends_at_once(spark_context, tmp_path):
    run = run_on_spark(list_application([]), spark_context, tmp_path / "checkpoint")

    assert run.ids == [0]
    assert run.outcome.ended
    assert [number.value for number in run.collected("store")] == [0]


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
