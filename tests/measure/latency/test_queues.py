"""A container waits for its producers only, and for its slot: a queue before it is wait."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from support.depth import deep
from support.measure.latency_by_hand import critical_path
from support.measure.simulated_window import (
    SEED_MS,
    blame_chain,
    graph,
    ids,
    operator_latencies,
    run,
    seed_graph,
    wild_windows,
)

MOVED = {**SEED_MS, "D": 150}


def steps(topology, times):
    return [(step.what, step.operator, round(1000 * step.seconds)) for step in blame_chain(topology, times)]


def test_a_queue_of_earlier_windows_is_wait_and_not_the_operators_own():
    topology = seed_graph()
    times = run(topology, MOVED, queued={"C": 800})
    found = operator_latencies(topology, times)
    own = {operator: one.own for operator, one in found.items()}
    c = found[ids(topology)["C"]]

    assert (c.wait, c.compute, c.transfer) == pytest.approx((0.8, 0.1, 0.0), abs=1e-6)
    path = "".join(topology.by_id[operator].title for operator in critical_path(topology, own).path)
    assert path == "ABD"
    assert steps(topology, times) == [("slot", "C", 800), ("compute", "C", 100), ("compute", "E", 20)]


def test_what_the_first_container_waits_for_its_slot_is_no_launch():
    topology = graph({"A": (0, 0)}, [])
    times = run(topology, {"A": 10}, queued={"A": 40})
    assert steps(topology, times) == [("slot", "A", 40), ("compute", "A", 10)]


def test_nobody_waits_for_a_stage():
    topology = seed_graph()
    times = run(topology, MOVED)

    assert steps(topology, times) == [("compute", "B", 5), ("compute", "D", 150)]
    assert operator_latencies(topology, times)[ids(topology)["D"]].wait == 0


def two_paths():
    """Two chains whose ends share a slot: A ends early and feeds C, B ends late and feeds D."""
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (3, 1)}, ["AC", "BD"])
    times = run(topology, {"A": 10, "B": 100, "C": 5, "D": 20}, tasks={2: "s", 3: "s"})
    return topology, times


def test_who_ran_before_in_the_slot_is_left_out_where_nobody_waited_for_it():
    topology, times = two_paths()

    assert steps(topology, times) == [("compute", "B", 100), ("compute", "D", 20)]


def test_the_slowest_of_a_stage_is_left_out_where_nobody_waited_for_it():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (3, 1)}, ["AC", "BD"])
    times = run(topology, {"A": 10, "B": 100, "C": 200, "D": 5})

    assert steps(topology, times) == [("compute", "A", 10), ("compute", "C", 200)]


def test_a_wait_for_the_slot_is_of_those_that_ran_meanwhile():
    topology = graph({"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (3, 1)}, ["AC", "BD"])
    tasks = {2: "s", 3: "s"}
    times = run(topology, {"A": 10, "B": 10, "C": 50, "D": 20}, tasks=tasks, queued={"D": 5})

    found = steps(topology, times)
    assert found == [("compute", "B", 10), ("slot", "C", 55), ("compute", "D", 20)]


def parts(topology, times):
    """Compute, wait and transfer of each operator in milliseconds, by title."""
    return {
        topology.by_id[operator].title: tuple(
            round(1000 * part) for part in (one.compute, one.wait, one.transfer)
        )
        for operator, one in operator_latencies(topology, times).items()
    }


def with_busy(times, container, *stretches):
    """The slot of a container was busy in these stretches: milliseconds before its input had come."""
    containers = dict(times.containers)
    found = containers[container]
    busy = tuple(time / 1000 for time in stretches)
    containers[container] = replace(found, busy=busy)
    return replace(times, containers=containers)


def moved_by(times, container, milliseconds):
    """All that a container does, and when its input had come, later by so much."""
    later = milliseconds / 1000
    found = times.containers[container]
    names = ("task_began", "began", "restored", "ran", "written", "ready")
    containers = {
        **times.containers,
        container: replace(found, **{name: getattr(found, name) + later for name in names}),
    }
    operators = {
        operator: replace(own, began=own.began + later, ended=own.ended + later)
        if own.container == container
        else own
        for operator, own in times.operators.items()
    }
    names = ("returned", "staged", "committed", "published")
    commit = replace(times.commit, **{name: getattr(times.commit, name) + later for name in names})
    return replace(times, commit=commit, containers=containers, operators=operators)


def test_a_sibling_of_the_upstream_is_wait():
    places = {"feed": (0, 0), "light": (0, 0), "work": (1, 1), "sink": (1, 1)}
    topology = graph(places, [("feed", "light"), ("feed", "work"), ("work", "sink")])
    times = run(topology, {"feed": 1, "light": 30, "work": 40, "sink": 2}, state_ms=3)

    assert parts(topology, times)["work"] == (40, 30, 3)  # the state of feed's container is on the way
    own = {operator: one.own for operator, one in operator_latencies(topology, times).items()}
    assert critical_path(topology, own).latency_seconds == pytest.approx(0.046, abs=1e-6)


def test_another_producer_of_the_container_is_wait():
    places = {"A": (0, 0), "B": (1, 0), "C": (2, 1), "D": (2, 1)}
    topology = graph(places, ["AC", "BD"])
    times = run(topology, {"A": 10, "B": 70, "C": 5, "D": 5})

    assert parts(topology, times)["C"] == (5, 60, 0)
    assert parts(topology, times)["D"] == (5, 5, 0)


def test_what_came_while_the_slot_ran_something_waited_for_it():
    topology = graph({"A": (0, 0), "B": (1, 1)}, ["AB"])
    times = moved_by(run(topology, {"A": 10, "B": 20}), 1, 100)
    assert parts(topology, times)["B"] == (20, 0, 100)

    busy = with_busy(times, 1, 160, 90, 60, 5)  # it was sent 100 ms before it was read
    assert parts(topology, busy)["B"] == (20, 65, 35)
    assert steps(topology, busy) == [
        ("compute", "A", 10),
        ("slot", "B", 10),
        ("launch", "", 30),
        ("slot", "B", 55),
        ("launch", "", 5),
        ("compute", "B", 20),
    ]


@settings(deadline=None, max_examples=deep(30))
@given(wild_windows(slots=True))
def test_the_parts_add_up_whatever_the_clocks_of_slots_say(case):
    topology, times = case
    for found in operator_latencies(topology, times).values():
        parts = found.compute, found.wait, found.transfer
        assert sum(parts) == pytest.approx(found.latency, abs=1e-6)
        assert all(part >= -1e-6 for part in parts)
    assert sum(step.seconds for step in blame_chain(topology, times)) == pytest.approx(
        times.latency_seconds, abs=1e-6
    )
