"""When the next window begins: what holds it back between containers, at inputs, where nothing comes."""

from __future__ import annotations

import pytest

from ridgeline import Application, OutputPort, PushInput
from ridgeline.api.errors import Failure
from ridgeline.plan.planner import plan_application
from ridgeline.stram.control import AttemptFailed, ContainerReported, InputAwake, RunWindow, WindowDue
from ridgeline.stram.master import Master
from ridgeline.stram.placement import most_slots
from ridgeline.testing import CollectorSink
from support.engine.applications import Number
from support.engine.pushed import Fed
from support.stram.plans import Counter, Item, Source, reports


def bounded_master(**attributes: object) -> Master:
    """A source, and two steps in containers of their own; up to eight windows under way."""
    app = Application("app", windows_in_flight=8)
    source = app.add_operator("source", Source())
    step = app.add_operator("step", Counter(), partitions=2)
    app.add_stream("items", source.out, step.data)
    return Master(plan_application(app, {}, attributes), epoch=1, capacity=8)


def send(master: Master, tuples: int, size: int = 0) -> list[ContainerReported]:
    """Begin a window; the source reports so many tuples. Returns the reports of the steps, still to come."""
    [running] = master.handle(WindowDue(master.next_window))
    first, *others = reports(master.plan, running.request)
    first.window.bytes_out = size
    first.operators[0].window.tuples_out = {"out": tuples}
    master.handle(ContainerReported(first))
    return [ContainerReported(one) for one in others]


@pytest.mark.guide("002", "Ports")
@pytest.mark.parametrize(
    ("attribute", "size"),
    [("step.port.data.queue_capacity", 0), ("source.port.out.buffer_memory_mb", 2**20)],
)
def test_what_waits_is_bounded(attribute: str, size: int) -> None:
    bounded = bounded_master(**{attribute: "3"})
    waiting = [send(bounded, 1, size), send(bounded, 1, size)]
    assert bounded.can_begin
    waiting.append(send(bounded, 1, size))
    assert not bounded.can_begin, "three wait"
    first, second = waiting[0]
    bounded.handle(first)
    assert not bounded.can_begin, "the other partition may have all of it before it"
    bounded.handle(second)
    assert bounded.can_begin


def test_one_window_may_be_larger_than_the_bound() -> None:
    bounded = bounded_master(**{"step.port.data.queue_capacity": 1})
    waiting = send(bounded, 1000)
    assert not bounded.can_begin
    for one in waiting:
        bounded.handle(one)
    assert bounded.can_begin


def test_nothing_is_bounded_by_default() -> None:
    unbounded = bounded_master()
    for _ in range(7):
        send(unbounded, 10**9, 2**40)
    assert unbounded.can_begin


def test_slots_are_at_most_so_many() -> None:
    assert most_slots(bounded_master().plan) == 3
    assert most_slots(bounded_master(containers_max_count=2).plan) == 2
    assert most_slots(bounded_master(containers_max_count=9).plan) == 3


class Pushed(PushInput):
    out = OutputPort(Item)


def pushed(source: object, inputs: int = 1, **attributes: object) -> Master:
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
    stram = pushed(Pushed())
    for _ in range(8):
        assert stram.can_begin
        first, *_steps = begin(stram)
        assert not stram.can_begin
        stram.handle(first)
    assert not stram.can_begin, "steps behind the input may be as late as the limit of windows allows"


def test_partitions_of_an_input_may_be_a_window_apart() -> None:
    stram = pushed(Pushed(), inputs=3)
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
    stram = pushed(Source())
    for _ in range(8):
        assert stram.can_begin
        begin(stram)
    assert not stram.can_begin


@pytest.mark.parametrize(("count", "merges"), [(1, True), (2, False)])
def test_windows_are_not_merged_where_an_operator_counts_them(count: int, merges: bool) -> None:
    assert pushed(Pushed(), **{"step.application_window_count": count}).traits.merges_late is merges


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
    assert not master.traits.counts_windows
    app = Application("counts")
    source = app.add_operator("one", Fed(name="one"), application_window_count=3)
    app.add_stream("numbers", source.numbers, app.add_operator("sink", CollectorSink(Number)).input)
    assert Master(plan_application(app), epoch=1, capacity=4).traits.counts_windows
