"""What runs the windows, as the command, the environment and the application say."""

import pytest

from ridgeline.api.errors import RidgelineError
from ridgeline.engine.driver.execution_kind import VARIABLE, Execution, choose_execution
from ridgeline.plan.planner import plan_application
from support.engine.applications import sum_application
from support.engine.pushed import fed


def test_slots_unless_jobs_are_asked_for(monkeypatch):
    plan = plan_application(sum_application())
    monkeypatch.delenv(VARIABLE, raising=False)
    assert choose_execution(None, plan) is Execution.SLOTS
    assert choose_execution(Execution.JOBS, plan) is Execution.JOBS
    monkeypatch.setenv(VARIABLE, "jobs")
    assert choose_execution(None, plan) is Execution.JOBS
    assert choose_execution("slots", plan) is Execution.SLOTS
    with pytest.raises(RidgelineError, match="`execution` must be `slots` or `jobs`; got `threads`"):
        choose_execution("threads", plan)
    assert choose_execution(Execution.SLOTS, plan) is Execution.SLOTS
    monkeypatch.setenv(VARIABLE, "threads")
    with pytest.raises(RidgelineError, match="must be `slots` or `jobs`; got `threads`"):
        choose_execution(None, plan)


def test_push_inputs_need_slots(monkeypatch):
    plan = plan_application(fed()[0])
    monkeypatch.setenv(VARIABLE, "jobs")
    assert choose_execution(None, plan) is Execution.SLOTS
    told = r"`fed` is a `PushInput`, which lives in one process; .* jobs` each window .* `--execution slots`"
    with pytest.raises(RidgelineError, match=told):
        choose_execution(Execution.JOBS, plan)
