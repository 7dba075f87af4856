"""What runs the windows, as the command, the environment and the application say."""

import pytest

from ridgeline import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.execution_kind import VARIABLE, Execution, chosen_execution
from ridgeline.operators import ConsoleOutput, SparkInput
from ridgeline.plan.planner import plan_application
from support.engine.applications import Number, sum_application
from support.engine.pushed import fed


def spark_plan():
    app = Application("from-spark")
    source = app.add_operator("rates", SparkInput("rate", {}, schema=Number))
    app.add_stream("rows", source.output, app.add_operator("out", ConsoleOutput()).input)
    return plan_application(app)


def test_jobs_unless_something_else_is_asked_for(monkeypatch):
    plan = plan_application(sum_application())
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen_execution(None, plan) is Execution.JOBS
    assert chosen_execution(Execution.SLOTS, plan) is Execution.SLOTS
    monkeypatch.setenv(VARIABLE, "slots")
    assert chosen_execution(None, plan) is Execution.SLOTS
    assert chosen_execution(Execution.JOBS, plan) is Execution.JOBS
    monkeypatch.setenv(VARIABLE, "threads")
    with pytest.raises(RidgelineError, match="must be `jobs` or `slots`; got `threads`"):
        chosen_execution(None, plan)


def test_spark_sources_need_jobs(monkeypatch):
    plan = spark_plan()
    with pytest.raises(RidgelineError, match="`rates` is one; leave the option out, or give `--execution jo"):
        chosen_execution(Execution.SLOTS, plan)
    monkeypatch.setenv(VARIABLE, "slots")
    assert chosen_execution(None, plan) is Execution.JOBS


def test_push_inputs_need_slots(monkeypatch):
    plan = plan_application(fed()[0])
    monkeypatch.setenv(VARIABLE, "jobs")
    assert chosen_execution(None, plan) is Execution.SLOTS
    told = r"`fed` is a `PushInput`, which lives in one process; .* jobs` each window .* `--execution slots`"
    with pytest.raises(RidgelineError, match=told):
        chosen_execution(Execution.JOBS, plan)
