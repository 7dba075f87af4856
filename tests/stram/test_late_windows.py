"""Windows that are late: where inputs take what has come, one window stands for several."""

from __future__ import annotations

import pytest

from ridgeline import Application, OutputPort, PushInput
from ridgeline.plan.planner import plan_application
from ridgeline.stram.control import ContainerReported, RunWindow, WindowDue
from ridgeline.stram.master import Master
from support.stram.plans import Counter, Item, Source, reports


class Pushed(PushInput):
    out = OutputPort(Item)


def master(source: object, inputs: int = 1, **attributes: object) -> Master:
    """So many partitions of an input, and two of a step, in containers of their own; up to eight windows."""
    app = Application("app", windows_in_flight=8)
    made = app.add_operator("source", source, partitions=inputs)
    step = app.add_operator("step", Counter(), partitions=2)
    app.add_stream("items", made.out, step.data)
    return Master(plan_application(app, {}, attributes), epoch=1, capacity=8)


def begin(stram: Master) -> list[ContainerReported]:
    """Begin a window; the reports that will come of it, the input's first."""
    [running] = stram.handle(WindowDue(stram.next_window))
    assert isinstance(running, RunWindow)
    return [ContainerReported(one) for one in reports(stram.plan, running.request)]


def test_a_window_waits_until_the_input_has_read_the_one_before() -> None:
    stram = master(Pushed())
    for _ in range(8):
        assert stram.can_begin
        first, *_steps = begin(stram)
        assert not stram.can_begin
        stram.handle(first)
    assert not stram.can_begin, "steps behind the input may be as late as the limit of windows allows"


def test_partitions_of_an_input_may_be_a_window_apart() -> None:
    stram = master(Pushed(), inputs=3)
    first = begin(stram)
    assert stram.can_begin
    begin(stram)
    assert not stram.can_begin
    for report in first[:2]:
        stram.handle(report)
        assert not stram.can_begin
    stram.handle(first[2])
    assert stram.can_begin


def test_windows_of_inputs_that_decide_how_much_they_emit_are_not_merged() -> None:
    stram = master(Source())
    for _ in range(8):
        assert stram.can_begin
        begin(stram)
    assert not stram.can_begin


@pytest.mark.parametrize(("count", "merges"), [(1, True), (2, False)])
def test_windows_are_not_merged_where_an_operator_counts_them(count: int, merges: bool) -> None:
    assert master(Pushed(), **{"step.application_window_count": count}).merges_late is merges
