"""Applications on Spark give what they give in process; runs stop, go on and end as they should."""

import pytest

from ridgeline.testing import ABORT, END_WINDOW
from support.engine.applications import (
    list_application,
)
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


def test_list_input_ends_windows_and_aborts(spark_context, tmp_path):
    items = [(1,), (2,), END_WINDOW, (3,), ABORT, END_WINDOW, END_WINDOW, (4,)]

    run = run_on_spark(list_application(items), spark_context, tmp_path / "checkpoint")

    assert [[number.value for number in run.collected("store", window)] for window in run.ids] == [
        [3],
        [6],
        [6],
        [10],
    ]
