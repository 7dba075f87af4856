"""Which slot is late by its own past, and what follows for slots and windows."""

import math
from functools import partial

import pytest

from ridgeline import Application, OutputPort, PushInput
from ridgeline.api.errors import ValidationError
from ridgeline.operators import SparkInput
from ridgeline.plan.planner import plan_application
from ridgeline.plan.protocol import WindowRequest
from ridgeline.plan.transition import transition
from ridgeline.stram.control import ContainersMoved, RunWindow
from ridgeline.stram.lateness import LEAST_WINDOWS, Overdue, Speculation
from ridgeline.stram.master import Master
from ridgeline.stram.placement import HostCapacity, HostPreference
from ridgeline.stram.slot_attempts import SlotAttempts
from ridgeline.stram.slots import EmptySlot, Member, SendAssignments, Slots, StartSlot
from support.engine.applications import Number, Sum, sink
from support.engine.in_slots import two_stages
from support.stram.attempts import attempts_of, send
from support.stram.flying import RAISED, begin, commit, fail, report
from support.stram.no_rules import NoRules


def planned(**attributes):
    app = two_stages(Sum())
    return plan_application(app, {}, {"speculation": "0.9", **attributes})


class Story:
    """Windows of three stages; each container takes a second of the clock, if nothing else is said."""

    def __init__(self, **attributes):
        self.plan = planned(**attributes)
        self.speculation = Speculation(self.plan)
        self.attempts = attempts_of(self.plan)
        self.now = 0.0
        self.stages = [[container.id for container in stage] for stage in self.plan.execution.stages]
        self.home = {container: index for stage in self.stages for index, container in enumerate(stage)}

    def begin(self, window_id, *, restores=False):
        self.speculation.sent(send(self.attempts, window_id, self.now, restores=restores), self.now)

    def ended(self, window_id, container, now):
        took = self.attempts.reported(window_id, 0, container, now)
        self.speculation.ended(container, took, now, over=not self.attempts.runs(window_id, 0))

    def window(self, window_id, seconds=1.0, *, slower=0.0, restores=False):
        """Run a window; each stage takes so much longer than the one before."""
        self.begin(window_id, restores=restores)
        for number, stage in enumerate(self.stages):
            self.now += seconds + slower * number
            for container in stage:
                self.ended(window_id, container, self.now)

    def past(self, windows=LEAST_WINDOWS, **options):
        for window_id in range(windows):
            self.window(window_id, **options)
        return windows

    def looks(self):
        return self.speculation.look(self.now, self.home, self.attempts)

    def late(self, seconds):
        self.now += seconds
        found = self.looks()
        return found[0] if len(found) == 1 else None


def test_a_slot_is_late_by_the_multiple_of_its_own_past():
    story = Story(speculation_multiplier="3")
    story.begin(story.past())
    story.ended(LEAST_WINDOWS, story.stages[0][1], story.now + 0.5)
    assert story.late(2.9) is None
    assert story.speculation.due == pytest.approx(story.now + 0.1)
    found = story.late(0.2)
    assert (found.slot, found.container, found.window_id) == (0, story.stages[0][0], LEAST_WINDOWS)
    assert (found.seconds, found.limit_seconds) == (pytest.approx(3.1), pytest.approx(3.0))


def test_nobody_is_late_who_has_little_past_or_no_window():
    story = Story()
    assert story.late(100.0) is None
    assert story.speculation.due == math.inf
    story.begin(story.past(LEAST_WINDOWS - 1))
    assert story.late(100.0) is None


def test_only_slots_with_an_operator_that_has_it_are_late():
    story = Story(speculation=None, **{"total.speculation": "0.9"})
    plan = story.plan
    totals = {one.id for one in plan.physical.operators if one.name == "total"}
    watched = {box.id for box in plan.execution.containers if totals.intersection(box.operators)}
    window = story.past()
    story.begin(window)
    for stage in story.stages:
        story.now += 50.0
        assert {one.container for one in story.looks()} == watched & set(stage)
        for container in stage:
            story.ended(window, container, story.now)


def test_short_windows_are_late_by_a_tenth_of_a_second_at_least():
    story = Story()
    story.begin(story.past(seconds=0.001))
    story.ended(LEAST_WINDOWS, story.stages[0][1], story.now)
    assert story.late(0.09) is None
    assert story.late(0.02).limit_seconds == pytest.approx(0.1)


def test_all_slots_that_are_late_are_told():
    story = Story()
    story.begin(story.past())
    story.now += 50.0
    assert [one.slot for one in story.looks()] == [0, 1]
    story.ended(LEAST_WINDOWS, story.stages[0][1], story.now)
    assert story.late(0.0).slot == 0


def test_who_waits_for_an_earlier_stage_is_not_late():
    story = Story()
    story.begin(story.past())
    story.now += 50.0
    for container in story.stages[0]:
        story.ended(LEAST_WINDOWS, container, story.now)
    assert story.late(1.9) is None


def test_what_is_begun_again_restores_states_and_may_take_longer_unless_all_windows_do():
    story = Story()
    story.begin(story.past(), restores=True)
    story.ended(LEAST_WINDOWS, story.stages[0][1], story.now)
    assert story.late(14.9) is None
    found = story.late(0.2)
    assert found.limit_seconds == pytest.approx(15.0)
    story = Story()
    windows = story.past(LEAST_WINDOWS + 1, restores=True)
    story.begin(windows, restores=True)
    story.ended(windows, story.stages[0][1], story.now)
    assert story.late(1.6) is not None


def test_an_attempt_after_one_that_was_late_may_take_longer_until_a_window_has_ended():
    story = Story()
    window, limits = story.past(), []
    for _ in range(4):
        story.begin(window, restores=True)
        story.ended(window, story.stages[0][1], story.now)
        found = story.late(1_000.0)
        limits.append(found.limit_seconds)
        story.speculation.swapped(found._replace(seconds=1.0))
        story.attempts.moved()
    assert limits == pytest.approx([15.0, 30.0, 60.0, 120.0])


def test_a_container_that_a_change_of_the_plan_has_made_may_take_longer_than_any_before():
    story = Story()
    window = story.past(slower=1.0)
    limits = [past.limit(0.9, 1.5) for past in story.speculation.pasts.values()]
    assert (min(limits), max(limits)) == pytest.approx((1.5, 4.5))
    story.plan = transition(story.plan, planned(**{"total.partitions": "3"}), ()).plan
    story.speculation, story.attempts = Speculation(story.plan, story.speculation), attempts_of(story.plan)
    story.stages = [[one.id for one in stage] for stage in story.plan.execution.stages]
    [one, other, new] = story.stages[1]
    story.home[new] = 7
    story.begin(window, restores=True)
    for container in (*story.stages[0], one, other):
        story.ended(window, container, story.now)
    assert story.late(44.9) is None
    found = story.late(0.2)
    assert (found.slot, found.limit_seconds) == (7, pytest.approx(45.0))


def test_windows_that_take_longer_for_good_are_late_no_more():
    story = Story()
    window, hedges = story.past(), 0
    for _ in range(50):
        story.begin(window)
        story.ended(window, story.stages[0][1], story.now)
        found = story.late(10.0)
        window += 1
        if found:
            hedges += 1
            story.speculation.swapped(found)
            story.attempts.moved()
            story.window(window, 10.0, restores=True)
            window += 1
    assert 0 < hedges < 20


# Slots ------------------------------------------------------------------------------------------------------


def slots_with(*nodes, binding=None):
    """Slots of which the last is the spare, all there, on these hosts."""
    capacities = {node: HostCapacity(4) for node in nodes if node}
    found = Slots(
        (*((number,) for number in range(len(nodes) - 1)), ()), 3, NoRules(), capacities, spare=True
    )
    assert found.start() == [StartSlot(number, 0) for number in range(len(nodes))]
    if binding:
        found._rows[0].wants = HostPreference(binding, binding=True)
    for slot, node in enumerate(nodes):
        found.joined(slot, Member("host", slot, "address", node))
    return found


def test_a_late_slot_and_the_spare_change_places_and_back():
    slots = slots_with("", "", "")
    assert slots.swap_with_spare(0) == (EmptySlot(0), SendAssignments())
    assert (slots.placement, slots.spare, slots.active) == (((), (1,), (0,)), 0, [1, 2])
    assert slots.swap_with_spare(1) == (EmptySlot(1), SendAssignments())
    assert (slots.placement, slots.spare) == (((1,), (), (0,)), 1)


def test_nobody_waits_for_a_spare_that_is_gone_and_it_comes_back():
    slots = slots_with("", "", "")
    slots.lost(2, "killed")
    assert slots.swap_with_spare(0) == ()
    assert not slots.missing
    assert slots.job_ended(2, "killed") == (StartSlot(2, 1),)
    assert slots.joined(2, Member("host", 9, "address")) == ()
    assert slots.swap_with_spare(0) == (EmptySlot(0), SendAssignments())


def test_a_spare_that_never_joins_is_given_up():
    slots = slots_with("", "", "")
    for job in (1, 2, 3):
        assert slots.job_ended(2, "exit code 1") == (StartSlot(2, job),)
    slots.joined(2, Member("host", 9, "address"))
    for job in (4, 5, 6):
        assert slots.job_ended(2, "exit code 1") == (StartSlot(2, job),)
    assert slots.job_ended(2, "exit code 1") == ()
    assert slots.spare is None
    assert slots.swap_with_spare(0) == ()


def test_what_was_lost_is_the_spare_when_it_comes_back():
    slots = slots_with("", "", "")
    slots.lost(1, "killed")
    assert slots.swap_with_spare(1) == (EmptySlot(1), SendAssignments())
    assert slots.job_ended(1, "killed") == (StartSlot(1, 1),)
    assert slots.joined(1, Member("host", 9, "address")) == ()
    assert slots.active == [0, 2]


def test_a_spare_on_another_host_than_is_needed_does_not_stand_in():
    assert slots_with("one", "two", "two", binding=("one",)).swap_with_spare(0) == ()
    assert slots_with("one", "two", "one", binding=("one",)).swap_with_spare(0)


def test_a_change_of_the_plan_keeps_the_spare():
    slots = slots_with("", "", "")
    assert slots.change(((0, 1), (), ()), slots._rules)[0].slot == 1
    assert slots.spare == 2
    assert 2 in slots.members


# Windows ----------------------------------------------------------------------------------------------------


def test_windows_under_way_begin_again_and_nothing_has_failed():
    plan = planned(recovery_attempts="0")
    master = Master(plan, epoch=1, capacity=4)
    for _ in range(3):
        begin(master)
    for _ in range(5):
        found = master.handle(ContainersMoved("slot 0 was late"))
        assert [type(one) for one in found] == [RunWindow] * 3
        assert [one.request.window_id for one in found] == [0, 1, 2]
        assert [one.request.states is None for one in found] == [False, True, True]
        assert {one.reason for one in found} == {"slot 0 was late"}
    assert {one.request.attempt for one in found} == {5}


def test_complete_windows_are_committed_and_only_others_begin_again():
    plan = planned()
    master = Master(plan, epoch=1, capacity=4)
    first, second = begin(master), begin(master)
    instructions = report(master, first)
    assert master.handle(ContainersMoved("late")) == (), "that waits for the commit"
    [again] = commit(master, instructions)
    assert (again.request.window_id, again.request.attempt) == (1, 1)
    assert again.request.states is not None
    assert report(master, second) == []
    assert report(master, again)


def test_a_failure_that_waits_for_windows_that_begin_again_waits_no_longer():
    master = Master(planned(), epoch=1, capacity=4)
    begin(master)
    second = begin(master)
    assert fail(master, second, RAISED) == [], "it waits until the window before is committed"
    again = master.handle(ContainersMoved("late"))
    assert [one.request.window_id for one in again][:1] == [0]


def test_attempts_that_are_begun_before_stram_hears_of_it_are_void():
    flight = SlotAttempts({0: 0, 1: 0})
    flight.begin(WindowRequest(0, 0, 1, states={}), complete=True)
    flight.moved()
    assert not flight.runs(0, 0)
    assert not flight.begin(WindowRequest(1, 0, 1, states=None), complete=True), "STRAM hears of it"
    request = WindowRequest(0, 1, 1, states={})
    assert flight.begin(request, complete=True) == (request,)


# What it is not for -----------------------------------------------------------------------------------------


class Pushed(PushInput):
    output = OutputPort(Number)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Pushed(), "windows begin again that have not failed"),
        (SparkInput(format="rate", schema=Number), "its windows take as long as Spark reads"),
    ],
)
def test_inputs_that_it_does_not_suit_are_refused(source, why):
    app = Application("refused", speculation=0.9)
    app.add_stream("numbers", app.add_operator("numbers", source).output, sink(app, "store", Number))
    with pytest.raises(ValidationError, match=why):
        plan_application(app)


def test_it_is_fixed_from_the_start_of_a_run():
    app = two_stages(Sum())
    with pytest.raises(ValidationError, match="cannot be changed while it runs"):
        transition(plan_application(app), plan_application(app, {}, {"speculation": "0.9"}), ())


def overdue(**attributes):
    """Two containers read, then others; windows of 1 s. Returns `look`, attempts, containers by stage."""
    plan = plan_application(two_stages(Sum()), {}, {"window": "1s", **attributes})
    made, attempts = Overdue(plan), attempts_of(plan)
    send(attempts, 7, 100.0)
    return partial(made.look, attempts), attempts, plan.execution.stages


def ids(containers):
    return [container.id for container in containers]


ONE_WINDOW = {f"{name}.timeout_window_count": "1" for name in ("numbers", "total", "store")}


@pytest.mark.parametrize(("counts", "limit"), [({}, 120.0), (ONE_WINDOW, 60.0)])
def test_nothing_is_late_before_its_time_which_is_a_minute_at_least(counts, limit):
    look, *_ = overdue(**counts)
    assert look(99.0 + limit, 0.0) is None
    assert look(100.0 + limit, 0.0).limit_seconds == limit


def test_who_waits_for_others_is_not_to_blame():
    look, attempts, stages = overdue()
    first, *others = ids(stages[0])
    for container in others:
        attempts.reported(7, 0, container, 101.0)
    late = look(300.0, 0.0)
    assert (late.container, late.window_id, late.seconds) == (first, 7, 199.0)


def test_the_first_window_under_way_counts_and_time_begins_with_the_window_before():
    look, attempts, stages = overdue()
    send(attempts, 8, 100.0)
    for containers in stages:
        for container in ids(containers):
            attempts.reported(7, 0, container, 150.0)
    assert look(269.0, 0.0) is None
    assert look(270.0, 0.0).window_id == 8


def test_no_time_counts_in_which_a_slot_worked_or_nobody_could_hear():
    look, *_ = overdue()
    assert look(370.0, 300.0) is None
    assert look(420.0, 300.0).seconds == 120.0


def test_nothing_is_late_once_attempts_are_void():
    look, attempts, _ = overdue()
    attempts.moved()
    assert look(1_000.0, 0.0) is None
