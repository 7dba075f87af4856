"""Stories of slots: what joins, what is lost, what follows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api.errors import RidgelineError
from ridgeline.stram.slots import (
    GiveUpSlot,
    Introduce,
    Member,
    RetireSlot,
    Slots,
    StartSlot,
    count_slots,
    place,
)
from support.stram.plans import plan


def member(number):
    return Member("host", 100 + number, f"address {number}")


def two_slots(recovery_attempts=1):
    slots = Slots(((0, 2), (1, 3)), recovery_attempts)
    assert list(slots.start()) == [StartSlot(0, 0), StartSlot(1, 0)]
    return slots


def test_as_many_slots_as_containers_or_as_cores_are_left():
    assert count_slots(containers=4, cores=16) == 4
    assert count_slots(containers=4, cores=3) == 2
    assert count_slots(containers=4, cores=8, held=5) == 2


def test_what_local_spark_was_given_for_slots_leaves_its_own_cores_free():
    assert count_slots(containers=4, cores=4, extra=2) == 2
    assert count_slots(containers=1, cores=3, extra=1) == 1
    assert count_slots(containers=4, cores=4, extra=2, held=2) == 1


def test_spark_sources_leave_cores_to_the_tasks_that_read_for_them():
    assert count_slots(containers=8, cores=8, fed=2) == 6
    assert count_slots(containers=8, cores=8, fed=8) == 4
    assert count_slots(containers=4, cores=2, fed=2) == 1
    assert count_slots(containers=4, cores=4, extra=2, fed=2) == 2


def test_too_few_cores_say_how_many_are_needed():
    with pytest.raises(RidgelineError, match=r"slots need 2 cores .*; Spark has 1; give Spark more cores"):
        count_slots(containers=4, cores=1)
    with pytest.raises(RidgelineError, match=r"slots need 4 cores .* 2 for slots of other applications"):
        count_slots(containers=1, cores=3, held=2)


def test_a_partition_of_successive_stages_lives_in_one_slot():
    two_stages = plan(inputs=2, partitions=2)
    first, second = two_stages.execution.stages
    assert [len(first.containers), len(second.containers)] == [2, 4]
    assert place(two_stages, 2) == ((0, 2, 3), (1, 4, 5))


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 12))
def test_every_container_has_one_slot_and_slots_have_an_even_number(inputs, partitions, cores):
    found = plan(inputs=inputs, partitions=partitions)
    containers = [container.id for container in found.execution.containers]
    placed = place(found, min(cores, len(containers)))
    assert sorted(container for slot in placed for container in slot) == containers
    assert max(map(len, placed)) - min(map(len, placed)) <= 1


def test_slots_are_introduced_once_all_are_there():
    slots = two_slots()
    assert not slots.joined(1, member(1))
    assert slots.missing == [0]
    assert slots.joined(0, member(0)) == (Introduce(),)
    assert slots.members == {0: member(0), 1: member(1)}


def test_a_slot_that_is_lost_comes_back_by_sparks_own_retry():
    slots = two_slots()
    slots.joined(0, member(0))
    slots.joined(1, member(1))
    assert slots.lost(1, "connection closed") == member(1)
    assert slots.lost(1, "again") is None
    assert slots.missing == [1]
    assert slots.has_joined_before(1)
    assert slots.joined(1, member(7)) == (Introduce(),)
    assert slots.members[1] == member(7)


def test_a_process_that_joins_as_a_slot_that_is_there_replaces_it():
    slots = two_slots()
    slots.joined(0, member(0))
    slots.joined(1, member(1))
    assert slots.joined(1, member(8)) == (Introduce(),)
    assert slots.members[1] == member(8)


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
    slots = Slots(((0, 3), (1, 4), (2, 5)), recovery_attempts=1)
    slots.start()
    for number in range(3):
        slots.joined(number, member(number))
    slots.lost(0, "host gone")
    slots.lost(2, "host gone")
    assert not slots.make_do(3)
    assert not slots.make_do(0)
    assert list(slots.make_do(1)) == [RetireSlot(0), RetireSlot(2), Introduce()]
    assert slots.placement == ((), (0, 1, 2, 3, 4, 5), ())
    assert not slots.missing
    assert not slots.job_ended(0, "cancelled")


@given(st.data())
def test_making_do_keeps_every_container_and_retires_those_that_are_away_first(data):
    number = data.draw(st.integers(1, 6))
    slots = Slots(tuple((slot, number + slot) for slot in range(number)), recovery_attempts=1)
    there = data.draw(st.sets(st.integers(0, number - 1)))
    for slot in there:
        slots.joined(slot, member(slot))
    places = data.draw(st.integers(1, number))
    found = slots.make_do(places)
    assert sorted(container for hosted in slots.placement for container in hosted) == list(range(2 * number))
    assert len(slots.active) == places
    kept = there & set(slots.active)
    assert len(kept) == min(places, len(there))
    assert set(slots.members) == kept
    assert (Introduce() in found) == (not slots.missing and places < number)
