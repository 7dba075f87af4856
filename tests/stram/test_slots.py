"""Stories of slots: what joins, what is lost, what follows."""

from contextlib import nullcontext
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline import AffinityRule, Application
from ridgeline.plan.planner import plan_application
from ridgeline.stram.placement import HostCapacity, HostPreference, PlanRules, place
from ridgeline.stram.rules import describe_given_up
from ridgeline.stram.slot_resources import NEEDS, Need, needs_of, not_given, place_within
from ridgeline.stram.slots import (
    SLOT_TRANSITIONS,
    AskHosts,
    GiveUpRule,
    GiveUpSlot,
    Member,
    Misplaced,
    MoveSlot,
    RetireSlot,
    SendAssignments,
    SlotPhase,
    Slots,
    StartSlot,
)
from ridgeline.stram.windows import IllegalTransitionError
from support.depth import deep
from support.stram.no_rules import NoRules
from support.stram.plans import Counter, Source


def member(number):
    return Member("host", 100 + number, f"address {number}")


def two_slots(recovery_attempts=1):
    slots = Slots(((0, 2), (1, 3)), recovery_attempts, NoRules())
    assert list(slots.start()) == [StartSlot(0, 0), StartSlot(1, 0)]
    return slots


@pytest.mark.parametrize(("phase", "following"), [*product(SlotPhase, repeat=2)])
def test_only_legal_transitions_of_slots_are_made(phase, following):
    slots = two_slots()
    slots._rows[1].phase = phase
    legal = following is phase or following in SLOT_TRANSITIONS[phase]
    words = f"slot 1 cannot go from {phase.name} to {following.name}: "
    with nullcontext() if legal else pytest.raises(IllegalTransitionError, match=words):
        slots._enter(1, following)
    assert slots._rows[1].phase is (following if legal else phase)


def test_slots_are_introduced_once_all_are_there_and_a_process_that_joins_as_one_of_them_replaces_it():
    slots = two_slots()
    assert not slots.joined(1, member(1))
    assert slots.missing == [0]
    assert slots.joined(0, member(0)) == (SendAssignments(),)
    assert slots.members == {0: member(0), 1: member(1)}
    assert slots.joined(1, member(8)) == (SendAssignments(),)
    assert slots.members[1] == member(8)


def test_a_slot_that_is_lost_comes_back_by_sparks_own_retry():
    slots = two_slots()
    slots.joined(0, member(0))
    slots.joined(1, member(1))
    assert slots.lost(1, "connection closed") == member(1)
    assert slots.lost(1, "again") is None
    assert slots.missing == [1]
    assert slots.has_joined_before(1)
    assert slots.joined(1, member(7)) == (SendAssignments(),)
    assert slots.members[1] == member(7)


def test_a_slot_that_spark_has_given_up_gets_a_new_job_until_it_has_failed_too_often():
    slots = two_slots(recovery_attempts=1)
    slots.joined(0, member(0))
    assert slots.job_ended(0, "killed") == (StartSlot(0, 1),)
    assert slots.missing == [0, 1]
    assert slots.job_ended(0, "killed again") == (GiveUpSlot(0, "killed again", 2),)


def test_a_job_without_a_reason_has_that_of_the_connection():
    slots = two_slots(recovery_attempts=0)
    slots.joined(0, member(0))
    slots.lost(0, "connection reset")
    assert slots.job_ended(0, "") == (GiveUpSlot(0, "connection reset", 1),)


def test_a_window_that_ran_forgives_what_was_lost_before():
    slots = two_slots(recovery_attempts=1)
    for number in range(5):
        assert slots.job_ended(0, "killed") == (StartSlot(0, number + 1),)
        slots.window_ran()


def test_slots_without_a_core_are_retired_and_their_containers_spread():
    slots = Slots(((0, 3), (1, 4), (2, 5)), 1, NoRules())
    slots.start()
    for number in range(3):
        slots.joined(number, member(number))
    slots.lost(0, "host gone")
    slots.lost(2, "host gone")
    assert not slots.shrink_to(3)
    assert not slots.shrink_to(0)
    assert list(slots.shrink_to(1)) == [RetireSlot(0), RetireSlot(2), SendAssignments()]
    assert slots.placement == ((), (0, 1, 2, 3, 4, 5), ())
    assert not slots.missing
    assert not slots.job_ended(0, "cancelled")


@given(st.data())
def test_making_do_keeps_every_container_and_retires_those_that_are_away_first(data):
    number = data.draw(st.integers(1, 6))
    slots = Slots(
        tuple((slot, number + slot) for slot in range(number)), recovery_attempts=1, rules=NoRules()
    )
    there = data.draw(st.sets(st.integers(0, number - 1)))
    for slot in there:
        slots.joined(slot, member(slot))
    places = data.draw(st.integers(1, number))
    found = slots.shrink_to(places)
    assert sorted(container for hosted in slots.placement for container in hosted) == list(range(2 * number))
    assert len(slots.active) == places
    kept = there & set(slots.active)
    assert len(kept) == min(places, len(there))
    assert set(slots.members) == kept
    assert (SendAssignments() in found) == (not slots.missing and places < number)


TWO_HOSTS = {"alpha": HostCapacity(2), "beta": HostCapacity(2)}


def on(host, number=0):
    return Member(host, 100 + number, "address", host)


class Preferring(NoRules):
    """Wishes of a function of the hosts, and no other rules."""

    def __init__(self, preference):
        self._wish = preference

    def host_preferences(self, placement, capacities, stay):
        return self._wish(capacities)


def near_slots():
    """Two slots that must be on one host: alpha, or the first one that is there."""

    def preference(capacities):
        return (
            dict.fromkeys((0, 1), HostPreference(tuple(sorted(capacities))[:1], binding=True))
            if capacities
            else {}
        )

    slots = Slots(((0,), (1,)), 1, Preferring(preference), TWO_HOSTS)
    assert list(slots.start()) == [StartSlot(0, 0, ("alpha",)), StartSlot(1, 0, ("alpha",))]
    return slots


def test_a_slot_on_the_wrong_host_is_asked_for_again_up_to_a_limit_and_that_is_said_once():
    slots = near_slots()
    slots.joined(0, on("alpha"))
    for job in (1, 2, 3):
        assert slots.joined(1, on("beta")) == (AskHosts(),)
        assert list(slots.hosts_changed(TWO_HOSTS)) == [MoveSlot(1, ("alpha",))]
        assert slots.missing == [1]
        assert slots.job_ended(1, "cancelled") == (StartSlot(1, job, ("alpha",)),)
    assert slots.joined(1, on("beta")) == (Misplaced(1, "beta", ("alpha",)), SendAssignments())
    slots.window_ran()
    slots.lost(0, "killed")
    assert slots.joined(0, on("alpha")) == (SendAssignments(),)


def test_a_slot_that_is_moved_has_not_failed():
    slots = near_slots()
    slots.joined(0, on("alpha"))
    slots.joined(1, on("beta"))
    slots.hosts_changed(TWO_HOSTS)
    slots.job_ended(1, "cancelled")
    assert slots.joined(1, on("alpha")) == (SendAssignments(),)
    assert slots.job_ended(1, "killed") == (StartSlot(1, 2, ("alpha",)),)
    assert slots.job_ended(1, "killed") == (GiveUpSlot(1, "killed", 2),)


def test_slots_of_a_host_that_is_gone_may_be_on_another_one():
    slots = near_slots()
    for slot in (0, 1):
        slots.joined(slot, on("beta"))
    left = {"beta": HostCapacity(2)}
    assert slots.hosts_changed(left) == (SendAssignments(),)
    assert slots.job_ended(0, "killed") == (StartSlot(0, 1, ("beta",)),)


def test_a_slot_stays_where_it_is():
    slots = Slots(((0,), (1,)), 1, Preferring(lambda _capacities: {0: HostPreference(("alpha",))}), TWO_HOSTS)
    assert list(slots.start()) == [StartSlot(0, 0, ("alpha",)), StartSlot(1, 0)]
    slots.joined(0, on("beta"))
    assert slots.joined(1, on("alpha")) == (SendAssignments(),)
    assert slots.job_ended(0, "killed") == (StartSlot(0, 1, ("beta",)),)
    assert slots.job_ended(1, "killed") == (StartSlot(1, 1, ("alpha",)),)


def test_hosts_that_come_later_are_known_to_wishes():
    def preference(capacities):
        return dict.fromkeys((0, 1), HostPreference(("alpha",), binding=True)) if len(capacities) > 1 else {}

    slots = Slots(((0,), (1,)), 1, Preferring(preference), {"alpha": HostCapacity(1)})
    slots.joined(0, on("alpha"))
    assert slots.joined(1, on("beta")) == (AskHosts(),)
    assert slots.hosts_changed(TWO_HOSTS) == [MoveSlot(1, ("alpha",))]


def ruled_slots(*rules, slots, hosts, partitions=3):
    """Slots of a source and a step in partitions, under rules, as if on a cluster with these hosts."""
    app = Application("app")
    source = app.add_operator("source", Source())
    step = app.add_operator("step", Counter(), partitions=partitions)
    app.add_stream("items", source.out, step.data)
    for rule in rules:
        app.add_affinity(rule)
    plan = plan_application(app)
    capacities = {host: HostCapacity(4) for host in hosts}
    found = Slots(place(plan, slots), 9, PlanRules(plan), capacities)
    asked = found.start()
    assert all(one.hosts for one in asked)
    where = {one.slot: one.hosts[0] for one in asked}
    for slot, host in where.items():
        last = found.joined(slot, on(host, slot))
    assert last == (SendAssignments(),)
    return found, where, plan


def homes(found, plan, where):
    """The hosts of the step's partitions, and of the source."""
    slot_of = {box: slot for slot, hosted in enumerate(found.placement) for box in hosted}
    names = {op.id: op.name for op in plan.physical.operators}
    at = {"source": [], "step": []}
    for box in plan.execution.containers:
        for one in box.operators:
            at[names[one]].append(where[slot_of[box.id]])
    return at


SPREAD = AffinityRule("ANTI_AFFINITY", ["step", "step"])
APART = AffinityRule("ANTI_AFFINITY", ["source", "step"])


def test_a_host_that_is_lost_has_its_slots_where_strict_rules_let_them_be():
    slots, where, plan = ruled_slots(SPREAD, slots=3, hosts=["a", "b", "c", "d"])
    lost = next(slot for slot, host in where.items() if host == homes(slots, plan, where)["step"][0])
    left = {host: HostCapacity(4) for host in "abcd" if host != where[lost]}
    slots.job_ended(lost, "host gone")
    wrong = next(host for slot, host in where.items() if slot != lost)
    assert slots.joined(lost, on(wrong, 9)) == (AskHosts(),)
    (moved,) = slots.hosts_changed(left)
    assert set(moved.hosts).isdisjoint({*where.values()})  # the fourth host
    slots.job_ended(lost, "moved")
    assert slots.joined(lost, on(moved.hosts[0], 10)) == (SendAssignments(),)


@pytest.mark.guide("002", "Affinity Rules")
@pytest.mark.parametrize("relax", [False, True])
def test_a_rule_that_no_host_is_left_for_is_the_end_if_it_is_strict_and_else_is_told_once(relax):
    rule = AffinityRule("ANTI_AFFINITY", ["source", "step"], relax=relax)
    slots, where, _ = ruled_slots(rule, slots=2, hosts=["a", "b"], partitions=1)
    for _ in range(0 if relax else 3):
        slots.job_ended(0, "host gone")
        assert slots.joined(0, on(where[1], 9)) == (AskHosts(),)
        assert slots.hosts_changed({where[1]: HostCapacity(4)}) == [
            MoveSlot(0, (where[0],))
        ]  # it may come back
    slots.job_ended(0, "host gone")
    found = slots.joined(0, on(where[1], 9))
    if relax:
        assert found == (AskHosts(),)
        found = slots.hosts_changed({where[1]: HostCapacity(4)})
    (given_up,) = [one for one in found if isinstance(one, GiveUpRule)]
    assert given_up.hosts == (where[1],)
    text = describe_given_up(given_up.rule, given_up.hosts, given_up.slots)
    assert "rule `affinity 1` (ANTI_AFFINITY NODE_LOCAL of `source`, `step`)" in text
    assert f"there are 2 slots on host `{where[1]}`" in text
    assert ("give Spark more hosts" in text) is not relax
    assert (SendAssignments() in found) is relax
    if relax:
        slots.lost(1, "killed")
        assert slots.joined(1, on(where[1], 11)) == (SendAssignments(),)


def test_fewer_slots_keep_strict_rules_or_the_application_ends():
    slots, where, plan = ruled_slots(APART, slots=4, hosts=["a", "b"])
    before = homes(slots, plan, where)
    alone = next(slot for slot, hosted in enumerate(slots.placement) if where[slot] == before["source"][0])
    for slot in {0, 1, 2, 3} - {alone}:
        slots.lost(slot, "no core")
    found = slots.shrink_to(2)  # the source's slot and one beside the steps
    assert not any(isinstance(one, GiveUpRule) for one in found)
    after = homes(slots, plan, where)
    assert set(after["source"]).isdisjoint(after["step"])
    assert [one.rule.name for one in slots.shrink_to(1)] == ["affinity 1"]
    assert len(slots.active) == 2  # nothing has changed


def follow(slots, todo, capacities, choose):
    """Carry instructions out on these hosts, each time on one that `choose` takes; the rules given up."""
    todo, given_up = list(todo), []
    while todo:
        match todo.pop(0):
            case GiveUpRule(rule):
                given_up.append(rule)
            case AskHosts():
                todo += slots.hosts_changed(capacities)
            case MoveSlot(slot, hosts):
                slots.job_ended(slot, "moved")
                todo += slots.joined(
                    slot, on(choose(sorted(capacities.keys() & {*hosts}) or sorted(capacities)), slot)
                )
    return given_up


def test_a_rule_of_hosts_is_kept_where_slots_are_fewer():
    on_b = AffinityRule("AFFINITY", ["source"], hosts=["b"])
    slots, where, plan = ruled_slots(on_b, slots=3, hosts=["a", "b"])
    assert homes(slots, plan, where)["source"] == ["b"]
    for slot, host in where.items():
        if host == "b":
            slots.lost(slot, "no core")
    assert not follow(
        slots, slots.shrink_to(2), {"a": HostCapacity(4), "b": HostCapacity(4)}, lambda hosts: hosts[0]
    )
    at = {slot: member.node for slot, member in slots.members.items()}
    assert homes(slots, plan, at)["source"] == ["b"]


TOGETHER = AffinityRule("AFFINITY", ["source", "step"])
ON_TWO = AffinityRule("AFFINITY", ["step"], hosts=["a", "b"])
NOT_ON_A = AffinityRule("ANTI_AFFINITY", ["source"], hosts=["a"])
PREFER_C = AffinityRule("AFFINITY", ["source"], hosts=["c"], relax=True)
SETS = [[], [SPREAD], [APART], [TOGETHER, ON_TWO], [SPREAD, NOT_ON_A], [APART, PREFER_C], [ON_TWO, NOT_ON_A]]


@settings(deadline=None, max_examples=deep(25))
@given(st.sampled_from(SETS), st.integers(2, 3), st.data())
def test_strict_rules_are_kept_or_the_application_ends_whatever_comes_and_goes(rules, number, data):
    slots, _, plan = ruled_slots(*rules, slots=number, hosts="abcd", partitions=2)

    def choose(hosts):
        return data.draw(st.sampled_from(hosts))

    for _ in range(data.draw(st.integers(1, 8))):
        alive = sorted(data.draw(st.sets(st.sampled_from("abcd"), min_size=1)))
        capacities = {host: HostCapacity(4) for host in alive}
        todo = list(slots.shrink_to(data.draw(st.integers(1, 3))))
        for slot in slots.active:
            if slot not in slots.members or slots.members[slot].node not in alive:
                slots.lost(slot, "gone")
                todo += slots.joined(slot, on(choose(alive), slot))
        given_up = follow(slots, todo, capacities, choose)
        if any(not rule.relax for rule in given_up):
            return
        boxes = sorted(box for hosted in slots.placement for box in hosted)
        assert boxes == [box.id for box in plan.execution.containers]
        at = {slot: member.node for slot, member in slots.members.items()}
        assert all(rule.relax for rule in PlanRules(plan).broken(slots.placement, at, capacities))


def needy(partitions=2, **attributes):
    app = Application("app")
    source = app.add_operator("source", Source())
    step = app.add_operator("step", Counter(), partitions=partitions, **attributes)
    app.add_stream("items", source.out, step.data)
    return plan_application(app)


def test_a_slot_needs_the_sum_of_memory_and_gpus_and_the_most_cores_of_its_operators():
    plan = needy(memory_mb=512, vcores=3, gpus=1)
    assert needs_of(plan, ((0,), (1, 2)), NEEDS) == [Need(), Need(1024, 3, 2)]
    assert needs_of(plan, ((0,), (1, 2)), {"gpus"}) == [Need(), Need(0, 1, 2)]
    assert needs_of(plan, ((0, 1, 2), ()), NEEDS) == [Need(1024, 3, 2), Need()]


def test_what_the_cluster_cannot_give_is_named_with_its_operators():
    plan = needy(memory_mb=512, gpus=1)
    assert not_given(plan, {"vcores", "gpus"}) == {"memory_mb": ["step"]}
    assert not_given(plan, NEEDS) == {}


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 30))
def test_containers_are_placed_within_the_cores_that_there_are(partitions, vcores, cores):
    plan = needy(partitions=partitions, vcores=vcores)
    slots = min(cores, partitions + 1)
    placement = place_within(plan, slots, cores, NEEDS, {})
    used = sum(need.vcores for need in needs_of(plan, placement, NEEDS))
    assert used <= cores or len(placement) == 1
    if len(placement) < slots:
        more = needs_of(plan, place(plan, len(placement) + 1), NEEDS)
        assert sum(need.vcores for need in more) > cores
