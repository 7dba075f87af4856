"""Stories of changes that somebody asks for, and of a plan that follows another one while windows run."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import AffinityRule, Application
from ridgeline.api.errors import Failure
from ridgeline.engine.driver.run.changes import Requests
from ridgeline.plan.change.succession import succeed
from ridgeline.plan.edits import AddOperator, AddSink, Edit, Repartition
from ridgeline.plan.planner import plan_application
from ridgeline.stram.changes import EditPlan
from ridgeline.stram.control import (
    AttemptFailed,
    Commit,
    ContainerReported,
    GiveUp,
    ManifestWritten,
    RunWindow,
    WindowDue,
)
from ridgeline.stram.master import Master
from ridgeline.stram.placement import (
    HostCapacity,
    PlanRules,
    host_preferences,
    place,
    place_following,
    place_spread,
)
from ridgeline.stram.slots import Member, RetireSlot, SendAssignments, Slots, StartSlot
from support.depth import deep
from support.stram.no_rules import NoRules
from support.stram.plans import Counter, Source, ids, plan, reports


def report(master, running, **what):
    """All containers report an attempt; what follows."""
    return [
        instruction
        for one in reports(master.plan, running.request, **what)
        for instruction in master.handle(ContainerReported(one))
    ]


def begin(master, window_id, time=0):
    """The attempt that begins a window."""
    [running] = master.handle(WindowDue(window_id, time))
    assert isinstance(running, RunWindow)
    return running


def run(master, window_id, time=0, **what):
    """A window without trouble."""
    [commit] = report(master, begin(master, window_id, time), **what)
    assert isinstance(commit, Commit)
    master.handle(ManifestWritten(window_id))


def followed(first, partitions=3):
    """The master of a plan with other partitions, which follows another master."""
    new = succeed(first.plan, plan(partitions=partitions))
    states = {one: (f"moved{one}",) for one in ids(new, "step1")}
    return Master(
        new,
        epoch=1,
        committed=first.committed,
        states=states,
        capacity=3,
        groups=True,
        follows=first,
    )


def in_slots():
    return Master(plan(), epoch=1, capacity=3, groups=True)


def test_the_first_window_of_a_plan_names_the_states_and_runs_alone():
    first = in_slots()
    run(first, 0, changes={ids(first.plan, "step1")[0]: "a"})
    second = followed(first)
    running = begin(second, 1)
    assert running.request.states == {one: (f"moved{one}",) for one in ids(second.plan, "step1")}
    assert not second.can_begin
    [commit] = report(second, running, changes={ids(second.plan, "step1")[0]: "b"})
    assert isinstance(commit, Commit)
    second.handle(ManifestWritten(1))
    assert [begin(second, window).request.states for window in (2, 3)] == [None, None]
    assert second.can_begin


def test_the_first_window_of_a_plan_is_committed_though_nothing_moved_in_it():
    first = in_slots()
    running = begin(first, 0)
    assert report(first, running) == [], "it is held"
    second = followed(in_slots())
    [commit] = report(second, begin(second, 0))
    assert isinstance(commit, Commit)


def test_ids_of_the_plan_before_mean_nothing_to_the_next():
    first = in_slots()
    old = begin(first, 0)
    second = followed(in_slots())
    new = begin(second, 0)
    before = {one.window.container for one in reports(first.plan, old.request)}
    after = {one.window.container for one in reports(second.plan, new.request)}
    assert before != after
    assert new.request.attempt == old.request.attempt == 0


def test_attempts_go_on_where_a_plan_that_did_not_last_has_ended():
    first = in_slots()
    running = begin(first, 0)
    failure = Failure("app", "step1", 0, 0, "process", "ValueError: no", raised=True)
    again = next(
        one
        for one in first.handle(AttemptFailed(0, running.request.attempt, failure))
        if isinstance(one, RunWindow)
    )
    back = followed(first, partitions=2)
    assert begin(back, 0).request.attempt == again.request.attempt + 1


def test_attempts_also_go_on_after_one_that_was_about_to_be_committed():
    first = in_slots()
    running = begin(first, 0)
    [commit] = report(first, running, changes={ids(first.plan, "step1")[0]: "a"})
    assert isinstance(commit, Commit)
    back = followed(first, partitions=2)
    late = begin(back, 0)
    assert late.request.attempt == running.request.attempt + 1
    assert report(back, running) == [], "a report of the attempt before is dropped"


def test_the_time_of_windows_does_not_go_back_with_the_plan():
    first = in_slots()
    run(first, 0, time=500, changes={ids(first.plan, "step1")[0]: "a"})
    assert begin(followed(first), 1, time=300).request.time == 500


def test_attempts_go_on_after_the_window_was_given_up():
    first = in_slots()
    number = begin(first, 0).request.attempt
    failure = Failure("app", "step1", 0, 0, "process", "ValueError: no", raised=True)
    while True:
        [instruction] = first.handle(AttemptFailed(0, number, failure))
        if isinstance(instruction, GiveUp):
            break
        number = instruction.request.attempt
    assert number > 0
    assert begin(followed(first, partitions=2), 0).request.attempt == number + 1


def application(partitions=2, *rules):
    app = Application("app")
    source = app.add_operator("source", Source())
    step = app.add_operator("step", Counter(), partitions=partitions)
    app.add_stream("items", source.out, step.data)
    for rule in rules:
        app.add_affinity(rule)
    return app


def changed(app, old, *edits: Edit):
    return succeed(old, plan_application(app, edits=edits))


def member(number):
    return Member("host", 100 + number, f"address {number}")


def there(*numbers, of):
    for number in numbers:
        last = of.joined(number, member(number))
    return last


def homes(placement):
    return {container: slot for slot, hosted in enumerate(placement) for container in hosted}


def boxes_of(plan, name):
    """The containers of an operator's partitions."""
    of = {one.id for one in plan.physical.operators if one.name == name and not one.unifier}
    return {box.id for box in plan.execution.containers if of.intersection(box.operators)}


def partitions_by_slot(plan, placement, name):
    """How many partitions of an operator each slot has, the fewest first."""
    return sorted(len(boxes_of(plan, name).intersection(hosted)) for hosted in placement)


@settings(max_examples=deep(25))
@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 6), st.integers(0, 3), st.booleans(), st.booleans()
)
def test_partitions_are_spread_evenly_by_a_change_as_by_a_restart(
    partitions, more, slots, fresh, keeps, others
):
    app = application(partitions)
    if others:
        other = app.add_operator("other", Counter(), partitions=3)
        app.add_stream("others", app.add_operator("other_source", Source()).out, other.data)
    old = plan_application(app)
    before = place(old, min(slots, len(old.execution.containers)))
    number = partitions if keeps else partitions + more
    new = changed(app, old, Repartition("step", number))
    after = place_following(new, before, range(len(before), len(before) + fresh))
    was, now = homes(before), homes(after)
    assert now.keys() == {container.id for container in new.execution.containers}
    moved = {one for one in was if now.get(one, was[one]) != was[one]}
    assert moved <= (set() if keeps else boxes_of(new, "step"))
    if not keeps and len(after) <= len(new.execution.containers):
        even = [(number + slot) // len(after) for slot in range(len(after))]
        for placement in (after, place(new, len(after))):
            assert partitions_by_slot(new, placement, "step") == even


def test_partitions_that_have_little_to_do_share_a_slot():
    plan = plan_application(application(5))
    boxes = sorted(boxes_of(plan, "step"))
    loads = dict.fromkeys(boxes, 0.5) | dict.fromkeys(boxes[:3], 0.001)
    by_number, by_load = place(plan, 3), place(plan, 3, loads)
    assert partitions_by_slot(plan, by_number, "step") == [1, 2, 2]
    assert partitions_by_slot(plan, by_load, "step") == [1, 1, 3]
    assert set(boxes[:3]) in [set(hosted) & set(boxes) for hosted in by_load]
    kept = PlanRules(plan).move((*by_load, ()), [0, 1, 3], {}, loads)
    busy = [len({*boxes[3:]}.intersection(kept[slot])) for slot in (0, 1, 3)]
    assert (sum(map(len, kept)), max(busy)) == (len(plan.execution.containers), 1)


@settings(max_examples=deep(25))
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6))
def test_containers_stay_where_they_are_if_there_are_fewer(partitions, fewer, slots):
    app = application(partitions)
    old = plan_application(app)
    before = place(old, min(slots, len(old.execution.containers)))
    new = changed(app, old, Repartition("step", max(1, partitions - fewer)))
    was, now = homes(before), homes(after := place_following(new, before, []))
    assert all(was[one] == now[one] for one in now if one in was)
    spread = partitions_by_slot(new, after, "step")
    assert spread[-1] - spread[0] <= 1


def test_a_changed_plan_has_wishes_like_any_other():
    """Its ids are not those that a plan has at the start."""
    app = application(2, AffinityRule("AFFINITY", ["source", "step"]))
    old = plan_application(app)
    new = changed(
        app,
        old,
        Repartition("step", 3),
        AddOperator("more", {"class": "support.stram.plans.Counter"}),
        AddSink("items", "more.data"),
    )
    placement = place_following(new, place(old, 2), [2, 3])
    capacities = {"one": HostCapacity(4), "two": HostCapacity(4)}
    preferences = host_preferences(new, placement, capacities)
    assert preferences.keys() == {slot for slot, hosted in enumerate(placement) if hosted}
    assert PlanRules(new).place(2, {}) is not None


def test_strict_rules_that_cannot_be_kept_are_found_before():
    rule = AffinityRule("ANTI_AFFINITY", ["step", "step"])
    app = application(2, rule)
    old = plan_application(app)
    capacities, where = {"one": HostCapacity(4), "two": HostCapacity(4)}, {0: "one", 1: "two"}
    new = changed(app, old, Repartition("step", 3))
    placement = place_following(new, place(old, 2), [])
    assert PlanRules(new).strict_broken(placement, where, capacities)
    assert not PlanRules(new).strict_broken(placement, where, {})


def two_slots():
    slots = Slots(((0,), (1,)), 1, NoRules())
    slots.start()
    assert there(0, 1, of=slots) == (SendAssignments(),)
    return slots


def test_reserved_slots_come_without_a_word_and_host_from_the_change_on():
    slots = two_slots()
    assert slots.numbers(2) == [2, 3]
    assert slots.reserve([2, 3], {}) == [StartSlot(2, 0), StartSlot(3, 0)]
    assert not there(3, 2, of=slots)
    assert slots.active == [0, 1]
    assert slots.change(((0,), (1,), (2,), (3,)), NoRules()) == (SendAssignments(),)


def test_numbers_without_containers_are_of_no_slot():
    slots = two_slots()
    slots.reserve([3], {})
    assert slots.numbers(2) == [2, 4]
    there(3, of=slots)
    assert slots.change(((0,), (1,), (), (2,), ()), NoRules()) == (SendAssignments(),)
    assert slots.numbers(3) == [2, 4, 5]
    assert slots.change(((0, 2), (1,), (), (), ()), NoRules()) == (
        RetireSlot(3, orderly=True),
        SendAssignments(),
    )


def test_a_change_waits_for_slots_that_are_not_there():
    slots = two_slots()
    slots.reserve([2], {})
    assert not slots.change(((0,), (1,), (2,)), NoRules())
    assert slots.missing == [2]
    assert there(2, of=slots) == (SendAssignments(),)


def test_slots_are_given_back_whether_they_have_come_or_not():
    slots = two_slots()
    slots.reserve([2, 3], {})
    there(2, of=slots)
    assert slots.give_back([2, 3]) == [RetireSlot(2, orderly=True), RetireSlot(3, orderly=True)]
    assert not slots.give_back([2, 3])
    assert slots.members.keys() == {0, 1}


def test_a_number_is_used_again_once_its_job_has_ended():
    slots = two_slots()
    assert slots.change(((0, 1), ()), NoRules()) == (RetireSlot(1, orderly=True), SendAssignments())
    assert slots.numbers(1) == [2]
    assert not slots.job_ended(1, "")
    assert slots.numbers(2) == [1, 2]
    assert slots.reserve([1], {}) == [StartSlot(1, 1)]
    assert slots.numbers(1) == [2]


def test_a_slot_that_is_lost_while_its_containers_go_is_not_awaited():
    slots = two_slots()
    slots.lost(1, "killed")
    assert slots.change(((0, 1), ()), NoRules()) == (RetireSlot(1, orderly=True), SendAssignments())


def test_a_reserved_slot_whose_job_has_ended_is_started_again_if_it_is_needed():
    slots = two_slots()
    slots.reserve([2], {})
    assert not slots.job_ended(2, "it cannot start")
    assert slots.change(((0,), (1,), (2,)), NoRules()) == (StartSlot(2, 1),)


def test_the_loss_of_places_leaves_reserved_slots_alone():
    slots = two_slots()
    slots.reserve([2], {})
    there(2, of=slots)
    slots.lost(1, "killed")
    assert slots.shrink_to(1) == (RetireSlot(1), SendAssignments())
    assert slots.placement == ((0, 1), (), ())
    assert 2 in slots.members


def _spread_as_defined(plan, placement, fresh):
    """Of all pairs of a slot and a share, those with most in common first; quadratic."""
    slots = [*(slot for slot, hosted in enumerate(placement) if hosted), *fresh]
    shares = place(plan, len(slots))
    width = max([len(placement), *(slot + 1 for slot in fresh)])
    before = [set(placement[slot]) if slot < len(placement) else set() for slot in range(width)]
    pairs = ((-len(before[slot].intersection(share)), slot, share) for slot in slots for share in shares)
    found = {}
    for _, slot, share in sorted(pairs):
        if slot not in found and share not in found.values():
            found[slot] = share
    return tuple(found.get(slot, ()) for slot in range(width))


SPREAD = plan_application(application(12))


@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 2**32))
def test_each_share_goes_to_the_slot_that_hosts_most_of_it(slots, more, seed):
    chance = random.Random(seed)
    containers = [container.id for container in SPREAD.execution.containers]
    home_of = {container: chance.randrange(slots) for container in containers}
    placement = tuple(tuple(one for one in containers if home_of[one] == slot) for slot in range(slots))
    empty = [slot for slot, hosted in enumerate(placement) if not hosted]
    fresh = [*chance.sample(empty, min(more, len(empty))), *range(slots, slots + more)]
    most = len(containers) - sum(map(bool, placement))
    fresh = fresh[: max(0, most)]
    assert place_spread(SPREAD, placement, fresh) == _spread_as_defined(SPREAD, placement, fresh)


def test_what_is_asked_after_the_end_is_refused() -> None:
    changes = Requests()
    waiting = changes.ask(EditPlan(()), "test")
    changes.close()
    late = changes.ask(EditPlan(()), "test")
    assert [one.state for one in (waiting, late)] == ["REFUSED", "REFUSED"]
    assert [row["reason"] for row in changes.rows()] == ["the application has ended"] * 2
    assert not changes.take()
