"""Runs on Spark that are rewound: what counts windows goes on as if nothing had come after the old one."""

import pytest

from ridgeline.engine.driver.checkpoint.planning import Planner
from ridgeline.plan.planner import plan_application
from support.counted import WINDOWS, application, expected
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


def test_application_windows_that_were_open_go_on_after_a_rewind(spark_context, tmp_path):
    app, wanted = application(4, 2, 2), expected(4, 2, 2)
    run_on_spark(app, spark_context, tmp_path, windows=11)
    target = 6
    planner = Planner(
        lambda values, kept, edits: plan_application(app, values, kept=kept, edits=edits),
        {},
        resume={"from_window": target},
    )
    run = run_on_spark(app, spark_context, tmp_path, planner=planner)
    assert run.ids == list(range(15, 15 + WINDOWS - target - 1))
    for name, rows in wanted.items():
        found = [sorted(map(tuple, run.collected(f"{name}_sink", window))) for window in run.ids]
        assert found == rows[target + 1 :], name
