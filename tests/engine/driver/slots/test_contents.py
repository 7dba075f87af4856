"""What slots are sent about each other: what concerns them, and no more."""

from typing import NamedTuple

import pytest

from ridgeline import Application, InputOperator, InputPort, Operator, OutputPort
from ridgeline.engine.driver.heartbeats import spaced_seconds
from ridgeline.engine.driver.slots.contents import SlotContents
from ridgeline.engine.exchange.network import Peer
from ridgeline.engine.files.storage import MemoryStorage
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


def test_the_slot_that_is_left_beside_the_one_that_takes_containers_of_a_lost_one_learns_it():
    contents, containers = contents_of(1)
    three = (tuple(containers[:1]), tuple(containers[1:2]), tuple(containers[2:]))
    contents.slots.placement = three
    contents.place([Need()] * 3)
    dict(contents.assignments(ways(3)))
    contents.slots.placement = ((), three[0] + three[1], three[2])
    contents.place([Need()] * 3)
    assert sorted(dict(contents.assignments({1: ways(3)[1], 2: ways(3)[2]}))) == [1, 2]


@pytest.mark.parametrize(("workers", "seconds"), [(1, 1.0), (2_000, 1.0), (10_000, 5.0), (100_000, 7.5)])
def test_heartbeats_of_many_workers_come_less_often_and_in_time_for_the_watchdog(workers, seconds):
    assert spaced_seconds(1.0, 30.0, workers) == seconds


def test_heartbeats_that_are_rare_stay_as_they_are():
    assert spaced_seconds(20.0, 30.0, 100_000) == 20.0
