"""Operators that fail on Spark: what is reported, retried and dropped. No committed window is lost."""

import threading

import pytest

from ridgeline.api.errors import OperatorError, RidgelineError
from support.engine.applications import FailingSum, Sum, sum_application
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


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
