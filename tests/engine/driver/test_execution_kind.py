"""What runs the windows, as the command, the environment and the application say."""

import pytest

from ridgeline import AffinityRule
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import operator_type
from ridgeline.engine.driver.execution_kind import (
    VARIABLE,
    Execution,
    choose_execution,
    without_effect_in_jobs,
)
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


def test_strict_rules_on_hosts_need_slots(monkeypatch):
    def plan(**options):
        app = sum_application()
        app.set_attribute("numbers", locality=None)
        first, second = (added.name for added in app.operators[:2])
        app.add_affinity(AffinityRule("ANTI_AFFINITY", [first, second], locality="NODE_LOCAL", **options))
        return plan_application(app)

    with pytest.raises(
        RidgelineError, match=r"^affinity rule .* cannot be kept; .* `--execution slots`, or "
    ):
        choose_execution(Execution.JOBS, plan())
    monkeypatch.setenv(VARIABLE, "jobs")
    assert choose_execution(None, plan()) is Execution.SLOTS
    assert choose_execution(Execution.JOBS, plan(relax=True)) is Execution.JOBS
    assert "`affinity 1`" in without_effect_in_jobs(plan(relax=True))


def test_what_jobs_take_no_account_of_is_named():
    def said(**outside):
        return without_effect_in_jobs(plan_application(sum_application(), {}, outside))

    app = sum_application()
    operator, sink = app.operators[1], app.streams[0].sinks[0]
    [output, *_] = operator_type(type(operator.operator)).outputs
    assert said() == ""
    assert said(memory_mb="5").count("`") == 6, "said once, not of each operator that takes it over"
    named = {
        "windows_in_flight": "9",
        "containers_max_count": "3",
        f"{operator.name}.memory_mb": "100",
        f"{operator.name}.gpus": "1",
        f"{operator.name}.locality_host": "h1",
        f"{operator.name}.port.{sink.name}.queue_capacity": "7",
        f"{operator.name}.port.{output}.buffer_memory_mb": "7",
        f"{operator.name}.unifier.{output}.vcores": "3",
    }
    found = said(**named)
    assert [key for key in named if f"`{key}`" not in found] == []
    assert found.startswith("without effect with `--execution jobs`: `")
    both = {"on_error": "SKIP", f"{operator.name}.recovery_attempts": "9", "windows_kept": "9"}
    assert said(**both) == ""
