"""Inputs that wait for their tuples: when STRAM may hold a window back for them."""

import pytest

from ridgeline import Application
from ridgeline.api.errors import Failure
from ridgeline.plan.planner import plan_application
from ridgeline.stram.control import AttemptFailed, ContainerReported, InputAwake, WindowDue
from ridgeline.stram.master import Master
from ridgeline.testing import CollectorSink
from support.engine.applications import Number
from support.engine.pushed import Fed
from support.stram.plans import reports


@pytest.fixture
def master():
    app = Application("two")
    inputs = [app.add_operator(name, Fed(name=name)) for name in ("one", "two")]
    for source in inputs:
        app.add_stream(
            source.name, source.numbers, app.add_operator(f"{source.name}-sink", CollectorSink(Number)).input
        )
    return Master(plan_application(app), epoch=1, capacity=4)


def report(master, window_id, *idle):
    """A window runs, and these inputs have nothing."""
    [run] = master.handle(WindowDue(window_id))
    names = {operator.id: operator.name for operator in master.plan.physical.operators}
    for one in reports(master.plan, run.request):
        for operator in one.operators:
            operator.idle = names[operator.window.operator] in idle
        master.handle(ContainerReported(one))
    return run.request


def test_all_inputs_must_have_nothing(master):
    assert not master.idle
    report(master, 0, "one")
    assert not master.idle
    report(master, 1, "one", "two")
    assert master.idle
    report(master, 2, "two")
    assert not master.idle


def test_an_input_that_is_awake_ends_it(master):
    report(master, 0, "one", "two")
    assert master.idle
    assert master.handle(InputAwake()) == ()
    assert not master.idle


def test_a_failure_ends_it(master):
    report(master, 0, "one", "two")
    [run] = master.handle(WindowDue(1))
    master.handle(AttemptFailed(1, run.request.attempt, Failure("two", "one", 0, 1, "process", "no")))
    assert not master.idle


def test_applications_whose_operators_count_windows_wait_for_nothing(master):
    assert master.may_wait
    app = Application("counts")
    source = app.add_operator("one", Fed(name="one"), application_window_count=3)
    app.add_stream("numbers", source.numbers, app.add_operator("sink", CollectorSink(Number)).input)
    assert not Master(plan_application(app), epoch=1, capacity=4).may_wait
