"""What runs the windows, as the command, the environment and the application say."""

import pytest

from ridgeline import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.execution_kind import VARIABLE, Choice, Execution, choose_execution
from ridgeline.operators import ConsoleOutput, SparkInput
from ridgeline.plan.planner import plan_application
from ridgeline.plan.text import describe
from support.engine.applications import Number, sum_application
from support.engine.pushed import fed


def spark_plan():
    app = Application("from-spark")
    source = app.add_operator("rates", SparkInput("rate", {}, schema=Number))
    app.add_stream("rows", source.output, app.add_operator("out", ConsoleOutput()).input)
    return plan_application(app)


def test_slots_unless_jobs_are_asked_for(monkeypatch):
    plan = plan_application(sum_application())
    monkeypatch.delenv(VARIABLE, raising=False)
    for given in (None, Execution.AUTO, Execution.SLOTS):
        assert choose_execution(given, plan) == Choice(Execution.SLOTS)
    assert choose_execution(Execution.JOBS, plan) == Choice(Execution.JOBS)
    monkeypatch.setenv(VARIABLE, "jobs")
    assert choose_execution(None, plan) == Choice(Execution.JOBS)
    assert choose_execution(Execution.AUTO, plan) == Choice(Execution.SLOTS)
    monkeypatch.setenv(VARIABLE, "threads")
    with pytest.raises(RidgelineError, match="must be `auto`, `slots` or `jobs`; got `threads`"):
        choose_execution(None, plan)


def test_spark_sources_need_jobs_and_the_plan_says_so(monkeypatch):
    plan = spark_plan()
    why = "`rates`: slots cannot read Spark sources yet, so each window is a Spark job"
    with pytest.raises(RidgelineError) as caught:
        choose_execution(Execution.SLOTS, plan)
    message = f"`--execution slots` cannot run this application; {why}; leave the option out, or give "
    assert str(caught.value) == message + "`--execution jobs`"
    for default in ("auto", "slots"):
        monkeypatch.setenv(VARIABLE, default)
        choice = choose_execution(None, plan)
        assert not choice.in_slots
        assert str(choice.obstacle) == why
    assert choose_execution(Execution.JOBS, plan) == Choice(Execution.JOBS)
    assert describe(plan).endswith(f"notes:\n  {why}")


def test_push_inputs_need_slots(monkeypatch):
    plan = plan_application(fed()[0])
    monkeypatch.setenv(VARIABLE, "jobs")
    assert choose_execution(None, plan) == Choice(Execution.SLOTS)
    told = r"`fed` is a `PushInput`, which lives in one process; .* jobs` each window .* `--execution slots`"
    with pytest.raises(RidgelineError, match=told):
        choose_execution(Execution.JOBS, plan)
