"""What slots are sent about each other: what concerns them, and no more."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.engine.driver.heartbeats import spaced_seconds
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.engine.slot.messages import encode
from ridgeline.plan.planner import plan_application
from ridgeline.stram.placement import place
from ridgeline.stram.slot_resources import Need
from ridgeline.stram.slots import Slots


class Number(NamedTuple):
    key: int


class Read(InputOperator):
    output = OutputPort(Number)

    def emit_tuples(self):
        pass


class Count(Operator):
    data = InputPort(Number, key="key")

    @data.process
    def add(self, number):
        pass


def application(pipelines, partitions=2):
    app = Application("app")
    for number in range(pipelines):
        read = app.add_operator(f"read{number}", Read(), partitions=partitions)
        count = app.add_operator(f"count{number}", Count(), partitions=partitions)
        app.add_stream(f"numbers{number}", read.output, count.data)
    return app


def contents_of(pipelines):
    """Contents with a slot for each container, and the container of each."""
    plan = plan_application(application(pipelines))
    placement = place(plan, len(plan.execution.containers))
    contents = SlotContents(plan, MemoryStorage(), "run", 1, 1.0)
    contents.slots = Slots(placement, 3)
    contents.place([Need()] * len(placement))
    return contents, [hosted[0] for hosted in placement]


@pytest.fixture
def three():
    """Three pipelines that have nothing to do with each other."""
    return contents_of(3)


def ways(count, **attempts):
    """Who slots are, and where they are reached; `s4=1`: slot 4 is another process."""
    return {slot: (Peer(slot, attempts.get(f"s{slot}", 0)), f"tcp:host:{slot}") for slot in range(count)}


def partners(contents, containers, slot):
    """The slots of those that a slot exchanges blocks with, by names of operators: the other stage."""
    names = [contents.operators[contents.containers[one][-1]].name for one in containers]
    kind, number = names[slot][:-1], names[slot][-1]
    other = ("count" if kind == "read" else "read") + number
    return {place for place, name in enumerate(names) if name == other}


def test_at_first_every_slot_learns_where_its_partners_are_and_of_no_others(three):
    contents, containers = three
    sent = dict(contents.assignments(ways(12)))
    assert sorted(sent) == list(range(12))
    for slot, host in sent.items():
        expected = partners(contents, containers, slot)
        assert host.containers == (containers[slot],)
        assert {peer.slot for peer in host.peers} == expected
        assert host.slots == {containers[other]: other for other in expected}


def test_a_slot_that_comes_back_is_introduced_to_its_partners_alone(three):
    contents, containers = three
    dict(contents.assignments(ways(12)))
    assert dict(contents.assignments(ways(12))) == {}
    again = dict(contents.assignments(ways(12, s4=1)))
    assert set(again) == {4} | partners(contents, containers, 4)
    assert all(Peer(4, 1) in host.peers for slot, host in again.items() if slot != 4)


def test_partners_of_a_container_that_moves_learn_it(three):
    contents, containers = three
    dict(contents.assignments(ways(12)))
    before = contents.slots.placement
    contents.slots.placement = (*before[:3], before[3] + before[11], *before[4:11], ())
    contents.place([Need()] * 12)
    moved = dict(contents.assignments({slot: way for slot, way in ways(12).items() if slot != 11}))
    learn = partners(contents, containers, 11)
    assert {3} | learn <= set(moved) <= {3} | learn | partners(contents, containers, 3)
    assert all(host.slots[containers[11]] == 3 for slot, host in moved.items() if slot in learn)


def test_the_slot_that_is_left_beside_the_one_that_takes_containers_of_a_lost_one_learns_it():
    contents, containers = contents_of(1)
    three = (tuple(containers[:1]), tuple(containers[1:2]), tuple(containers[2:]))
    contents.slots.placement = three
    contents.place([Need()] * 3)
    dict(contents.assignments(ways(3)))
    contents.slots.placement = ((), three[0] + three[1], three[2])
    contents.place([Need()] * 3)
    assert sorted(dict(contents.assignments({1: ways(3)[1], 2: ways(3)[2]}))) == [1, 2]


def test_a_slot_that_was_emptied_gets_all_again_when_it_hosts_something(three):
    contents, _ = three
    dict(contents.assignments(ways(12)))
    host = contents.emptied(5)
    assert (dict(host.slots), dict(host.peers)) == ({}, {})
    assert 5 in dict(contents.assignments(ways(12)))


def test_after_a_change_of_the_plan_every_slot_gets_its_containers(three):
    contents, _ = three
    dict(contents.assignments(ways(12)))
    contents.follow(plan_application(application(3)))
    assert sorted(dict(contents.assignments(ways(12)))) == list(range(12))


def test_files_of_the_plan_are_written_for_those_slots_that_host_others_than_before(three):
    contents, _ = three
    before = list(contents.files)
    placement = contents.slots.placement
    contents.slots.placement = (*placement[:3], placement[3] + placement[11], *placement[4:11], ())
    contents.place([Need()] * 12)
    assert [slot for slot in range(11) if contents.files[slot] is not before[slot]] == [3]
    contents.follow(plan_application(application(3)))
    contents.place([Need()] * 12)
    assert all(one is not old for one, old in zip(contents.files, before, strict=True))


def bytes_of_an_assignment(pipelines):
    """The most that a slot gets when all are there."""
    contents, containers = contents_of(pipelines)
    sent = contents.assignments(ways(len(containers)))
    return max(len(encode(host)[1]) for _, host in sent)


def test_what_a_slot_gets_does_not_grow_with_the_number_of_slots():
    assert bytes_of_an_assignment(30) < bytes_of_an_assignment(3) + 50


@pytest.mark.parametrize(("workers", "seconds"), [(1, 1.0), (2_000, 1.0), (10_000, 5.0), (100_000, 7.5)])
def test_heartbeats_of_many_workers_come_less_often_and_in_time_for_the_watchdog(workers, seconds):
    assert spaced_seconds(1.0, 30.0, workers) == seconds


def test_heartbeats_that_are_rare_stay_as_they_are():
    assert spaced_seconds(20.0, 30.0, 100_000) == 20.0
