"""Stories of slots: what joins, what is lost, what follows."""

from hypothesis import given
from hypothesis import strategies as st

from ridgeline.stram.placement import Offer, Wish
from ridgeline.stram.slots import (
    AskHosts,
    GiveUpSlot,
    Introduce,
    Member,
    Misplaced,
    MoveSlot,
    RetireSlot,
    Slots,
    StartSlot,
)


def member(number):
    return Member("host", 100 + number, f"address {number}")


def two_slots(recovery_attempts=1):
    slots = Slots(((0, 2), (1, 3)), recovery_attempts)
    assert list(slots.start()) == [StartSlot(0, 0), StartSlot(1, 0)]
    return slots


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


TWO_HOSTS = {"alpha": Offer(2), "beta": Offer(2)}


def on(host, number=0):
    return Member(host, 100 + number, "address", host)


def near_slots():
    """Two slots that must be on one host: alpha, or the first one that is there."""

    def wish(_placement, offers):
        return dict.fromkeys((0, 1), Wish(tuple(sorted(offers))[:1], binding=True)) if offers else {}

    slots = Slots(((0,), (1,)), 1, wish, TWO_HOSTS)
    assert list(slots.start()) == [StartSlot(0, 0, ("alpha",)), StartSlot(1, 0, ("alpha",))]
    return slots


def test_a_slot_on_the_wrong_host_is_asked_for_again_up_to_a_limit_and_that_is_said_once():
    slots = near_slots()
    slots.joined(0, on("alpha"))
    for job in (1, 2, 3):
        assert slots.joined(1, on("beta")) == (AskHosts(),)
        assert list(slots.offered(TWO_HOSTS)) == [MoveSlot(1, ("alpha",))]
        assert slots.missing == [1]
        assert slots.job_ended(1, "cancelled") == (StartSlot(1, job, ("alpha",)),)
    assert slots.joined(1, on("beta")) == (Misplaced(1, "beta", ("alpha",)), Introduce())
    slots.window_ran()
    slots.lost(0, "killed")
    assert slots.joined(0, on("alpha")) == (Introduce(),)


def test_a_slot_that_is_moved_has_not_failed():
    slots = near_slots()
    slots.joined(0, on("alpha"))
    slots.joined(1, on("beta"))
    slots.offered(TWO_HOSTS)
    slots.job_ended(1, "cancelled")
    assert slots.joined(1, on("alpha")) == (Introduce(),)
    assert slots.job_ended(1, "killed") == (StartSlot(1, 2, ("alpha",)),)
    assert slots.job_ended(1, "killed") == (GiveUpSlot(1, "killed", 2),)


def test_slots_of_a_host_that_is_gone_may_be_on_another_one():
    slots = near_slots()
    for slot in (0, 1):
        slots.joined(slot, on("beta"))
    left = {"beta": Offer(2)}
    assert slots.offered(left) == (Introduce(),)
    assert slots.job_ended(0, "killed") == (StartSlot(0, 1, ("beta",)),)


def test_a_slot_stays_where_it_is():
    slots = Slots(((0,), (1,)), 1, lambda _placement, _offers: {0: Wish(("alpha",))}, TWO_HOSTS)
    assert list(slots.start()) == [StartSlot(0, 0, ("alpha",)), StartSlot(1, 0)]
    slots.joined(0, on("beta"))
    assert slots.joined(1, on("alpha")) == (Introduce(),)
    assert slots.job_ended(0, "killed") == (StartSlot(0, 1, ("beta",)),)
    assert slots.job_ended(1, "killed") == (StartSlot(1, 1, ("alpha",)),)


def test_hosts_that_come_later_are_known_to_wishes():
    def wish(_placement, offers):
        return dict.fromkeys((0, 1), Wish(("alpha",), binding=True)) if len(offers) > 1 else {}

    slots = Slots(((0,), (1,)), 1, wish, {"alpha": Offer(1)})
    slots.joined(0, on("alpha"))
    assert slots.joined(1, on("beta")) == (AskHosts(),)
    assert slots.offered(TWO_HOSTS) == [MoveSlot(1, ("alpha",))]
