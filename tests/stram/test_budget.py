"""Budgets of inputs: a plain model of slots says how long a window takes, as a clock would."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline import Application
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowReport, WindowRequest
from ridgeline.policies.bounds import Bounds
from ridgeline.sla import caught_up_within, window_latency
from ridgeline.stram.budget import FIRST_RECORDS, Budgets
from ridgeline.stram.windows import InFlightWindow
from ridgeline.testing import CollectorSink, ListInput
from support.engine.applications import Number
from support.stram.plans import container_window, plan

TARGET = 0.5
OVERHEAD = 0.001
"""Seconds that each window takes in each container, whatever it reads."""


class Model:
    """Windows one after the other. What `source1` reads costs time in a slot of its own, and so on."""

    def __init__(self, inputs: int = 1, waiting: float = 0.0) -> None:
        self.plan = plan(inputs, partitions=1)
        self.names = [f"source{number}" for number in range(1, inputs + 1)]
        self.budgets = Budgets(self.plan, {}, bounded=True)
        self.waiting = dict.fromkeys(self.names, waiting)

    def window(self, *costs: float, extra: float = 0.0) -> float:
        """One window in which a record costs so many seconds, by input; returns how long it takes."""
        budgets = self.budgets.next
        taken = {name: min(self.waiting[name], budgets[name].records) for name in self.names}
        seconds = {f"step{i}": cost * taken[f"source{i}"] + extra for i, cost in enumerate(costs, 1)}
        window = InFlightWindow(0, budgets=budgets, taken=taken)
        window.reports = {one.window.container: one for one in self._reports(seconds)}
        self.budgets.learn(window)
        for name in self.names:
            self.waiting[name] -= taken[name]
        return max(seconds.values()) + OVERHEAD

    def windows(self, count: int, cost: float, rate: float) -> list[float]:
        """So many windows, each at least as wide as 200 ms, while records come at a rate."""
        found = []
        for _ in range(count):
            found.append(self.window(cost))
            self.waiting["source1"] += rate * max(0.2, found[-1])
        return found

    def _reports(self, seconds: dict[str, float]) -> list[WindowReport]:
        operators = {one.id: one.name for one in self.plan.physical.operators}
        found = []
        for container in self.plan.execution.containers:
            window = container_window(WindowRequest(0, 0, 1), container.id, "")
            took = OVERHEAD + sum(seconds.get(operators[one], 0.0) for one in container.operators)
            found.append(WindowReport(replace(window, pid=container.id, written=took)))
        return found


@pytest.mark.parametrize(
    ("window", "window_work", "target"),
    [
        ("5ms", None, 0.5),
        ("60s", None, 60.0),
        ("1s", "300ms", 0.3),
        ("1s", "2s", 2.0),
        ("1s", "1h", math.inf),
    ],
)
def test_the_work_of_a_window_is_its_width_or_what_the_attribute_says(window, window_work, target):
    app = Application("app", window=window, window_work=window_work)
    app.read("numbers", ListInput(Number, [])).write("sink", CollectorSink())
    assert Budgets(plan_application(app), {}, bounded=True).target == target


@pytest.mark.parametrize(
    ("keeps", "target"),
    [
        ([window_latency(p99="600ms")], 0.2),
        ([window_latency(p99="1ms")], 0.05),
        ([window_latency(p99="10s"), caught_up_within("1ms")], 0.5),
        (
            [
                Bounds(operator="sink", figure="latency_p99_seconds", at_most="900ms"),
                window_latency(p50="1s"),
            ],
            0.3,
        ),
    ],
)
def test_windows_have_less_work_where_results_may_not_be_late(keeps, target):
    app = Application("app", window="5ms")
    app.read("numbers", ListInput(Number, [])).write("sink", CollectorSink())
    for one in keeps:
        if isinstance(one, Bounds):
            app.add_policy(one)
        else:
            app.promises.append(one)
    assert Budgets(plan_application(app), {}, bounded=True).target == pytest.approx(target)


def test_under_overload_each_window_has_the_work_of_the_target_and_does_not_swing():
    model = Model()
    first, *others = model.windows(100, cost=0.002, rate=750)
    assert first < TARGET
    assert all(0.4 * TARGET < seconds < 1.05 * TARGET for seconds in others[3:])
    steady = others[20:]
    assert max(steady) - min(steady) < 0.02 * TARGET


@given(
    before=st.floats(1e-6, 1e-3),
    factor=st.floats(1.0, 100.0),
    backlog=st.sampled_from([0.0, 1e7]),
)
def test_when_records_become_dear_one_window_is_long_and_the_next_is_not(before, factor, backlog):
    model = Model(waiting=backlog)
    model.windows(50, before, rate=1.5 / before)
    _, *others = model.windows(10, factor * before, rate=1.5 / before)
    assert max(others) < 1.1 * TARGET


def test_after_a_single_record_that_takes_long_windows_soon_are_as_large_as_before():
    model = Model()
    model.windows(50, 0.002, rate=750)
    before = model.budgets.next["source1"].records
    model.window(0.002, extra=3.0)
    model.windows(6, 0.002, rate=750)
    assert model.budgets.next["source1"].records > 0.8 * before


@pytest.mark.parametrize("cost", [1e-3, 1e-5, 1e-7])
def test_a_backlog_is_soon_read_in_windows_of_the_target(cost):
    model = Model(waiting=1e12)
    first, *others = model.windows(8, cost, rate=0)
    assert first <= FIRST_RECORDS * cost + OVERHEAD
    assert others[-1] == pytest.approx(TARGET, rel=0.2)
    assert max(others) < 1.1 * TARGET


def test_an_input_without_work_is_not_held_up_by_one_that_is_behind():
    model = Model(inputs=2)
    for _ in range(30):
        model.waiting = {"source1": 1e6, "source2": 3.0}
        model.window(0.002, 0.00001)
    assert model.budgets.next["source1"].records < FIRST_RECORDS
    assert model.budgets.next["source2"].records >= FIRST_RECORDS


def test_few_windows_are_under_way_where_they_are_long():
    model = Model()
    assert [model.budgets.enough_under_way(number, 0.0) for number in (0, 1)] == [False, True]
    model.windows(20, 0.002, rate=750)  # all work is in one slot
    assert [model.budgets.enough_under_way(number, 0.0) for number in (1, 2, 3)] == [False, True, True]
    model.window(0.002, extra=5.0)  # a slow sink: no window waits for it, so a change waits for one
    assert model.budgets.enough_under_way(1, 0.0)
    model = Model()
    model.windows(20, 1e-6, rate=100)
    assert [model.budgets.enough_under_way(4, seconds) for seconds in (0.2, 0.3)] == [False, True]


@pytest.mark.parametrize(("extra", "takes"), [(0.01, 0.51), (0.11, 1.1), (5.0, 6.0)])
def test_what_each_window_takes_anyway_is_a_tenth_of_it_where_that_is_no_second_of_work(extra, takes):
    model = Model(waiting=1e12)
    took = [model.window(1e-5, extra=extra) for _ in range(16)]
    assert took[-3:] == pytest.approx([takes] * 3, rel=0.15)
    assert max(took) < 1.3 * takes
    following = Budgets(model.plan, model.budgets.next, bounded=True)
    assert following.next["source1"].fixed == pytest.approx(extra, abs=0.02)
    model.waiting["source1"] = 0.0
    model.windows(10, 0.002, rate=750)  # it is quick now
    assert max(model.windows(30, 0.002, rate=750)) < 3 * TARGET


def test_a_burst_is_bounded_by_what_windows_have_shown_that_read_little():
    model = Model()
    model.windows(5, 0.002, rate=300)
    assert model.budgets.next["source1"].measured
    model.waiting["source1"] = 1e5
    assert max(model.windows(10, 0.002, rate=300)) < 1.1 * TARGET


def test_after_a_change_of_the_plan_windows_begin_small():
    model = Model()
    model.windows(30, 0.002, rate=750)
    before = model.budgets.next["source1"].records
    following = Budgets(model.plan, model.budgets.next, bounded=True)
    assert following.next["source1"].records == pytest.approx(before / 4)
    assert not Budgets(model.plan, {}, bounded=False).next
