"""Operators that fail on Spark: what is reported, retried and dropped. No committed window is lost."""

import threading

import pytest

from ridgeline.api.errors import OperatorError, RidgelineError
from support.engine.applications import FailingSum, Sum, sum_application
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark

SUMS = [sum(range(10 * window + 10)) for window in range(10)]


def sums(run):
    return [number.value for number in run.collected("store")]


@pytest.mark.guide("002", "Run Time")
def test_error_names_application_operator_partition_window_and_tuple(spark_context, tmp_path):
    app = sum_application(FailingSum(bad=47), recovery_attempts=1)

    run, error = run_on_spark(app, spark_context, tmp_path / "checkpoint", expect=OperatorError)

    expected = (
        "operator `total` (partition 0) of application `sums` failed in window 4 in "
        "`process of port numbers`: "
        "ValueError: cannot add 47; the tuple was Number(value=47)"
    )
    assert str(error) == expected
    assert "add_or_fail" in error.failure.traceback
    assert [(retry.window_id, retry.attempt) for retry in run.retries] == [(4, 1)]
    assert run.retries[0].reason == expected
    assert run.ids == [0, 1, 2, 3]


@pytest.mark.parametrize(("failures", "on_error"), [(1, "STOP"), (3, "RETRY")])
def test_window_that_fails_for_a_while_is_committed_once(spark_context, tmp_path, failures, on_error):
    notes = tmp_path / "notes"
    notes.mkdir()
    app = sum_application(FailingSum(bad=35, failures=failures, folder=str(notes)), on_error=on_error)

    run = run_on_spark(app, spark_context, tmp_path / "checkpoint")

    assert len(list(notes.iterdir())) == failures  # Spark tries nothing again by itself
    attempts = [retry.attempt for retry in run.retries if retry.window_id == 3]
    assert attempts == [attempt + 1 for attempt in range(failures)]
    assert min(retry.window_id for retry in run.retries) == 3  # in slots, later ones in flight run again too
    assert run.ids == list(range(10))
    assert sums(run) == SUMS


class Holder(Sum):
    """Holds what cannot travel to a worker."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_operator_that_cannot_be_pickled_is_named(spark_context, tmp_path):
    _, error = run_on_spark(
        sum_application(Holder()), spark_context, tmp_path / "checkpoint", expect=RidgelineError
    )

    assert str(error).startswith(
        "operator `total` cannot be sent to the workers: its `lock` is <unlocked _thread.lock object at "
    )
    assert str(error).endswith("(cannot pickle '_thread.lock' object); make it in `setup`")


# The checkpoint folder --------------------------------------------------------------------------------------
