"""No further window begins while too much waits between containers."""

from __future__ import annotations

import pytest

from ridgeline import Application
from ridgeline.plan.planner import plan_application
from ridgeline.stram.control import ContainerReported, WindowDue
from ridgeline.stram.master import Master
from ridgeline.stram.placement import most_slots
from support.stram.plans import Counter, Source, reports


def master(**attributes: object) -> Master:
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
    bounded = master(**{attribute: "3"})
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
    bounded = master(**{"step.port.data.queue_capacity": 1})
    waiting = send(bounded, 1000)
    assert not bounded.can_begin
    for one in waiting:
        bounded.handle(one)
    assert bounded.can_begin


def test_nothing_is_bounded_by_default() -> None:
    unbounded = master()
    for _ in range(7):
        send(unbounded, 10**9, 2**40)
    assert unbounded.can_begin


def test_slots_are_at_most_so_many() -> None:
    assert most_slots(master().plan) == 3
    assert most_slots(master(containers_max_count=2).plan) == 2
    assert most_slots(master(containers_max_count=9).plan) == 3
